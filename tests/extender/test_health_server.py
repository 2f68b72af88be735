"""Probes are answered over plain HTTP, and say why the controller is not ready."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from rescheduler.errors import SettingsError
from rescheduler.extender.health_server import HealthServer
from rescheduler.settings import Policy
from testcluster.ports import pick_ports


@asynccontextmanager
async def answering(why_not_ready: str) -> AsyncIterator[aiohttp.ClientSession]:
    (port,) = pick_ports(1)
    server = HealthServer("127.0.0.1", port, Policy(), lambda: why_not_ready)
    running = asyncio.create_task(server.run())
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:

            async def is_up() -> bool:
                try:
                    async with session.get("/healthz") as response:
                        return response.status == 200
                except aiohttp.ClientConnectorError:
                    return False

            while not await is_up():
                assert not running.done()
                await asyncio.sleep(0.01)
            yield session
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize(
    ("why", "status", "text"), [("", 200, "ok\n"), ("not loaded yet", 503, "not loaded yet\n")]
)
async def test_readiness_is_answered_with_the_reason(why: str, status: int, text: str) -> None:
    async with answering(why) as session, session.get("/readyz") as response:
        assert (response.status, await response.text()) == (status, text)


async def test_an_address_that_cannot_be_used_is_named() -> None:
    server = HealthServer("no.such.host.invalid", 1, Policy(), str)
    with pytest.raises(SettingsError, match=r"invalid:1: cannot listen there"):
        await server.run()
