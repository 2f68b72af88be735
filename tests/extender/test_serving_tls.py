"""TLS connections and their certificates, with a server of its own and no cluster."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID

from rescheduler.errors import SettingsError
from rescheduler.extender import http_server
from rescheduler.extender.client_authorization import ClientAuthorization
from rescheduler.extender.handlers import ExtenderHandlers
from rescheduler.extender.http_server import MOST_REVIEWS, Endpoints, serving
from rescheduler.extender.tls.certificates import (
    CERTIFICATE_LIFETIME,
    Bundle,
    issued,
    new_bundle,
    new_client,
    new_serving,
    private_key,
)
from rescheduler.extender.tls.key_pair import KeyPair
from rescheduler.extender.tls.serving_tls import (
    CertificateFiles,
    ServingContext,
    ServingCredentials,
)
from rescheduler.serving import http_serving, listener
from testcluster.builders import pod
from testcluster.serving import write_certificates
from tests.extender.extender_requests import Planned, RecordedEvents, extender_for, nodes, scored

NOW = datetime.now(UTC)
NAMES = ("127.0.0.1", "localhost")
BINDING = {"PodName": "web", "PodNamespace": "shop", "PodUID": "1", "Node": "a"}
ARGS: dict[str, Any] = {"Pod": pod("shop/web"), "NodeNames": ["a"]}
REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "request": {"uid": "7", "kind": {"kind": "Pod"}, "operation": "CREATE"},
}
EXPIRES_SOON = "A client's certificate expires soon"
HAS_EXPIRED = "Refused a client whose certificate has expired"
REFUSED = (aiohttp.ClientError, ssl.SSLError, ConnectionError)


class Allowing:
    """A webhook that changes nothing."""

    def review(self, request: object, *, is_from_api_server: bool) -> bytes:
        asked.append(is_from_api_server)
        return b"{}"


asked: list[bool] = []
"""Whether the API server sent the reviews, one after the other."""


@pytest.fixture
def bundle() -> Bundle:
    return new_bundle(NAMES, NOW)


@asynccontextmanager
async def served(
    tls: ServingContext,
    clients: ClientAuthorization | None = None,
    extender: ExtenderHandlers | None = None,
) -> AsyncIterator[int]:
    """The port of a server that knows one node, unless an extender with others is given."""
    extender = extender or extender_for(nodes("a"))
    endpoints = Endpoints(extender, Allowing(), lambda: "")  # type: ignore[arg-type]
    clients = clients or ClientAuthorization(tls)
    async with serving(endpoints, tls, clients, "127.0.0.1", 0) as port:
        yield port


def trusting(trusted: bytes, directory: Path, client: KeyPair | None = None) -> ssl.SSLContext:
    """What a client connects with."""
    context = ssl.create_default_context(cadata=trusted.decode())
    if client is not None:
        certificate, key = directory / "client.crt", directory / "client.key"
        certificate.write_bytes(client.certificate)
        key.write_bytes(client.key)
        context.load_cert_chain(certificate, key)
    return context


async def status_of(
    port: int, context: ssl.SSLContext, path: str = "/extender/filter", body: Any = ARGS
) -> int:
    """The status of a request on a new connection."""
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
    tls = ServingContext(ServingCredentials(bundle.serving, bundle.trusted))
    other = new_serving(bundle.authority, NAMES, NOW)
    async with served(tls) as port:
        with pytest.raises(SettingsError, match="the certificates cannot be used"):
            tls.use(
                ServingCredentials(KeyPair(other.certificate, bundle.serving.key), bundle.trusted)
            )
        assert await status_of(port, trusting(bundle.trusted, tmp_path)) == 200


async def test_new_connections_get_new_certificates_and_open_ones_stay(
    bundle: Bundle, tmp_path: Path
) -> None:
    tls = ServingContext(ServingCredentials(bundle.serving, bundle.trusted))
    fresh = new_bundle(NAMES, NOW)
    async with served(tls) as port:
        connector = aiohttp.TCPConnector(ssl=trusting(bundle.trusted, tmp_path), limit=1)
        url = f"https://127.0.0.1:{port}"
        async with aiohttp.ClientSession(url, connector=connector) as session:
            async with session.post("/extender/filter", json=ARGS) as response:
                assert response.status == 200
            assert tls.use(ServingCredentials(fresh.serving, fresh.trusted))
            async with session.post("/extender/filter", json=ARGS) as response:
                assert response.status == 200
        assert await status_of(port, trusting(fresh.trusted, tmp_path)) == 200
        with pytest.raises(REFUSED):
            await status_of(port, trusting(bundle.trusted, tmp_path))


async def test_clients_of_an_authority_that_is_no_longer_trusted_are_refused(
    bundle: Bundle, tmp_path: Path
) -> None:
    fresh = new_bundle(NAMES, NOW)
    tls = ServingContext(ServingCredentials(bundle.serving, bundle.trusted, bundle.trusted))
    async with served(tls) as port:
        known = trusting(bundle.trusted, tmp_path, bundle.client)
        assert await status_of(port, known) == 200
        tls.use(ServingCredentials(bundle.serving, bundle.trusted, fresh.trusted))
        assert await status_of(port, trusting(bundle.trusted, tmp_path, fresh.client)) == 200
        with pytest.raises(REFUSED):
            await status_of(port, trusting(bundle.trusted, tmp_path, bundle.client))


async def test_a_client_whose_certificate_has_expired_is_refused(
    bundle: Bundle, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tls = ServingContext(ServingCredentials(bundle.serving, bundle.trusted, bundle.trusted))
    expired = new_client(bundle.authority, NOW - CERTIFICATE_LIFETIME - timedelta(days=1))
    async with served(tls) as port:
        with pytest.raises(REFUSED):
            await status_of(port, trusting(bundle.trusted, tmp_path, expired))
    assert "Traceback" not in caplog.text


async def test_where_anyone_may_ask_nobody_may_bind(bundle: Bundle, tmp_path: Path) -> None:
    tls = ServingContext(ServingCredentials(bundle.serving, bundle.trusted))
    async with served(tls) as port:
        context = trusting(bundle.trusted, tmp_path)
        assert await status_of(port, context) == 200
        assert await status_of(port, context, "/extender/bind", BINDING) == 403


@pytest.mark.parametrize(
    ("name", "status"), [("kube-scheduler", 400), ("system:kube-scheduler", 400), ("someone", 403)]
)
async def test_only_named_clients_of_the_authority_may_bind(
    bundle: Bundle, tmp_path: Path, name: str, status: int
) -> None:
    """400 is for the body, which is no binding: the client got so far."""
    tls = ServingContext(ServingCredentials(bundle.serving, bundle.trusted, bundle.trusted))
    client = issued(bundle.authority, name, ExtendedKeyUsageOID.CLIENT_AUTH, NOW)
    async with served(tls) as port:
        context = trusting(bundle.trusted, tmp_path, client)
        assert await status_of(port, context, "/extender/bind", {}) == status
        assert await status_of(port, context) == 200


@pytest.mark.parametrize(
    ("name", "expected"), [("kube-scheduler", True), ("someone", False), (None, False)]
)
async def test_only_what_a_named_client_asks_changes_anything(
    bundle: Bundle, tmp_path: Path, name: str | None, expected: bool
) -> None:
    """For others of the authority, and for strangers, nothing is reserved, assumed or recorded."""
    client = issued(bundle.authority, name, ExtendedKeyUsageOID.CLIENT_AUTH, NOW) if name else None
    trusted = bundle.trusted if name else b""
    tls = ServingContext(ServingCredentials(bundle.serving, bundle.trusted, trusted))
    planned, events = Planned(), RecordedEvents()
    big, newcomer = pod("shop/big", cpu="9"), pod("shop/new", cpu="1")
    extender = extender_for(nodes("a", "b"), planned, events)
    async with served(tls, extender=extender) as port:
        context = trusting(bundle.trusted, tmp_path, client)
        for verb in ("filter", "prioritize"):
            body = {"Pod": big, "NodeNames": ["a"]}
            assert await status_of(port, context, f"/extender/{verb}", body) == 200
    assert bool(planned.reserved_for) == expected
    assert bool(events.events) == expected
    is_assumed = scored(extender, newcomer, ["a", "b"]) != {"a": 10, "b": 10}
    assert is_assumed == expected


async def test_what_others_ask_leaves_the_load_that_a_scheduler_has_caused(
    bundle: Bundle, tmp_path: Path
) -> None:
    tls = ServingContext(ServingCredentials(bundle.serving, bundle.trusted))
    extender = extender_for(nodes("a", "b"))
    scored(extender, pod("shop/big", cpu="8"), ["a"])
    async with served(tls, extender=extender) as port:
        body = {"Pod": pod("shop/big", cpu="8"), "NodeNames": ["b"]}
        context = trusting(bundle.trusted, tmp_path)
        assert await status_of(port, context, "/extender/prioritize", body) == 200
    assert scored(extender, pod("shop/new", cpu="1"), ["a", "b"]) == {"a": 0, "b": 10}


async def test_clients_that_may_bind_can_be_named_by_a_dns_name_too(
    bundle: Bundle, tmp_path: Path
) -> None:
    tls = ServingContext(ServingCredentials(bundle.serving, bundle.trusted, bundle.trusted))
    names = x509.SubjectAlternativeName([x509.DNSName("scheduler.example")])
    purpose = ExtendedKeyUsageOID.CLIENT_AUTH
    client = issued(bundle.authority, "kube-scheduler", purpose, NOW, names)
    context = trusting(bundle.trusted, tmp_path, client)
    for allowed, status in (("scheduler.example", 400), ("another", 403)):
        async with served(tls, ClientAuthorization(tls, (allowed,))) as port:
            assert await status_of(port, context, "/extender/bind", {}) == status


async def test_a_client_whose_certificate_expires_soon_is_reported_once(
    bundle: Bundle, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A certificate that was copied from the Secret, instead of mounted, is never renewed."""
    tls = ServingContext(ServingCredentials(bundle.serving, bundle.trusted, bundle.trusted))
    old = new_client(bundle.authority, NOW - CERTIFICATE_LIFETIME * 0.8)
    async with served(tls) as port:
        for client in (bundle.client, old, old):
            assert await status_of(port, trusting(bundle.trusted, tmp_path, client)) == 200
    messages = [record.getMessage() for record in caplog.records]
    assert messages.count(EXPIRES_SOON) == 1


async def test_a_certificate_that_expires_on_an_open_connection_is_refused_from_then_on(
    bundle: Bundle, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tls = ServingContext(ServingCredentials(bundle.serving, bundle.trusted, bundle.trusted))
    now = NOW
    clients = ClientAuthorization(tls, clock=lambda: now.timestamp())
    context = trusting(bundle.trusted, tmp_path, bundle.client)
    async with served(tls, clients) as port:
        connector = aiohttp.TCPConnector(ssl=context, limit=1)
        url = f"https://127.0.0.1:{port}"
        async with aiohttp.ClientSession(url, connector=connector) as session:
            for moment, binding, asking, warnings in (
                (NOW, 400, 200, []),
                (NOW + CERTIFICATE_LIFETIME * 0.9, 400, 200, [EXPIRES_SOON]),
                (NOW + CERTIFICATE_LIFETIME * 1.1, 403, 403, [HAS_EXPIRED]),
            ):
                now = moment
                caplog.clear()
                async with session.post("/extender/bind", json={}) as response:
                    assert response.status == binding
                for verb in ("filter", "prioritize"):
                    async with session.post(f"/extender/{verb}", json=ARGS) as response:
                        assert response.status == asking
                        answer = await response.json()
                reported = [record.getMessage() for record in caplog.records]
                assert [message for message in reported if "certificate" in message] == warnings
            assert "kube-scheduler: expired on" in answer["error"]


async def test_only_the_api_server_knows_the_path_of_the_webhook(
    bundle: Bundle, tmp_path: Path
) -> None:
    credentials = ServingCredentials(bundle.serving, bundle.trusted)
    tls, context = ServingContext(credentials), trusting(bundle.trusted, tmp_path)
    token = credentials.webhook_token
    asked.clear()
    async with served(tls) as port:
        for path in ("", "/", f"/{token}", f"/{token}x", "/%ff", "/wrong"):
            await status_of(port, context, f"/webhook/pods{path}", REVIEW)
    # A path that ends in a slash does not exist.
    assert asked == [False, True, False, False, False]


async def test_a_connection_above_the_limit_takes_the_place_of_one_of_the_greediest_client(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "MOST_CONNECTIONS", 4)
    tls = ServingContext(ServingCredentials(bundle.serving, bundle.trusted))
    context = trusting(bundle.trusted, tmp_path)
    async with asyncio.timeout(120), served(tls) as port:

        async def connection(client: str) -> Connection:
            opened = await asyncio.open_connection(
                "127.0.0.1", port, ssl=context, local_addr=(client, 0)
            )
            assert await is_healthy(opened)
            return opened

        scheduler = await connection("127.0.0.2")
        greedy = [await connection("127.0.0.3") for _ in range(3)]
        assert await is_healthy(greedy[0]), "it is no longer the one that was used longest ago"
        newcomer = await connection("127.0.0.4")
        assert await greedy[1][0].read() == b"", "it was used longest ago"
        for opened in (scheduler, greedy[0], greedy[2], newcomer):
            assert await is_healthy(opened)
            opened[1].close()


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def is_healthy(connection: Connection) -> bool:
    """Whether the server answers on this connection that it is well."""
    reader, writer = connection
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: us\r\n\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    assert await reader.readexactly(len("ok\n")) == b"ok\n"
    return head.startswith(b"HTTP/1.1 200")


async def test_a_connection_without_a_request_is_closed(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "FIRST_REQUEST_SECONDS", 0.1)
    tls = ServingContext(ServingCredentials(bundle.serving, bundle.trusted))
    context = trusting(bundle.trusted, tmp_path)
    async with asyncio.timeout(120), served(tls) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(b"POST /webhook/pods HTTP/1.1\r\nHost: us\r\n")
        with suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()


async def test_requests_above_the_limit_are_refused_at_once(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "READ_SECONDS", 3600.0)
    tls = ServingContext(ServingCredentials(bundle.serving, bundle.trusted))
    context = trusting(bundle.trusted, tmp_path)
    async with asyncio.timeout(120), served(tls) as port:
        slow = [await half_a_request(port, context) for _ in range(MOST_REVIEWS)]
        while await status_of(port, context, "/webhook/pods", REVIEW) != 429:
            assert asked, "all of them are being read"
        assert await status_of(port, context) == 200, "the extender has a limit of its own"
        for _, writer in slow:
            writer.close()
        await eventually_answered(port, context, "/webhook/pods", REVIEW)


async def eventually_answered(port: int, context: ssl.SSLContext, *request: Any) -> None:
    """Wait until a request is answered."""
    deadline = asyncio.get_running_loop().time() + 60
    while True:
        with suppress(*REFUSED):
            if await status_of(port, context, *request) == 200:
                return
        assert asyncio.get_running_loop().time() < deadline, "not answered within 60 s"
        await asyncio.sleep(0.02)


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
        ServingContext(ServingCredentials(KeyPair(bundle.serving.certificate, encrypted), b""))


def test_keys_need_no_directory_that_can_be_written_to(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nonexistent")
    assert ServingContext(ServingCredentials(bundle.serving, bundle.trusted)).context


@pytest.mark.parametrize("host", ["a..b", "x" * 64])
async def test_a_host_that_cannot_be_one_is_named(bundle: Bundle, host: str) -> None:
    tls = ServingContext(ServingCredentials(bundle.serving, bundle.trusted))
    endpoints = Endpoints(extender_for([]), Allowing(), lambda: "")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="cannot listen there"):
        async with serving(endpoints, tls, ClientAuthorization(tls), host, 0):
            pass


async def half_a_request(
    port: int, context: ssl.SSLContext
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A client that starts a request and never completes it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    writer.write(b"POST /webhook/pods HTTP/1.1\r\nHost: us\r\nContent-Length: 100\r\n\r\n{")
    await writer.drain()
    return reader, writer


async def test_it_ends_soon_though_requests_are_being_read(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it waited for them, it would wait here for an hour."""
    monkeypatch.setattr(http_server, "READ_SECONDS", 3600.0)
    monkeypatch.setattr(http_serving, "SHUTDOWN_SECONDS", 0.1)
    tls = ServingContext(ServingCredentials(bundle.serving, bundle.trusted))
    async with asyncio.timeout(120), served(tls) as port:
        reader, writer = await half_a_request(port, trusting(bundle.trusted, tmp_path))
        # Once this is decoded, the other one is being read.
        assert await status_of(port, trusting(bundle.trusted, tmp_path)) == 200
    assert await reader.read() == b""
    writer.close()


async def test_a_body_that_never_ends_is_refused_with_the_reason(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "READ_SECONDS", 0.1)
    tls = ServingContext(ServingCredentials(bundle.serving, bundle.trusted))
    async with asyncio.timeout(120), served(tls) as port:
        reader, writer = await half_a_request(port, trusting(bundle.trusted, tmp_path))
        assert b" 408 " in await reader.readline()
        writer.close()


@pytest.mark.parametrize("is_chunked", [True, False])
async def test_a_client_that_goes_away_in_the_middle_is_no_error_of_ours(
    bundle: Bundle, tmp_path: Path, caplog: pytest.LogCaptureFixture, is_chunked: bool
) -> None:
    """As a scheduler does when its `httpTimeout` is over."""
    tls = ServingContext(ServingCredentials(bundle.serving, bundle.trusted))
    context = trusting(bundle.trusted, tmp_path)
    async with served(tls) as port:
        _, writer = await half_a_request(port, context)
        if is_chunked:
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            writer.write(b"POST /webhook/pods HTTP/1.1\r\nHost: us\r\n")
            writer.write(b"Transfer-Encoding: chunked\r\n\r\n5\r\n{")
            await writer.drain()
        assert await status_of(port, context) == 200
        writer.transport.abort()
        assert await status_of(port, context) == 200
    assert "Traceback" not in caplog.text
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_hundreds_of_silent_connections_delay_nobody(bundle: Bundle, tmp_path: Path) -> None:
    tls = ServingContext(ServingCredentials(bundle.serving, bundle.trusted))
    context = trusting(bundle.trusted, tmp_path)
    async with served(tls) as port:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(200)]
        assert await status_of(port, context) == 200
        for _, writer in silent:
            writer.close()
