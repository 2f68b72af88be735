"""A write that needs a permit is stopped before it is sent, or given up by the server in time."""

import asyncio
import socket
import time

import pytest

from rescheduler.errors import ApiError, NotLeading, OutcomeUnknown, Unavailable
from rescheduler.kube.client import Client
from rescheduler.kube.transport import new_socket
from testcluster import TestCluster
from testcluster.waiting import wait_until
from tests.kube.faultproxy import FaultProxy, is_write, lose_answer
from tests.kube.silent_webhook import WEBHOOK_SECONDS, silent_webhook
from tests.kube.support import Outside, config_map, path_of

CONFIG_MAPS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}


class Fence:
    """Permits a write, and may still refuse it when it is about to be sent."""

    def __init__(self, *refusals: ApiError | None, server_seconds: float = 30.0) -> None:
        self.server_seconds = server_seconds
        self.refusal: ApiError | None = None
        self.answers = 0
        self._refusals = [*refusals]

    def permit(self, call: str) -> "Fence":
        return self

    def send(self) -> None:
        self.refusal = self._refusals.pop(0) if self._refusals else None
        if self.refusal is not None:
            raise self.refusal

    def answered(self) -> None:
        self.answers += 1


async def test_a_write_that_is_refused_when_it_is_about_to_be_sent_does_not_happen(
    client: Client, outside: Outside, namespace: str
) -> None:
    fence = Fence(NotLeading("POST /x", "not any more"))
    fenced = client.fenced(fence)
    with pytest.raises(NotLeading, match="not any more"):
        await fenced.create(path_of(namespace=namespace), config_map(f"{namespace}/a"))
    assert fence.answers == 0
    # On the same connections, later.
    await fenced.create(path_of(namespace=namespace), config_map(f"{namespace}/b"))
    assert fence.answers == 1
    assert not outside.client.exists(path_of(f"{namespace}/a"))
    assert outside.client.exists(path_of(f"{namespace}/b"))


async def test_a_write_that_was_late_is_sent_again_with_another_permit(
    client: Client, outside: Outside, namespace: str
) -> None:
    fenced = client.fenced(Fence(Unavailable("POST /x", "too late"), None))
    await fenced.create(path_of(namespace=namespace), config_map(f"{namespace}/a"))
    assert outside.client.exists(path_of(f"{namespace}/a"))


async def test_reads_and_the_client_without_the_fence_need_no_permit(
    client: Client, outside: Outside, namespace: str
) -> None:
    class Closed:
        def permit(self, call: str) -> Fence:
            raise NotLeading(call, "closed")

    fenced = client.fenced(Closed())
    await fenced.get(path_of(namespace=namespace), dict)
    for write in (
        fenced.create(path_of(namespace=namespace), config_map(f"{namespace}/a")),
        fenced.patch(path_of(f"{namespace}/a"), {"data": {}}),
        fenced.delete(path_of(f"{namespace}/a")),
        fenced.evict(f"{namespace}/a", dry_run=True),
        fenced.bind(f"{namespace}/a", "node"),
    ):
        with pytest.raises(NotLeading):
            await write
    await client.create(path_of(namespace=namespace), config_map(f"{namespace}/a"))
    assert outside.client.exists(path_of(f"{namespace}/a"))


async def test_a_write_without_an_answer_stays_open(
    proxied: Client, proxy: FaultProxy, namespace: str
) -> None:
    fence = Fence()
    proxy.next(is_write, lose_answer)
    with pytest.raises(OutcomeUnknown):
        await proxied.fenced(fence).create(
            path_of(namespace=namespace), config_map(f"{namespace}/a")
        )
    assert fence.answers == 0


async def test_a_repetition_needs_another_permit(
    client: Client, outside: Outside, namespace: str
) -> None:

    class Once:
        permits = 0

        def permit(self, call: str) -> Fence:
            self.permits += 1
            if self.permits > 1:
                raise NotLeading(call, "lost")
            return Fence(Unavailable(call, "too late"))

    with pytest.raises(NotLeading, match="lost"):
        await client.fenced(Once()).create(
            path_of(namespace=namespace), config_map(f"{namespace}/a")
        )
    assert not outside.client.exists(path_of(f"{namespace}/a"))


async def test_the_server_gives_up_a_write_when_its_time_is_over(
    cluster: TestCluster, client: Client, outside: Outside, namespace: str
) -> None:
    """A webhook does not answer, and is ignored after three seconds: then the object is created."""
    with silent_webhook(outside.client, namespace, CONFIG_MAPS):
        await asyncio.to_thread(wait_until_webhook_is_asked, outside, namespace)
        fenced = client.fenced(Fence(server_seconds=1.0))
        with pytest.raises(OutcomeUnknown):
            await fenced.create(path_of(namespace=namespace), config_map(f"{namespace}/late"))
        # This one takes longer than the webhook would still have been waited for.
        await client.create(path_of(namespace=namespace), config_map(f"{namespace}/patient"))
    assert outside.client.exists(path_of(f"{namespace}/patient"))
    assert not outside.client.exists(path_of(f"{namespace}/late"))


def wait_until_webhook_is_asked(outside: Outside, namespace: str) -> None:
    """The API server learns of a new configuration a moment later."""

    def is_asked() -> bool:
        started = time.monotonic()
        body = config_map(f"{namespace}/{time.monotonic_ns()}")
        outside.client.create(path_of(namespace=namespace), body)
        return time.monotonic() - started >= WEBHOOK_SECONDS

    wait_until(is_asked, what="creating a config map waits for the webhook")


def test_a_socket_drops_what_is_not_delivered_in_time() -> None:
    address = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))
    with new_socket(address, delivery_seconds=1.25) as sock:
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 1250
