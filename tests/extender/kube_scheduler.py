"""Pods for a real kube-scheduler with an extender, and other extenders that misbehave."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from testcluster.builders import pod
from testcluster.client import JsonObject
from testcluster.processes import Component
from testcluster.waiting import wait_until
from tests.migration.support import TEST_LABEL, Sandbox, node_of

OURS = "rescheduler-scheduler"


class Pods:
    """Pods in a test's namespace that one scheduler is to schedule."""

    def __init__(self, sandbox: Sandbox, scheduler: str = OURS, group: str = "") -> None:
        self.sandbox = sandbox
        self.scheduler = scheduler
        self.selector = {TEST_LABEL: sandbox.namespace, **({"group": group} if group else {})}

    def create(self, name: str, **options: Any) -> None:
        """A pod that is not scheduled yet."""
        pending = pod(
            f"{self.sandbox.namespace}/{name}",
            schedulerName=self.scheduler,
            nodeSelector=self.selector,
            **options,
        )
        self.sandbox.outside.create(self.sandbox.path("pods"), pending)

    def node_of(self, name: str) -> str:
        """The node of a pod; empty if it has none yet."""
        found = self.sandbox.pod(name)
        assert found is not None
        return node_of(found)

    def placed(self, name: str, timeout: float = 120) -> str:
        """The node of a pod, once it is scheduled."""
        return wait_until(lambda: self.node_of(name), timeout, f"{name} is scheduled")

    def place(self, name: str, **options: Any) -> str:
        """Create a pod and wait for its node."""
        self.create(name, **options)
        return self.placed(name)

    def why_not(self, name: str) -> str:
        """The scheduler's message about a pod that it cannot schedule."""
        found = self.sandbox.pod(name) or {}
        for condition in found.get("status", {}).get("conditions", []):
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                return str(condition["message"])
        return ""


class FixedResponse(http.server.BaseHTTPRequestHandler):
    """An extender that always sends its server's `response`; status 0 is never to respond."""

    server: "OtherExtender"

    def do_POST(self) -> None:
        self.server.requests += 1
        self.rfile.read(int(self.headers["Content-Length"]))
        status, body = self.server.response
        if status == 0:
            self.server.closing.wait()
            return
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


class OtherExtender(http.server.ThreadingHTTPServer):
    """Listens on a port of its own."""

    daemon_threads = True

    def __init__(self, status: int, body: bytes = b"") -> None:
        super().__init__(("127.0.0.1", 0), FixedResponse)
        self.response = (status, body)
        self.requests = 0
        self.closing = threading.Event()

    @property
    def extender(self) -> JsonObject:
        """Its entry in a scheduler's configuration."""
        url = f"http://127.0.0.1:{self.server_port}/extender"
        return {"urlPrefix": url, "enableHTTPS": False, "tlsConfig": None}


@contextmanager
def serving(*servers: OtherExtender) -> Iterator[None]:
    """Serve while the block runs."""
    threads = [threading.Thread(target=server.serve_forever) for server in servers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for server in servers:
            server.closing.set()
            server.shutdown()
            server.server_close()


def log_of(scheduler: Component) -> str:
    """The log of a scheduler."""
    return scheduler.log.read_text()
