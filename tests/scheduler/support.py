"""Pods for a real kube-scheduler that asks an extender, and stand-ins for that extender."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from testcluster.builders import pod
from testcluster.client import JsonObject
from testcluster.processes import Component
from testcluster.waiting import wait_until
from tests.migration.support import TEST_LABEL, Corner, node_of

OURS = "rescheduler-scheduler"


class Pods:
    """Pods of a corner that one scheduler is to place."""

    def __init__(self, corner: Corner, scheduler: str = OURS, group: str = "") -> None:
        self.corner = corner
        self.scheduler = scheduler
        self.selector = {TEST_LABEL: corner.namespace, **({"group": group} if group else {})}

    def create(self, name: str, **options: Any) -> None:
        """A pod that is not placed yet."""
        made = pod(
            f"{self.corner.namespace}/{name}",
            schedulerName=self.scheduler,
            nodeSelector=self.selector,
            **options,
        )
        self.corner.outside.create(self.corner.path("pods"), made)

    def node_of(self, name: str) -> str:
        """Where a pod is by now."""
        found = self.corner.pod(name)
        assert found is not None
        return node_of(found)

    def placed(self, name: str, timeout: float = 120) -> str:
        """Where a pod has been placed, once it has."""
        return wait_until(lambda: self.node_of(name), timeout, f"{name} is placed")

    def place(self, name: str, **options: Any) -> str:
        """Create a pod and wait for its place."""
        self.create(name, **options)
        return self.placed(name)

    def why_not(self, name: str) -> str:
        """What the scheduler says about a pod that it cannot place."""
        found = self.corner.pod(name) or {}
        for condition in found.get("status", {}).get("conditions", []):
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                return str(condition["message"])
        return ""


class StandIn(http.server.BaseHTTPRequestHandler):
    """An extender that answers whatever its server's `answer` says; None is never to answer."""

    server: "StandInServer"

    def do_POST(self) -> None:
        self.server.questions += 1
        self.rfile.read(int(self.headers["Content-Length"]))
        status, body = self.server.answer
        if status == 0:
            self.server.closing.wait()
            return
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class StandInServer(http.server.ThreadingHTTPServer):
    """Listens on a port of its own."""

    daemon_threads = True

    def __init__(self, status: int, body: bytes = b"") -> None:
        super().__init__(("127.0.0.1", 0), StandIn)
        self.answer = (status, body)
        self.questions = 0
        self.closing = threading.Event()

    @property
    def extender(self) -> JsonObject:
        """How a scheduler is told of it."""
        url = f"http://127.0.0.1:{self.server_port}/extender"
        return {"urlPrefix": url, "enableHTTPS": False, "tlsConfig": None}


@contextmanager
def standing_in(*servers: StandInServer) -> Iterator[None]:
    """Let stand-ins answer while the block runs."""
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
    """All that a scheduler has said."""
    return scheduler.log.read_text()
