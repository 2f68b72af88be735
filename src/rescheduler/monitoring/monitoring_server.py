"""Serves probes, metrics and status over plain HTTP.

It runs on the loop of migrations: if that hangs, there is no answer, and the kubelet restarts the
pod.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from rescheduler.errors import SettingsError
from rescheduler.kube.clock import WALL_CLOCK, Clock
from rescheduler.serving.listener import listening_sockets
from rescheduler.serving.refusals import probe_response
from rescheduler.settings import Policy

logger = logging.getLogger(__name__)

JSON = "application/json"
# How long a status is kept: of a large cluster it takes a while, and anyone may ask.
STATUS_SECONDS = 1.0


@dataclass(frozen=True)
class Pages:
    """What is served. Each function is called when it is asked for, and takes little time."""

    why_not_ready: Callable[[], str]
    """Why `/readyz` fails: what is missing. Empty if nothing is."""
    why_restart: Callable[[], str] = str
    """Why `/healthz` fails: what only a restart mends. Empty if there is nothing."""
    metrics: Callable[[], tuple[bytes, str]] | None = None
    """The content of `/metrics`, and its type."""
    status: Callable[[], bytes] | None = None
    """The content of `/status`, as JSON. It is kept for a second."""


class MonitoringServer:
    """Serves `/healthz`, `/readyz`, `/metrics` and `/status`. `run` it until it is cancelled."""

    def __init__(
        self,
        address: tuple[str, int],
        policy: Policy,
        pages: Pages,
        clock: Clock = WALL_CLOCK,
    ) -> None:
        self.policy = policy
        self._clock = clock
        self._kept_status: tuple[float, bytes] | None = None
        """When the last status was asked for, by the clock's seconds, and its content."""
        self._host, self._port = address
        self._pages = pages

    async def run(self) -> None:
        """Serve until cancelled."""
        runner = web.AppRunner(self._application(), access_log=None, handle_signals=False)
        await runner.setup()
        try:
            await self._listen(runner)
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()

    def _application(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        if self._pages.metrics is not None:
            app.router.add_get("/metrics", self._metrics)
        if self._pages.status is not None:
            app.router.add_get("/status", self._status)
        return app

    async def _listen(self, runner: web.AppRunner) -> None:
        try:
            sockets = await listening_sockets(self._host, self._port)
        except (OSError, UnicodeError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            place = f"{self._host}:{self._port}"
            raise SettingsError(f"{place}: cannot listen there: {why}") from error
        for sock in sockets:
            await web.SockSite(runner, sock).start()
        port = sockets[0].getsockname()[1]
        logger.info("Answering probes", extra={"host": self._host, "port": port})

    async def _healthz(self, request: web.Request) -> web.StreamResponse:
        return probe_response(self._pages.why_restart())

    async def _readyz(self, request: web.Request) -> web.StreamResponse:
        return probe_response(self._pages.why_not_ready())

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        assert self._pages.metrics is not None
        content, content_type = self._pages.metrics()
        return web.Response(body=content, headers={"Content-Type": content_type})

    async def _status(self, request: web.Request) -> web.StreamResponse:
        return web.Response(body=self._current_status(), content_type=JSON)

    def _current_status(self) -> bytes:
        assert self._pages.status is not None
        now = self._clock.seconds()
        if self._kept_status is None or now - self._kept_status[0] >= STATUS_SECONDS:
            self._kept_status = now, self._pages.status()
        return self._kept_status[1]
