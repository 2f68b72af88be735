"""An admission webhook that never answers: the API server waits for it, and then goes on."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from testcluster.client import Client, JsonObject

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
WEBHOOK_SECONDS = 3


class SilentWebhook:
    """Says nothing to whoever connects."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self._listening.setblocking(False)
        self._connections: list[socket.socket] = []
        self.port: int = listening.getsockname()[1]

    def asked(self) -> int:
        """How often the API server has connected."""
        while True:
            try:
                connection, _ = self._listening.accept()
            except BlockingIOError:
                return len(self._connections)
            self._connections.append(connection)

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


@contextmanager
def silent_webhook(
    client: Client, namespace: str, rule: JsonObject, *, only_if: str = "true"
) -> Iterator[SilentWebhook]:
    """Ask it about what is created in a namespace, if an expression in CEL says so."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        silent = SilentWebhook(listening)
        webhook = {
            "name": "silent.example.com",
            "clientConfig": {"url": f"https://127.0.0.1:{silent.port}/"},
            "rules": [{**rule, "operations": ["CREATE"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "matchConditions": [{"name": "only-if", "expression": only_if}],
            "failurePolicy": "Ignore",
            "timeoutSeconds": WEBHOOK_SECONDS,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        configuration = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": namespace},
            "webhooks": [webhook],
        }
        client.create(WEBHOOKS, configuration)
        try:
            yield silent
        finally:
            client.delete(f"{WEBHOOKS}/{namespace}")
            silent.close()
