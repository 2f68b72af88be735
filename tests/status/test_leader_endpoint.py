"""The leader's pod is found by its Lease and its arguments; what answers is not trusted."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import msgspec
import pytest
from aiohttp import web

from rescheduler.model.objects import Identity
from rescheduler.status.leader_endpoint import (
    MOST_BYTES,
    PodEndpoint,
    PodOfReplica,
    StartedContainer,
    StartedPod,
    StartedPodSpec,
    StatusAddress,
    ask_address,
    decoded_status,
    health_address,
    is_url,
    pod_of,
)
from rescheduler.status.status_document import VERSION, Note, ReplicaStatus, Role, SyncState
from testcluster import TestCluster
from testcluster.ports import pick_ports

STATUS = ReplicaStatus(
    version=VERSION,
    program="1.0",
    role=Role.LEADER,
    time=datetime(2026, 3, 1, tzinfo=UTC),
    sync=SyncState(True, 1.0),
)
BODY = msgspec.json.encode(STATUS)


@pytest.mark.parametrize(
    ("arguments", "address"),
    [
        (("run", "--health=:8080"), StatusAddress("", 8080)),
        (("run", "--health", "127.0.0.1:81"), StatusAddress("127.0.0.1", 81)),
        (("run", "--health=[::1]:81", "--serve=:8443"), StatusAddress("[::1]", 81)),
        (("run", "--serve=:8443"), None),
        (("run", "--health"), None),
        (("run", "--health=$(PORT)"), None),
    ],
)
def test_the_port_is_that_of_the_health_option(
    arguments: tuple[str, ...], address: StatusAddress | None
) -> None:
    spec = StartedPodSpec((StartedContainer(), StartedContainer(arguments)))
    assert health_address(StartedPod(Identity("leader"), spec)) == address


@pytest.mark.parametrize(
    ("holder", "name"),
    [
        ("rescheduler-5d9-abcde_0123abcd", "rescheduler-5d9-abcde"),
        ("no-random-letters", None),
        ("../../secrets/x_0123abcd", None),
        ("evil:80/proxy_0123abcd", None),
        ("", None),
    ],
)
def test_only_what_can_be_a_pod_becomes_part_of_a_path(holder: str, name: str | None) -> None:
    found = pod_of(holder, "rescheduler/rescheduler")
    assert (None if found is None else found.name) == name


def test_both_ways_to_a_pod_name_it() -> None:
    endpoint = PodEndpoint(PodOfReplica("ns", "leader-1"), StatusAddress("", 8085))
    assert endpoint.path == "/api/v1/namespaces/ns/pods/leader-1/portforward"
    assert "kubectl -n ns port-forward pod/leader-1 8080:8085" in endpoint.by_port_forward


@pytest.mark.parametrize(
    ("url", "is_good"),
    [
        ("http://127.0.0.1:8080", True),
        ("https://status.example.com/x/", True),
        ("127.0.0.1:8080", False),
        ("file:///etc/passwd", False),
        ("http://", False),
        ("http://x:99999", False),
        ("http://x..example:8080", False),
        (f"http://{'x' * 64}:8080", False),
        ("http://[::1]:8080", True),
    ],
)
def test_an_address_is_that_of_a_web_server(url: str, is_good: bool) -> None:
    assert is_url(url) is is_good


def test_fields_of_later_versions_of_the_program_are_ignored() -> None:
    later = {**msgspec.json.decode(BODY), "humour": "dry"}
    assert decoded_status(msgspec.json.encode(later), "it") == STATUS


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"version":2}', "OtherVersion"),
        (b"{}", "NotAStatus"),
        (b"ok\n", "NotAStatus"),
        (b"[" * 100_000, "NotAStatus"),
        (b'{"version":1,"program":"\xff"}', "NotAStatus"),
        (BODY.replace(b"Leader", b"Emperor"), "NotAStatus"),
        (BODY.replace(b"00Z", b"00"), "NotAStatus"),
        (BODY + b" " * MOST_BYTES, "NotAStatus"),
    ],
    ids=range(8),
)
def test_what_is_no_status_is_not_taken_for_one(body: bytes, reason: str) -> None:
    found = decoded_status(body, "it")
    assert isinstance(found, Note)
    assert found.reason == reason


@asynccontextmanager
async def web_server() -> AsyncIterator[str]:
    """Answers like no rescheduler does."""

    async def status(request: web.Request) -> web.StreamResponse:
        kind = request.match_info["kind"]
        if kind == "good":
            return web.Response(body=BODY)
        if kind == "redirect":
            raise web.HTTPFound("/good/status")
        if kind == "huge":
            return web.Response(body=b" " * (MOST_BYTES + 1))
        raise web.HTTPNotFound

    app = web.Application()
    app.router.add_get("/{kind}/status", status)
    runner = web.AppRunner(app)
    await runner.setup()
    (port,) = pick_ports(1)
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


async def test_an_address_is_asked_without_trust() -> None:
    async with web_server() as url:
        assert await ask_address(f"{url}/good") == STATUS
        assert await ask_address(f"{url}/good/status/") == STATUS
        kinds = ("redirect", "huge", "old")
        answers = await asyncio.gather(*(ask_address(f"{url}/{kind}") for kind in kinds))
    nobody = await ask_address(url)
    notes = [answer for answer in (*answers, nobody) if isinstance(answer, Note)]
    assert [note.reason for note in notes] == [
        "NotAStatus",
        "NotAStatus",
        "NoStatusPage",
        "NotReached",
    ]
    assert notes[-1].sentence.endswith("is not reached: Connection refused.")


async def test_a_host_that_is_not_known_is_said_to_be_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def knows_nobody(*args: object, **options: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", knows_nobody)
    note = await ask_address("http://leader.example:8080")
    assert isinstance(note, Note)
    assert note.reason == "NotReached"
    assert note.sentence.endswith("is not reached: Name or service not known.")


async def test_a_certificate_that_is_not_accepted_is_said_to_be_so(cluster: TestCluster) -> None:
    """That of the API server is of an authority that nothing here knows."""
    note = await ask_address(cluster.server)
    assert isinstance(note, Note)
    assert note.reason == "NotReached"
    assert "certificate verify failed" in note.sentence
