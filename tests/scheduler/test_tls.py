"""Connections: who gets one, with what, and for how long. A server of its own, no cluster."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography.hazmat.primitives import serialization

from rescheduler.errors import SettingsError
from rescheduler.scheduler import server
from rescheduler.scheduler.certificates import (
    CERTIFICATE_LASTS,
    Bundle,
    new_bundle,
    new_client,
    new_serving,
    private_key,
)
from rescheduler.scheduler.pair import Pair
from rescheduler.scheduler.server import Answers, serving
from rescheduler.scheduler.tls import CertificateFiles, Credentials, ServingContext
from testcluster.builders import pod
from testcluster.serving import write_certificates
from tests.scheduler.questions import extender_for, nodes

NOW = datetime.now(UTC)
NAMES = ("127.0.0.1", "localhost")
BINDING = {"PodName": "web", "PodNamespace": "shop", "PodUID": "1", "Node": "a"}
QUESTION: dict[str, Any] = {"Pod": pod("shop/web"), "NodeNames": ["a"]}
REFUSED = (aiohttp.ClientError, ssl.SSLError, ConnectionError)


class Allowing:
    """A webhook that has nothing to say."""

    def review(self, body: bytes) -> bytes:
        return b"{}"


@pytest.fixture
def bundle() -> Bundle:
    return new_bundle(NAMES, NOW)


@asynccontextmanager
async def served(tls: ServingContext) -> AsyncIterator[int]:
    """The port of a server that knows one node."""
    answers = Answers(extender_for(nodes("a")), Allowing(), lambda: "")  # type: ignore[arg-type]
    async with serving(answers, tls, "127.0.0.1", 0) as port:
        yield port


def trusting(trusted: bytes, directory: Path, client: Pair | None = None) -> ssl.SSLContext:
    """What a client connects with."""
    context = ssl.create_default_context(cadata=trusted.decode())
    if client is not None:
        certificate, key = directory / "client.crt", directory / "client.key"
        certificate.write_bytes(client.certificate)
        key.write_bytes(client.key)
        context.load_cert_chain(certificate, key)
    return context


async def status_of(
    port: int, context: ssl.SSLContext, path: str = "/extender/filter", body: Any = QUESTION
) -> int:
    """The answer to a question on a new connection."""
    connector = aiohttp.TCPConnector(ssl=context)
    async with (
        aiohttp.ClientSession(f"https://127.0.0.1:{port}", connector=connector) as session,
        session.post(path, json=body) as response,
    ):
        return response.status


async def test_a_pair_that_does_not_fit_leaves_the_old_one_in_use(
    bundle: Bundle, tmp_path: Path
) -> None:
    """As when somebody copies one file after the other."""
    tls = ServingContext(Credentials(bundle.serving, bundle.trusted))
    other = new_serving(bundle.authority, NAMES, NOW)
    async with served(tls) as port:
        with pytest.raises(SettingsError, match="the certificates cannot be used"):
            tls.use(Credentials(Pair(other.certificate, bundle.serving.key), bundle.trusted))
        assert await status_of(port, trusting(bundle.trusted, tmp_path)) == 200


async def test_new_connections_get_new_certificates_and_open_ones_stay(
    bundle: Bundle, tmp_path: Path
) -> None:
    tls = ServingContext(Credentials(bundle.serving, bundle.trusted))
    fresh = new_bundle(NAMES, NOW)
    async with served(tls) as port:
        connector = aiohttp.TCPConnector(ssl=trusting(bundle.trusted, tmp_path), limit=1)
        url = f"https://127.0.0.1:{port}"
        async with aiohttp.ClientSession(url, connector=connector) as session:
            async with session.post("/extender/filter", json=QUESTION) as response:
                assert response.status == 200
            assert tls.use(Credentials(fresh.serving, fresh.trusted))
            async with session.post("/extender/filter", json=QUESTION) as response:
                assert response.status == 200
        assert await status_of(port, trusting(fresh.trusted, tmp_path)) == 200
        with pytest.raises(REFUSED):
            await status_of(port, trusting(bundle.trusted, tmp_path))


async def test_clients_of_an_authority_that_is_no_longer_trusted_are_refused(
    bundle: Bundle, tmp_path: Path
) -> None:
    fresh = new_bundle(NAMES, NOW)
    tls = ServingContext(Credentials(bundle.serving, bundle.trusted, bundle.trusted))
    async with served(tls) as port:
        known = trusting(bundle.trusted, tmp_path, bundle.client)
        assert await status_of(port, known) == 200
        tls.use(Credentials(bundle.serving, bundle.trusted, fresh.trusted))
        assert await status_of(port, trusting(bundle.trusted, tmp_path, fresh.client)) == 200
        with pytest.raises(REFUSED):
            await status_of(port, trusting(bundle.trusted, tmp_path, bundle.client))


async def test_a_client_whose_certificate_has_expired_is_refused(
    bundle: Bundle, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tls = ServingContext(Credentials(bundle.serving, bundle.trusted, bundle.trusted))
    expired = new_client(bundle.authority, NOW - CERTIFICATE_LASTS - timedelta(days=1))
    async with served(tls) as port:
        with pytest.raises(REFUSED):
            await status_of(port, trusting(bundle.trusted, tmp_path, expired))
    assert "Traceback" not in caplog.text


async def test_where_anyone_may_ask_nobody_may_bind(bundle: Bundle, tmp_path: Path) -> None:
    tls = ServingContext(Credentials(bundle.serving, bundle.trusted))
    async with served(tls) as port:
        context = trusting(bundle.trusted, tmp_path)
        assert await status_of(port, context) == 200
        assert await status_of(port, context, "/extender/bind", BINDING) == 403


async def test_an_empty_authority_for_clients_is_not_taken_for_none(tmp_path: Path) -> None:
    write_certificates(tmp_path)
    (tmp_path / "clients.crt").write_bytes(b"")
    with pytest.raises(SettingsError, match=r"clients\.crt: is empty"):
        await CertificateFiles(tmp_path, tmp_path / "clients.crt").load()


def test_a_key_with_a_password_is_refused_without_asking_for_it(bundle: Bundle) -> None:
    encrypted = private_key(bundle.serving).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    with pytest.raises(SettingsError, match="the certificates cannot be used"):
        ServingContext(Credentials(Pair(bundle.serving.certificate, encrypted), b""))


def test_without_a_place_for_files_it_says_so(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nowhere-at-all")
    with pytest.raises(SettingsError, match=r"the certificates cannot be used.*nowhere-at-all"):
        ServingContext(Credentials(bundle.serving, bundle.trusted))


@pytest.mark.parametrize("host", ["a..b", "x" * 64])
async def test_a_host_that_cannot_be_one_is_named(bundle: Bundle, host: str) -> None:
    tls = ServingContext(Credentials(bundle.serving, bundle.trusted))
    answers = Answers(extender_for([]), Allowing(), lambda: "")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="cannot listen there"):
        async with serving(answers, tls, host, 0):
            pass


async def half_a_question(
    port: int, context: ssl.SSLContext
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A client that begins to ask, and never ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    writer.write(b"POST /webhook/pods HTTP/1.1\r\nHost: us\r\nContent-Length: 100\r\n\r\n{")
    await writer.drain()
    return reader, writer


async def test_it_ends_soon_though_questions_are_on_their_way(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it waited for them, it would wait here for an hour."""
    monkeypatch.setattr(server, "READ_SECONDS", 3600.0)
    monkeypatch.setattr(server, "ENDING_SECONDS", 0.1)
    tls = ServingContext(Credentials(bundle.serving, bundle.trusted))
    async with asyncio.timeout(120), served(tls) as port:
        answer, asking = await half_a_question(port, trusting(bundle.trusted, tmp_path))
        # Once this is answered, the other one is being read.
        assert await status_of(port, trusting(bundle.trusted, tmp_path)) == 200
    assert await answer.read() == b""
    asking.close()


async def test_a_body_that_never_ends_is_answered_with_the_reason(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "READ_SECONDS", 0.1)
    tls = ServingContext(Credentials(bundle.serving, bundle.trusted))
    async with asyncio.timeout(120), served(tls) as port:
        answer, asking = await half_a_question(port, trusting(bundle.trusted, tmp_path))
        assert b" 408 " in await answer.readline()
        asking.close()


@pytest.mark.parametrize("is_chunked", [True, False])
async def test_a_client_that_goes_away_in_the_middle_is_no_error_of_ours(
    bundle: Bundle, tmp_path: Path, caplog: pytest.LogCaptureFixture, is_chunked: bool
) -> None:
    """As a scheduler does when its `httpTimeout` is over."""
    tls = ServingContext(Credentials(bundle.serving, bundle.trusted))
    context = trusting(bundle.trusted, tmp_path)
    async with served(tls) as port:
        _, asking = await half_a_question(port, context)
        if is_chunked:
            _, asking = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            asking.write(b"POST /webhook/pods HTTP/1.1\r\nHost: us\r\n")
            asking.write(b"Transfer-Encoding: chunked\r\n\r\n5\r\n{")
            await asking.drain()
        assert await status_of(port, context) == 200
        asking.transport.abort()
        assert await status_of(port, context) == 200
    assert "Traceback" not in caplog.text
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


async def test_hundreds_that_say_nothing_keep_nobody_from_asking(
    bundle: Bundle, tmp_path: Path
) -> None:
    tls = ServingContext(Credentials(bundle.serving, bundle.trusted))
    context = trusting(bundle.trusted, tmp_path)
    async with served(tls) as port:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(200)]
        assert await status_of(port, context) == 200
        for _, writer in silent:
            writer.close()
