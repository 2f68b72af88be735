"""Answers the probes of a kubelet over plain HTTP, for a controller that serves nothing else.

It runs on the loop of migrations: if that hangs, there is no answer, and the kubelet restarts the
pod.
"""

import asyncio
import logging
from collections.abc import Callable

from aiohttp import web

from rescheduler.errors import SettingsError
from rescheduler.extender.http.listener import listening_sockets
from rescheduler.settings import Policy

logger = logging.getLogger(__name__)


class HealthServer:
    """Serves `/healthz` and `/readyz`. `run` it until it is cancelled."""

    def __init__(
        self, host: str, port: int, policy: Policy, why_not_ready: Callable[[], str]
    ) -> None:
        self.policy = policy
        self._host, self._port = host, port
        self._why_not_ready = why_not_ready

    async def run(self) -> None:
        """Serve until cancelled."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await runner.setup()
        try:
            await self._listen(runner)
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()

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
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.StreamResponse:
        why = self._why_not_ready()
        return web.Response(status=503 if why else 200, text=f"{why or 'ok'}\n")
