"""A small HTTP client for tests, to check a cluster from outside.

It shares no code with the client under test, so that an error there cannot hide itself.
"""

import http.client
import json
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

JsonObject = dict[str, Any]
MERGE_PATCH = "application/merge-patch+json"


class ApiError(Exception):
    """The API server refused; `reason` is that of the Status object, such as AlreadyExists."""

    def __init__(self, method: str, path: str, status: int, body: JsonObject) -> None:
        super().__init__(f"{method} {path}: {status} {body.get('message', body)}")
        self.status = status
        self.reason = str(body.get("reason", ""))


class Client:
    """Requests to one API server as one user, over a connection that is kept open.

    Not for use by several threads at once.
    """

    def __init__(self, server: str, token: str, ca_file: Path, timeout: float = 30.0) -> None:
        self.address = urlsplit(server)
        self.token = token
        self.timeout = timeout
        self.tls = ssl.create_default_context(cafile=str(ca_file))
        self.connection: http.client.HTTPSConnection | None = None

    def get(self, path: str) -> JsonObject:
        """The object or list at `path`."""
        return self.request("GET", path)

    def create(self, path: str, body: JsonObject) -> JsonObject:
        """The object that was created in the collection at `path`."""
        return self.request("POST", path, body)

    def replace(self, path: str, body: JsonObject) -> JsonObject:
        """The object at `path` (or `path`/status), replaced."""
        return self.request("PUT", path, body)

    def patch(self, path: str, body: JsonObject) -> JsonObject:
        """The object at `path`, with a merge patch applied: a None removes a field."""
        return self.request("PATCH", path, body, MERGE_PATCH)

    def delete(self, path: str) -> JsonObject:
        """Delete the object at `path`; returns the server's answer."""
        return self.request("DELETE", path)

    def exists(self, path: str) -> bool:
        """Whether there is an object at `path`."""
        try:
            self.get(path)
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    def request(
        self,
        method: str,
        path: str,
        body: JsonObject | None = None,
        content_type: str = "application/json",
    ) -> JsonObject:
        """The decoded answer; raises `ApiError` unless the status is a success."""
        status, answer = self.exchange(method, path, body, content_type)
        decoded = decode(answer)
        if status >= 300:
            raise ApiError(method, path, status, decoded)
        return decoded

    def exchange(
        self, method: str, path: str, body: JsonObject | None, content_type: str
    ) -> tuple[int, bytes]:
        """One request; on an old connection that the server has closed, once more on a new one."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type}
        encoded = None if body is None else json.dumps(body)
        is_reused = self.connection is not None
        if self.connection is None:
            self.connection = self.connect()
        try:
            self.connection.request(method, path, encoded, headers)
            response = self.connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException):
            self.close()
            if not is_reused:
                raise
        return self.exchange(method, path, body, content_type)

    def connect(self) -> http.client.HTTPSConnection:
        """A new connection, opened with the first request on it."""
        host, port = self.address.hostname, self.address.port
        assert host is not None
        return http.client.HTTPSConnection(host, port, timeout=self.timeout, context=self.tls)

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def decode(answer: bytes) -> JsonObject:
    """The answer as an object; health checks answer in plain text."""
    try:
        decoded = json.loads(answer)
    except ValueError:
        return {"message": answer.decode(errors="replace")}
    return decoded if isinstance(decoded, dict) else {"message": str(decoded)}
