"""Watches a namespace from outside, in threads and over connections of its own."""

import http.client
import json
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from testcluster.client import Client, JsonObject
from testcluster.cluster import TestCluster

READ_SECONDS = 600.0

Take = Callable[[str, JsonObject], None]


class NamespaceWatch:
    """Calls a function with the type and the object of every event at each of some paths."""

    def __init__(self, cluster: TestCluster, paths: dict[str, Take]) -> None:
        self.problems: list[str] = []
        self._client: Client = cluster.client
        self._paths = paths
        self._connections: list[http.client.HTTPSConnection] = []
        self._threads: list[threading.Thread] = []
        self._ends = False

    def __enter__(self) -> Self:
        for path, take in self._paths.items():
            listed = self._client.get(path)
            for item in listed["items"]:
                take("ADDED", item)
            self._listed()
            version = listed["metadata"]["resourceVersion"]
            thread = threading.Thread(target=self._follow, args=(take, path, version), daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ends = True
        for connection in self._connections:
            if connection.sock is not None:
                connection.sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)
        self._client.close()

    def _listed(self) -> None:
        """Called when a path was listed, before it is watched."""

    def _follow(self, take: Take, path: str, version: str) -> None:
        connection = self._client.connect()
        connection.timeout = READ_SECONDS
        self._connections.append(connection)
        headers = {"Authorization": f"Bearer {self._client.token}"}
        connection.request("GET", f"{path}?watch=true&resourceVersion={version}", headers=headers)
        try:
            for line in connection.getresponse():
                event: dict[str, Any] = json.loads(line)
                if event["type"] == "ERROR":
                    self.problems.append(str(event["object"]))
                else:
                    take(event["type"], event["object"])
        except (OSError, ValueError, http.client.HTTPException, AttributeError) as error:
            if not self._ends:
                self.problems.append(f"the watcher lost {path}: {error!r}")
        else:
            if not self._ends:
                self.problems.append(f"the watcher's connection to {path} ended")
