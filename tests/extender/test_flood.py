"""A flood of requests from strangers, while migrations run in the same process."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import msgspec
import psutil
import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from rescheduler.extender.http_server import MAX_REVIEW_BYTES
from rescheduler.extender.scheduling_request import MAX_NAMES_BYTES
from rescheduler.extender.tls.certificates import Bundle, issued
from rescheduler.extender.webhook.registration import CONFIGURATION_NAME
from testcluster.builders import owner_reference, pod, replicaset
from testcluster.client import JsonObject
from testcluster.ports import pick_ports
from testcluster.serving import write_certificates
from testcluster.waiting import wait_until
from tests.conftest import Start
from tests.extender.running_extender import CONFIGURATIONS, wait_until_webhook_is_called
from tests.migration.support import Sandbox, is_ready, node_of, other_node

POLICY = "enabledStrategies: []\n"
HEAD = b"POST /webhook/pods HTTP/1.1\r\nHost: us\r\nContent-Length: 1000000\r\n\r\n"
LARGE, SLOW, IDLE = 20, 120, 60
SCHEDULING = ("/extender/filter", "/extender/prioritize")
# Without limits, one request of a flood took gigabytes.
MOST_MEMORY_BYTES = 600 << 20
UNSENT = (aiohttp.ClientError, ConnectionError, ssl.SSLError, TimeoutError)


def owned(name: str) -> JsonObject:
    """A pod that the webhook is asked about: it has a controller."""
    body = pod(name)
    owner = replicaset(f"{name.partition('/')[0]}/owner")
    body["metadata"]["ownerReferences"] = [owner_reference(owner)]
    return body


class Flood:
    """Clients that are no schedulers, who send as much as they can, or as little."""

    def __init__(self, port: int, context: ssl.SSLContext, namespace: str) -> None:
        self._port = port
        self._context = context
        # A pod as long as a review may be, which has to be read and decoded all the same.
        stranger = owned(f"{namespace}/stranger")
        stranger["metadata"]["annotations"] = {"a": "x" * (MAX_REVIEW_BYTES - 10_000)}
        request = {"uid": "7", "kind": {"kind": "Pod"}, "operation": "CREATE", "object": stranger}
        self._review = msgspec.json.encode(
            {"apiVersion": "admission.k8s.io/v1", "request": request}
        )
        # Names that are short, so that there are many; and as many nodes as are accepted.
        names = ["a"] * ((MAX_NAMES_BYTES - 10_000) // 4)
        self._args = [
            scheduling_args(stranger, ["a"] * 1_000),
            scheduling_args(owned(f"{namespace}/stranger"), names),
            scheduling_args(owned(f"{namespace}/stranger"), names * 8),
            b"[" * MAX_NAMES_BYTES,
        ]
        self.statuses: set[int] = set()
        self.scheduling_statuses: set[int] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        reviews = (self._review, bytes(2 * MAX_REVIEW_BYTES), b"[" * MAX_REVIEW_BYTES)
        clients = [self._send_large("/webhook/pods", reviews, self.statuses) for _ in range(LARGE)]
        for path in SCHEDULING:
            clients += [
                self._send_large(path, self._args, self.scheduling_statuses) for _ in range(LARGE)
            ]
        clients += [self._connect(HEAD) for _ in range(SLOW)]
        clients += [self._connect(b"") for _ in range(IDLE)]
        tasks = [asyncio.create_task(client) for client in clients]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _send_large(self, path: str, bodies: Sequence[bytes], statuses: set[int]) -> None:
        connector = aiohttp.TCPConnector(ssl=self._context)
        url = f"https://127.0.0.1:{self._port}"
        async with aiohttp.ClientSession(url, connector=connector) as session:
            while True:
                for body in bodies:
                    with suppress(*UNSENT):
                        async with session.post(path, data=body) as response:
                            statuses.add(response.status)

    async def _connect(self, first: bytes) -> None:
        """Begin a request, send a byte of it now and then, and connect again when refused."""
        while True:
            with suppress(*UNSENT):
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", self._port, ssl=self._context
                )
                writer.write(first)
                while not reader.at_eof():
                    if first:
                        writer.write(b" ")
                    with suppress(TimeoutError):
                        # Not wait_for, which may swallow the cancellation at the end.
                        async with asyncio.timeout(1):
                            await reader.read(1000)
                writer.close()


def scheduling_args(pod: JsonObject, names: list[str]) -> bytes:
    """A request of filter or prioritize."""
    return msgspec.json.encode({"Pod": pod, "NodeNames": names})


def flood_context(bundle: Bundle, directory: Path, client: str) -> ssl.SSLContext:
    """What the clients of a flood connect with: a certificate of the authority, or none."""
    context = ssl.create_default_context(cadata=bundle.trusted.decode())
    if client:
        purpose = ExtendedKeyUsageOID.CLIENT_AUTH
        pair = issued(bundle.authority, client, purpose, datetime.now(UTC))
        certificate, key = directory / "flood.crt", directory / "flood.key"
        certificate.write_bytes(pair.certificate)
        key.write_bytes(pair.key)
        context.load_cert_chain(certificate, key)
    return context


@pytest.mark.parametrize(
    ("mode", "with_client_ca", "client", "expected"),
    [
        ("Handoff", True, "", {403}),
        ("Handoff", True, "someone", {200, 400, 413}),
        ("Evict", False, "", {200, 400, 413}),
    ],
)
async def test_migrations_complete_and_health_is_answered_during_a_flood(
    sandbox: Sandbox,
    tmp_path: Path,
    start: Start,
    output: Callable[[], str],
    mode: str,
    with_client_ca: bool,
    client: str,
    expected: set[int],
) -> None:
    sandbox.add_nodes("a", "b")
    pods = sandbox.deploy("web", 3)
    (port,) = pick_ports(1)
    bundle = write_certificates(tmp_path / "tls")
    (tmp_path / "policy.yaml").write_text(POLICY)
    authority = ("--client-ca", tmp_path / "tls" / "ca.crt") if with_client_ca else ()
    process = start(
        *("run", "--policy", tmp_path / "policy.yaml", "--serve", f"127.0.0.1:{port}"),
        *("--certificates", tmp_path / "tls", *authority),
        *("--webhook-url", f"https://127.0.0.1:{port}", "--no-leader-election"),
    )
    wait_until(lambda: "Finished a round" in output(), what="it runs")
    wait_until_webhook_is_called(sandbox, as_shipped=True)
    context = flood_context(bundle, tmp_path, client)
    flood = Flood(port, context, sandbox.namespace)
    async with flood.running():
        await sandbox.until(lambda: flood.statuses, "the flood has begun")
        await sandbox.until(lambda: flood.scheduling_statuses >= expected, "all are answered")
        moves = [sandbox.migrate(body, other_node(sandbox, body), mode=mode) for body in pods]
        await until_healthy(port, context)
        statuses = await asyncio.to_thread(wait_until, lambda: finished(sandbox, moves), 120)
        await until_healthy(port, context)
        # No pod waits for us: those that the webhook is asked about are created all the same.
        for number in range(5):
            name = f"{sandbox.namespace}/during-{number}"
            sandbox.outside.request("POST", f"{sandbox.path('pods')}?dryRun=All", owned(name))
        memory_bytes = psutil.Process(process.pid).memory_info().rss
    sandbox.outside.delete(f"{CONFIGURATIONS}/{CONFIGURATION_NAME}")
    assert [status["phase"] for status in statuses] == ["Completed"] * 3, statuses
    assert flood.statuses <= {200, 400, 408, 413, 429}
    assert flood.scheduling_statuses <= expected | {408, 429}
    assert memory_bytes < MOST_MEMORY_BYTES
    assert len([body for body in sandbox.pods("web") if is_ready(body) and node_of(body)]) == 3
    assert "Traceback" not in output()


def finished(sandbox: Sandbox, moves: list[str]) -> list[dict[str, str]]:
    """The statuses of Migrations, if all have finished."""
    statuses = [sandbox.status(move) for move in moves]
    over = ("Completed", "Failed", "Cancelled")
    return statuses if all(status.get("phase") in over for status in statuses) else []


async def until_healthy(port: int, context: ssl.SSLContext) -> None:
    """Wait until /healthz is answered, by a client that tries again as a kubelet does."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + 60
    while True:
        connector = aiohttp.TCPConnector(ssl=context)
        async with aiohttp.ClientSession(connector=connector) as session:
            with suppress(*UNSENT):
                async with session.get(f"https://127.0.0.1:{port}/healthz") as response:
                    if response.status == 200:
                        return
        assert loop.time() < deadline, "/healthz is not answered within 60 s"
        await asyncio.sleep(0.1)
