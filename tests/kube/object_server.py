"""A server that lists and watches objects byte by byte as a test has written them.

A real API server never stores most of what is tested with it: it would refuse the object, or write
it in another way.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec
from aiohttp import web

from rescheduler.kube.client import Client
from rescheduler.migration.migration_object import MIGRATION
from rescheduler.model.kinds import KINDS, Kind
from testcluster.client import JsonObject
from tests.kube.support import QUICK_CLIENT, credentials

LIST_VERSION = 1


class ObjectServer:
    """Lists `listed` in pages. A watch sends `events`, and those that are added while it runs."""

    def __init__(
        self, listed: Sequence[JsonObject] = (), events: Sequence[JsonObject] = ()
    ) -> None:
        self.listed = list(listed)
        self.events = list(events)
        self.watches = 0
        self.url = ""
        self._more = asyncio.Condition()

    async def send(self, event: JsonObject) -> None:
        """Send an event to every watch of its kind, also to those that begin later."""
        async with self._more:
            self.events.append(event)
            self._more.notify_all()

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """The client under test, connected to this server."""
        app = web.Application()
        for kind in (*KINDS, MIGRATION):
            app.router.add_get(kind.path, self._handler(kind))
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        assert site._server is not None
        port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        self.url = f"http://127.0.0.1:{port}"
        try:
            async with Client(credentials(self.url, "t"), QUICK_CLIENT) as client:
                yield client
        finally:
            await runner.cleanup()

    def _handler(self, kind: Kind[object]):  # type: ignore[no-untyped-def]
        async def answer(request: web.Request) -> web.StreamResponse:
            if "watch" in request.query:
                return await self._watch(kind, request)
            return self._page(kind, request)

        return answer

    def _page(self, kind: Kind[object], request: web.Request) -> web.Response:
        items = [item for item in self.listed if item["kind"] == kind.name]
        start = int(request.query.get("continue") or "0")
        end = start + int(request.query["limit"])
        more = str(end) if end < len(items) else None
        # As Go writes it: null for a list without items, and for what is not set.
        page = {
            "metadata": {"resourceVersion": str(LIST_VERSION), "continue": more},
            "items": items[start:end] or None,
        }
        return web.Response(body=msgspec.json.encode(page), content_type="application/json")

    async def _watch(self, kind: Kind[object], request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        self.watches += 1
        sent = 0
        while True:
            for event in self.events[sent:]:
                if event["object"]["kind"] == kind.name:
                    await response.write(msgspec.json.encode(event) + b"\n")
            sent = len(self.events)
            async with self._more:
                await self._more.wait_for(lambda sent=sent: len(self.events) > sent)  # type: ignore[misc]
