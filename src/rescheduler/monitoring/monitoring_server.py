"""Serves probes, metrics and status over plain HTTP.

Every pod of the cluster may connect, so the server has a thread and limits of its own, as that of
the extender has. What is served is collected on the loop of migrations, since only that loop may
look at what it changes; it is written in the server's thread. If that loop hangs, the liveness
probe fails, and the kubelet restarts the pod.

The status names pods and nodes of everybody. It is for those alone who connect from the pod itself,
as the kubelet does for whoever may forward its ports.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from typing import Any, TypeVar

from aiohttp import web

from rescheduler.serving.http_serving import Port, serving
from rescheduler.serving.refusals import RequestRefused, probe_response
from rescheduler.serving.server_thread import on_loop
from rescheduler.serving.shared_answer import SharedAnswer
from rescheduler.settings import Policy

T = TypeVar("T")

logger = logging.getLogger(__name__)

# The kubelet, one or two Prometheus servers, people.
MOST_CONNECTIONS = 64
# Prometheus keeps its connection from one scrape to the next, usually a minute later.
KEEPALIVE_SECONDS = 75.0
# For one turn of the loop of migrations. Shorter than the kubelet waits for the liveness probe.
LOOP_SECONDS = 9.0
LOOP_HANGS = f"the loop of migrations has not taken a turn for {LOOP_SECONDS:g} s"
ONLY_INSIDE = (
    "the status is served inside the pod only: run rescheduler status, or forward the port with "
    "kubectl port-forward"
)


@dataclass(frozen=True)
class Document:
    """A page that is put together in two steps."""

    collect: Callable[[], Any]
    """Called on the loop of migrations: returns what nobody changes afterwards."""
    write: Callable[[Any], bytes]
    """Called in the server's thread with what was collected."""
    content_type: str


@dataclass(frozen=True)
class Pages:
    """What is served. Functions are called on the loop of migrations, and take little time."""

    why_not_ready: Callable[[], str]
    """Why `/readyz` fails: what is missing. Empty if nothing is."""
    why_restart: Callable[[], str] = str
    """Why `/healthz` fails: what only a restart mends. Empty if there is nothing."""
    metrics: Document | None = None
    """The content of `/metrics`."""
    status: Document | None = None
    """The content of `/status`."""


class MonitoringServer:
    """Serves `/healthz`, `/readyz`, `/metrics` and `/status`. `run` it until it is cancelled."""

    def __init__(self, address: tuple[str, int], policy: Policy, pages: Pages) -> None:
        self.policy = policy
        self._host, self._port = address
        self._pages = pages

    async def run(self) -> None:
        """Serve until cancelled."""
        routes = Routes(self._pages, asyncio.get_running_loop())
        port = Port(self._host, self._port, MOST_CONNECTIONS, KEEPALIVE_SECONDS)
        async with serving(routes.application, port) as number:
            logger.info("Answering probes", extra={"host": self._host, "port": number})
            await asyncio.Event().wait()


class Routes:
    """The paths, and what handles them in the server's thread."""

    def __init__(self, pages: Pages, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pages = pages

    def application(self, middleware: Any) -> web.Application:
        """All of them. A HEAD request is answered like a GET request."""
        pages = self._pages
        app = web.Application(middlewares=[middleware])
        app.router.add_get("/healthz", self._probe(pages.why_restart))
        app.router.add_get("/readyz", self._probe(pages.why_not_ready))
        if pages.metrics is not None:
            app.router.add_get("/metrics", self._page(pages.metrics))
        if pages.status is not None:
            app.router.add_get("/status", inside_only(self._page(pages.status)))
        return app

    def _probe(self, why_not: Callable[[], str]) -> "Handler":
        answer = SharedAnswer(partial(self._on_loop, why_not))

        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                return probe_response(await answer.get(LOOP_SECONDS))
            except TimeoutError:
                return probe_response(LOOP_HANGS)

        return handle

    def _page(self, document: Document) -> "Handler":
        async def find() -> bytes:
            return document.write(await self._on_loop(document.collect))

        answer = SharedAnswer(find)

        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                body = await answer.get(LOOP_SECONDS)
            except TimeoutError as error:
                unavailable = web.HTTPServiceUnavailable.status_code
                raise RequestRefused(unavailable, LOOP_HANGS) from error
            return web.Response(body=body, headers={"Content-Type": document.content_type})

        return handle

    async def _on_loop(self, collect: Callable[[], T]) -> T:
        return await on_loop(self._loop, lambda _: collect(), None)


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def inside_only(handler: Handler) -> Handler:
    """Refuses whoever does not connect inside the pod."""

    async def handle(request: web.Request) -> web.StreamResponse:
        transport = request.transport
        names = () if transport is None else map(transport.get_extra_info, ("peername", "sockname"))
        if not is_inside(*names):
            raise RequestRefused(web.HTTPForbidden.status_code, ONLY_INSIDE)
        return await handler(request)

    return handle


def is_inside(*ends: Any) -> bool:
    """Whether both ends of a connection are loopback addresses.

    A proxy beside us, as a service mesh has, may itself have a loopback address when it hands on
    what came from elsewhere to the address of the pod.
    """
    return len(ends) == 2 and all(end and ip_address(end[0]).is_loopback for end in ends)
