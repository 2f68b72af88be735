"""Probes are answered over plain HTTP, and say why a program is not ready, or not well."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from rescheduler.errors import SettingsError
from rescheduler.kube.clock import WALL_CLOCK, Clock, WallClock
from rescheduler.monitoring.monitoring_server import MonitoringServer, Pages
from rescheduler.settings import Policy
from testcluster.ports import pick_ports


@asynccontextmanager
async def answering(
    pages: Pages, clock: Clock = WALL_CLOCK
) -> AsyncIterator[aiohttp.ClientSession]:
    (port,) = pick_ports(1)
    server = MonitoringServer(("127.0.0.1", port), Policy(), pages, clock)
    running = asyncio.create_task(server.run())
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:

            async def is_up() -> bool:
                try:
                    async with session.get("/healthz"):
                        return True
                except aiohttp.ClientConnectorError:
                    return False

            while not await is_up():
                assert not running.done()
                await asyncio.sleep(0.01)
            yield session
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


PROBES = pytest.mark.parametrize(
    ("why", "answer"), [("", (200, "ok\n")), ("not loaded yet", (503, "not loaded yet\n"))]
)


@PROBES
async def test_readiness_is_answered_with_the_reason(why: str, answer: tuple[int, str]) -> None:
    async with answering(Pages(lambda: why)) as session:
        assert await get(session, "/readyz") == answer
        assert await get(session, "/healthz") == (200, "ok\n")


@PROBES
async def test_health_is_answered_with_the_reason(why: str, answer: tuple[int, str]) -> None:
    async with answering(Pages(str, why_restart=lambda: why)) as session:
        assert await get(session, "/healthz") == answer
        assert await get(session, "/readyz") == (200, "ok\n")


async def test_metrics_and_status_are_served_if_there_are_any() -> None:
    async with answering(Pages(str)) as session:
        for path in ("/metrics", "/status"):
            assert (await get(session, path))[0] == 404
    pages = Pages(str, metrics=lambda: (b"a 1\n", "text/plain; version=1"), status=lambda: b"{}")
    async with answering(pages) as session:
        async with session.get("/metrics") as response:
            assert response.headers["Content-Type"] == "text/plain; version=1"
            assert await response.read() == b"a 1\n"
        async with session.get("/status") as response:
            assert response.content_type == "application/json"
            assert await response.json() == {}


class StoppedClock(WallClock):
    """Its seconds are set by hand."""

    time = 0.0

    def seconds(self) -> float:
        return self.time


async def test_a_status_is_computed_at_most_once_a_second() -> None:
    clock, numbers = StoppedClock(), itertools.count()
    pages = Pages(str, status=lambda: str(next(numbers)).encode())
    async with answering(pages, clock) as session:
        for time, answer in ((0.0, "0"), (0.9, "0"), (1.0, "1"), (1.5, "1"), (9.0, "2")):
            clock.time = time
            assert await get(session, "/status") == (200, answer)


async def get(session: aiohttp.ClientSession, path: str) -> tuple[int, str]:
    async with session.get(path) as response:
        return response.status, await response.text()


async def test_an_address_that_cannot_be_used_is_named() -> None:
    server = MonitoringServer(("no.such.host.invalid", 1), Policy(), Pages(str))
    with pytest.raises(SettingsError, match=r"invalid:1: cannot listen there"):
        await server.run()
