"""Anybody may ask for probes and metrics over plain HTTP, and nobody can hold up the program."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import pytest

from rescheduler.errors import SettingsError
from rescheduler.monitoring import monitoring_server
from rescheduler.monitoring.monitoring_server import Document, MonitoringServer, Pages, is_inside
from rescheduler.serving import http_serving, listener
from rescheduler.settings import Policy
from testcluster.ports import pick_ports
from tests.monitoring.scraping import page

PROBE = b"GET /healthz HTTP/1.1\r\nHost: us\r\n\r\n"
NEIGHBOUR = "127.0.0.2"
NO_HTTP = "Refused a request that is no HTTP"


@asynccontextmanager
async def serving(pages: Pages) -> AsyncIterator[int]:
    """Serve on the port that is yielded."""
    (port,) = pick_ports(1)
    server = MonitoringServer(("127.0.0.1", port), Policy(), pages)
    running = asyncio.create_task(server.run())
    try:
        while (await asyncio.to_thread(page, port, "/none"))[0] != 404:
            assert not running.done()
        yield port
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@asynccontextmanager
async def answering(pages: Pages) -> AsyncIterator[aiohttp.ClientSession]:
    async with (
        serving(pages) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
    ):
        yield session


async def get(session: aiohttp.ClientSession, path: str) -> tuple[int, str]:
    async with session.get(path) as response:
        return response.status, await response.text()


async def connected(port: int, client: str = "127.0.0.1") -> Any:
    return await asyncio.open_connection("127.0.0.1", port, local_addr=(client, 0))


def constant(text: bytes) -> Document:
    return Document(lambda: text, bytes, "text/plain")


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
    metrics = Document(lambda: b"a 1\n", bytes, "text/plain; version=1")
    pages = Pages(str, metrics=metrics, status=Document(lambda: b"{}", bytes, "application/json"))
    async with answering(pages) as session:
        async with session.get("/metrics") as response:
            assert response.headers["Content-Type"] == "text/plain; version=1"
            assert await response.read() == b"a 1\n"
        async with session.get("/status") as response:
            assert response.content_type == "application/json"
            assert await response.json() == {}


async def test_pages_are_collected_where_the_program_runs_and_written_elsewhere() -> None:
    threads = {}

    def collect() -> str:
        threads["collect"] = threading.get_ident()
        return "a 1\n"

    def write(text: str) -> bytes:
        threads["write"] = threading.get_ident()
        return text.encode()

    async with answering(Pages(str, metrics=Document(collect, write, "text/plain"))) as session:
        assert await get(session, "/metrics") == (200, "a 1\n")
    assert threads["collect"] == threading.get_ident() != threads["write"]


async def test_a_loop_that_hangs_fails_the_liveness_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitoring_server, "LOOP_SECONDS", 0.1)
    found: dict[str, tuple[int, str]] = {}

    def ask() -> None:
        for path in ("/healthz", "/metrics"):
            found[path] = page(port, path)

    async with serving(Pages(str, metrics=constant(b"a 1\n"))) as port:
        asking = threading.Thread(target=ask)
        asking.start()
        # This loop is the one that hangs.
        asking.join()
        assert {path: status for path, (status, _) in found.items()} == {
            "/healthz": 503,
            "/metrics": 503,
        }
        assert "has not taken a turn" in found["/healthz"][1]
        while (await asyncio.to_thread(page, port, "/healthz"))[0] != 200:
            pass


@pytest.mark.parametrize("sent", [b"", b"GET /metrics HTTP/1.1\r\nHost: us\r\n", b"\x16\x03\x01"])
async def test_a_connection_without_a_whole_request_comes_to_an_end(
    monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(listener, "FIRST_REQUEST_SECONDS", 0.1)
    async with asyncio.timeout(120), serving(Pages(str)) as port:
        reader, writer = await connected(port)
        writer.write(sent)
        with suppress(ConnectionError):
            await reader.read()
        writer.close()


async def test_a_second_request_that_is_half_sent_comes_to_an_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(monitoring_server, "KEEPALIVE_SECONDS", 0.1)
    async with asyncio.timeout(120), serving(Pages(str)) as port:
        reader, writer = await connected(port)
        writer.write(PROBE + PROBE[:20])
        with suppress(ConnectionError):
            assert (await reader.read()).count(b"200 OK") == 1
        writer.close()


async def test_a_client_with_hundreds_of_connections_keeps_out_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(monitoring_server, "MOST_CONNECTIONS", 8)
    async with asyncio.timeout(120), serving(Pages(str)) as port:
        neighbour = await connected(port, NEIGHBOUR)
        flood = [await connected(port) for _ in range(200)]
        for reader, writer in (neighbour, flood[-1]):
            writer.write(PROBE)
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        closed = 0
        for reader, _ in flood[:-8]:
            with suppress(ConnectionError):
                assert await reader.read() == b""
            closed += 1
        assert closed == 192
        for _, writer in (neighbour, *flood):
            writer.close()


async def test_pipelined_requests_are_answered_with_what_was_put_together_once() -> None:
    count, requests = 0, 300

    def write(slowly: str) -> bytes:
        nonlocal count
        count += 1
        # So long that what is put together is kept until all are answered.
        threading.Event().wait(0.2)
        return slowly.encode()

    async with (
        asyncio.timeout(120),
        serving(Pages(str, metrics=Document(lambda: "a 1\n", write, "text/plain"))) as port,
    ):
        reader, writer = await connected(port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: us\r\n\r\n" * requests)
        for _ in range(requests):
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            assert await reader.readexactly(4) == b"a 1\n"
        writer.close()
    assert count < requests / 10


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /metrics HTTP/1.1\r\nHost: us\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: us\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\n" + b"".join(b"A%d: x\r\n" % n for n in range(500)) + b"\r\n",
        b"\x00\x01\x02\r\n\r\n",
        b"[" * 2000 + b"\r\n\r\n",
    ],
    ids=["long header", "long path", "many headers", "no HTTP", "brackets"],
)
async def test_what_is_no_request_is_refused_without_a_traceback(
    caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    caplog.set_level(logging.INFO)
    async with asyncio.timeout(120), serving(Pages(str)) as port:
        for _ in range(3):
            reader, writer = await connected(port)
            writer.write(sent)
            with suppress(ConnectionError):
                assert (await reader.read(12)) in (b"HTTP/1.0 400", b"HTTP/1.1 400", b"")
            writer.close()
    assert not [record for record in caplog.records if record.exc_info]


async def test_a_page_that_fails_is_logged_once_in_a_while(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_serving, "LOG_SECONDS", 3600.0)

    def fail() -> str:
        raise ValueError("broken")

    async with answering(Pages(str, metrics=Document(fail, bytes, "text/plain"))) as session:
        for _ in range(20):
            status, text = await get(session, "/metrics")
            assert (status, "broken" in text) == (500, False)
        assert await get(session, "/healthz") == (200, "ok\n")
    logged = [record.getMessage() for record in caplog.records if record.exc_info]
    assert logged == ["Failed to answer a request"]


@pytest.mark.parametrize(
    ("peer", "own", "inside"),
    [
        (("127.0.0.1", 5), ("127.0.0.1", 8080), True),
        (("::1", 5, 0, 0), ("::1", 8080, 0, 0), True),
        (("10.0.0.7", 5), ("10.0.0.8", 8080), False),
        (("10.0.0.8", 5), ("10.0.0.8", 8080), False),
        (("127.0.0.6", 5), ("10.0.0.8", 8080), False),
        (("fd00::7", 5, 0, 0), ("fd00::8", 8080, 0, 0), False),
        (None, ("127.0.0.1", 8080), False),
    ],
)
def test_the_status_is_for_those_inside_the_pod(peer: Any, own: Any, inside: bool) -> None:
    """The fifth is the sidecar of a service mesh, which hands on what comes from elsewhere."""
    assert is_inside(peer, own) is inside


async def test_an_address_that_cannot_be_used_is_named() -> None:
    server = MonitoringServer(("no.such.host.invalid", 1), Policy(), Pages(str))
    with pytest.raises(SettingsError, match=r"invalid:1: cannot listen there"):
        await server.run()
