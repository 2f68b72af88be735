"""Events of a busy watch are held back for a moment and come together; none is lost or stuck."""

import asyncio
import socket
from asyncio.trsock import TransportSocket
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace

from rescheduler.kube.client import Client
from rescheduler.kube.transport import READ_BYTES, ReadBatching
from rescheduler.kube.watch_events import Added
from tests.kube.conftest import following
from tests.kube.faultproxy import FaultProxy
from tests.kube.support import CONFIG_MAP, QUICK_WATCH, Outside, config_map, eventually, path_of

FOREVER = 3600.0
LABEL = "batch"
LARGE = "x" * (READ_BYTES + 10_000)


class Watched:
    """The config maps that a watch has shown as new, batch by batch."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def has(self, name: str) -> bool:
        return any(name in batch for batch in self.batches)

    async def follow(self, client: Client, namespace: str, batch_seconds: float) -> None:
        """Watch the labelled config maps of a namespace from now on."""
        kind = replace(CONFIG_MAP, selector=f"{LABEL}={namespace}")
        now = (await anext(client.list_pages(kind))).resource_version
        async with aclosing(client.watch(kind, now, 60, batch_seconds)) as batches:
            async for events in batches:
                new = [event.object for event in events if isinstance(event, Added)]
                self.batches.append([found.metadata.name for found in new])


@asynccontextmanager
async def watching(client: Client, namespace: str, batch_seconds: float) -> AsyncIterator[Watched]:
    watched = Watched()
    task = asyncio.create_task(watched.follow(client, namespace, batch_seconds))
    try:
        await eventually(lambda: watched.batches, "the watch is open")
        yield watched
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def create(outside: Outside, namespace: str, name: str, **data: str) -> None:
    """Create a labelled config map, while watches go on."""
    body = config_map(f"{namespace}/{name}", **data)
    body["metadata"]["labels"] = {LABEL: namespace}
    await asyncio.to_thread(outside.client.create, path_of(namespace=namespace), body)


async def seen(watched: Watched, name: str) -> None:
    await eventually(lambda: watched.has(name), f"{name} was read")


async def keep_busy(outside: Outside, namespace: str, watched: Watched) -> None:
    """Let one event be read soon after another: from then on, events are held back."""
    for name in ("first", "second"):
        await create(outside, namespace, name)
        await seen(watched, name)


async def test_events_of_a_busy_watch_come_together(
    client: Client, outside: Outside, namespace: str
) -> None:
    async with (
        watching(client, namespace, 0.0) as at_once,
        watching(client, namespace, FOREVER) as held_back,
    ):
        await keep_busy(outside, namespace, held_back)
        for name in ("third", "fourth"):
            await create(outside, namespace, name)
            await seen(at_once, name)
        assert not held_back.has("third")
        await create(outside, namespace, "large", text=LARGE)
        await seen(held_back, "third")
        (together,) = [batch for batch in held_back.batches if "third" in batch]
        assert "fourth" in together


async def test_what_was_held_back_is_read_when_the_time_is_over(
    client: Client, outside: Outside, namespace: str
) -> None:
    """Although nothing follows that could wake us up."""
    async with watching(client, namespace, 0.5) as watched:
        await keep_busy(outside, namespace, watched)
        await create(outside, namespace, "third")
        await seen(watched, "third")


async def test_nothing_is_lost_when_the_server_ends_watches(
    client: Client, outside: Outside, namespace: str
) -> None:
    """Changes come all the time, over several watches."""
    brief = replace(
        QUICK_WATCH, batch_seconds=0.3, shortest_watch_seconds=1, longest_watch_seconds=1
    )
    async with following(client, outside, brief) as followed:
        for number in range(30):
            await asyncio.to_thread(
                outside.put, f"{namespace}/object-{number % 7}", number=str(number)
            )
            await asyncio.sleep(0.1)
        await followed.agrees()
        assert followed.watch.lists == 1


async def test_a_cut_connection_is_noticed_while_events_are_held_back(
    proxied: Client, proxy: FaultProxy, outside: Outside, namespace: str
) -> None:
    settings = replace(QUICK_WATCH, batch_seconds=FOREVER)
    async with following(proxied, outside, settings) as followed:
        await eventually(proxy.open_watches)
        for number in range(5):
            await asyncio.to_thread(outside.put, f"{namespace}/object-{number}")
        await asyncio.to_thread(outside.delete, f"{namespace}/object-0")
        proxy.cut_all()
        await followed.agrees()
        assert followed.watch.lists == 1


async def test_everything_arrives_however_much_comes(
    client: Client, outside: Outside, namespace: str
) -> None:
    settings = replace(QUICK_WATCH, batch_seconds=0.1)
    async with following(client, outside, settings) as followed:
        for number in range(40):
            text = "x" * (number % 8 * 10_000)
            await asyncio.to_thread(outside.put, f"{namespace}/object-{number % 9}", text=text)
        await followed.agrees()
        assert followed.watch.lists == 1


async def test_a_connection_that_others_use_next_holds_nothing_back() -> None:
    here, there = socket.socketpair()
    with here, there:
        batching = ReadBatching(TransportSocket(here), FOREVER)
        batching.after_events()
        assert wakes_up_at(here) == 1
        batching.after_events()
        assert wakes_up_at(here) == READ_BYTES
        batching.close()
        assert wakes_up_at(here) == 1


async def test_a_connection_that_was_closed_meanwhile_is_no_error() -> None:
    here, there = socket.socketpair()
    with here, there:
        batching = ReadBatching(TransportSocket(here), FOREVER)
        batching.after_events()
        batching.after_events()
    batching.close()


def wakes_up_at(sock: socket.socket) -> int:
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT)
