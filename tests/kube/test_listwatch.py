"""A list-watch agrees with the server, whatever happens in between."""

import asyncio
import base64
import json
import os
import time
from dataclasses import replace
from random import Random
from urllib.parse import parse_qs, quote, urlsplit
from urllib.request import Request, urlopen

import pytest
from aiohttp import web

from rescheduler.errors import Forbidden, Gone, Unavailable
from rescheduler.kube.client import Client
from rescheduler.kube.listwatch import ListWatch, WatchSettings
from rescheduler.kube.transport import Timeouts
from rescheduler.kube.watch_events import Bookmark
from rescheduler.model.tables.object_table import ObjectTable
from testcluster import TestCluster
from tests.conftest import FreshCluster
from tests.kube.conftest import following
from tests.kube.faultproxy import (
    Exchange,
    Fault,
    FaultProxy,
    answer_with,
    cut_after,
    cut_at_once,
    delay,
    end_after,
    error_event,
    forget_version,
    is_list,
    is_next_page,
    is_watch,
    line_after,
    stall_after,
    with_path,
)
from tests.kube.support import (
    CONFIG_MAP,
    QUICK,
    QUICK_CLIENT,
    QUICK_WATCH,
    Outside,
    credentials,
    eventually,
)

IMPATIENT = replace(QUICK_CLIENT, timeouts=Timeouts(5, 0.3, 5, 0.3))

BROKEN_WATCHES = {
    "cut before the answer": cut_at_once,
    "cut within a line": cut_after(100),
    "cut between two lines": cut_after(1),
    "ended within a line": end_after(100),
    "ended at once": end_after(0),
    "a line that is not JSON": line_after(100, "]["),
    "an error in the stream": error_event(500),
    "delayed": delay(0.1),
    "429": answer_with(429, "slow down", retry_after=0),
    "500": answer_with(500),
    "502": answer_with(502, "<html>Bad Gateway</html>"),
    "503": answer_with(503, retry_after=0),
}


async def test_objects_appear_change_and_disappear(
    client: Client, outside: Outside, namespace: str
) -> None:
    outside.put(f"{namespace}/old", a="1")
    async with following(client, outside) as followed:
        outside.put(f"{namespace}/new", a="1")
        outside.put(f"{namespace}/old", a="2")
        await followed.agrees()
        outside.delete(f"{namespace}/old")
        await followed.agrees()
        found = followed.table.get(f"{namespace}/new")
        assert found is not None
        assert found.data == {"a": "1"}


async def test_a_list_is_complete_over_many_pages(
    client: Client, outside: Outside, namespace: str
) -> None:
    for number in range(7):
        outside.put(f"{namespace}/object-{number}")
    async with following(client, outside, WatchSettings(page_size=2)) as followed:
        await followed.agrees()


async def test_an_object_replaced_by_another_of_its_name_is_deleted_and_added(
    client: Client, outside: Outside, namespace: str
) -> None:
    key = f"{namespace}/phoenix"
    outside.put(key)
    async with following(client, outside) as followed:
        outside.delete(key)
        outside.put(key)
        await followed.agrees()
        changes = [change.type for change in followed.consumer.seen if change.key == key]
        assert changes == ["Added", "Deleted", "Added"]


@pytest.mark.parametrize("fault", BROKEN_WATCHES.values(), ids=BROKEN_WATCHES.keys())
async def test_a_broken_watch_goes_on_where_it_was(
    fault: Fault, proxied: Client, proxy: FaultProxy, outside: Outside, namespace: str
) -> None:
    outside.put(f"{namespace}/changed")
    outside.put(f"{namespace}/deleted")
    async with following(proxied, outside) as followed:
        await eventually(proxy.open_watches)
        proxy.next(is_watch, fault)
        proxy.cut_all()
        outside.put(f"{namespace}/changed", a="2")
        outside.put(f"{namespace}/created")
        outside.delete(f"{namespace}/deleted")
        await followed.agrees()
        assert proxy.pending == 0
        assert followed.watch.lists == 1


async def test_a_watch_that_falls_silent_is_noticed(
    cluster: TestCluster, proxy: FaultProxy, outside: Outside, namespace: str
) -> None:
    async with Client(credentials(proxy.url, cluster.admin_token), IMPATIENT) as client:
        proxy.next(is_watch, stall_after(100))
        async with following(client, outside) as followed:
            outside.put(f"{namespace}/created")
            await followed.agrees()
            assert followed.watch.lists == 1


FORGOTTEN = {"when opening": forget_version(), "in the stream": error_event(410)}


@pytest.mark.parametrize("fault", FORGOTTEN.values(), ids=FORGOTTEN.keys())
async def test_a_forgotten_version_is_listed_again(
    fault: Fault, proxied: Client, proxy: FaultProxy, outside: Outside, namespace: str
) -> None:
    outside.put(f"{namespace}/deleted")
    async with following(proxied, outside) as followed:
        await eventually(proxy.open_watches)
        proxy.next(is_watch, fault)
        proxy.cut_all()
        # The list cannot say that this was deleted: it is only no longer in it.
        outside.delete(f"{namespace}/deleted")
        outside.put(f"{namespace}/created")
        await followed.agrees()
        assert followed.watch.lists == 2


async def test_a_list_that_expires_between_two_pages_is_begun_again(
    cluster: TestCluster, proxied: Client, proxy: FaultProxy, outside: Outside, namespace: str
) -> None:
    for number in range(3):
        outside.put(f"{namespace}/object-{number}")
    compact_history(cluster, outside)
    proxy.next(is_next_page, with_path(continued_from_the_beginning))
    async with following(proxied, outside, WatchSettings(page_size=1, backoff=QUICK)) as followed:
        assert proxy.pending == 0
        await followed.agrees()
        assert followed.watch.lists == 1


async def test_what_was_deleted_before_a_list_was_begun_again_is_gone(
    proxied: Client, proxy: FaultProxy, outside: Outside, namespace: str
) -> None:
    first_of_all = "default/aaa"
    outside.put(first_of_all)
    outside.put(f"{namespace}/object")

    async def delete_and_forget(exchange: Exchange) -> web.StreamResponse:
        outside.delete(first_of_all)
        return await forget_version()(exchange)

    proxy.next(is_next_page, delete_and_forget)
    async with following(proxied, outside, WatchSettings(page_size=1, backoff=QUICK)) as followed:
        await followed.agrees()
        changes = [change.type for change in followed.consumer.seen if change.key == first_of_all]
        assert changes == ["Added", "Deleted"]


async def test_a_list_that_always_expires_is_given_up(proxied: Client, proxy: FaultProxy) -> None:
    settings = WatchSettings(page_size=1, backoff=QUICK, list_attempts=2)
    for _ in range(2):
        proxy.next(is_next_page, forget_version())
    watch = ListWatch(proxied, ObjectTable(CONFIG_MAP), settings)
    with pytest.raises(Unavailable, match="too old"):
        await watch.list()


@pytest.mark.parametrize("fault", [cut_at_once, cut_after(100), answer_with(500)])
async def test_a_page_that_fails_is_asked_for_again(
    fault: Fault, proxied: Client, proxy: FaultProxy, outside: Outside, namespace: str
) -> None:
    for number in range(3):
        outside.put(f"{namespace}/object-{number}")
    proxy.next(is_list, fault)
    proxy.next(is_next_page, fault)
    async with following(proxied, outside, WatchSettings(page_size=2, backoff=QUICK)) as followed:
        await followed.agrees()
        assert proxy.pending == 0


async def test_what_is_known_ages_until_the_server_speaks_again(client: Client) -> None:
    """Where nothing changes, a new watch is the only sign of life."""
    now = [100.0]
    settings = WatchSettings(shortest_watch_seconds=1, longest_watch_seconds=1, backoff=QUICK)
    watch = ListWatch(client, ObjectTable(CONFIG_MAP), settings, clock=lambda: now[0])
    assert watch.age(now=100.0) is None
    assert not watch.synced
    task = asyncio.create_task(watch.run())
    await watch.wait_synced()
    assert watch.synced
    assert watch.age(now=150.0) == 50.0
    now[0] = 150.0
    await eventually(lambda: watch.age(now=150.0) == 0.0, "another watch was opened")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_bookmarks_come_with_the_version_reached(
    client: Client, outside: Outside, namespace: str
) -> None:
    """There is one two seconds before the end of a watch that has seen a change while open."""
    key = f"{namespace}/object"
    outside.put(key, value="before")
    before = outside.contents()[key][1]
    bookmarks: list[Bookmark] = []
    while not bookmarks:
        async for events in client.watch(CONFIG_MAP, str(before), timeout_seconds=4):
            if not events:
                outside.put(key, value=str(time.monotonic()))
            bookmarks += [event for event in events if isinstance(event, Bookmark)]
    assert int(bookmarks[-1].object.metadata.resource_version) > before


async def test_a_line_of_a_megabyte_is_read(
    client: Client, outside: Outside, namespace: str
) -> None:
    async with following(client, outside) as followed:
        outside.put(f"{namespace}/large", text="x" * 1_000_000)
        await followed.agrees()
        found = followed.table.get(f"{namespace}/large")
        assert found is not None
        assert len(found.data["text"]) == 1_000_000
    outside.delete(f"{namespace}/large")


async def test_who_waits_for_a_forbidden_kind_is_told(cluster: TestCluster) -> None:
    connection = credentials(cluster.server, cluster.powerless_token, cluster.ca_file)
    async with Client(connection, QUICK_CLIENT) as client:
        watch = ListWatch(client, ObjectTable(CONFIG_MAP), QUICK_WATCH)
        task = asyncio.create_task(watch.run())
        with pytest.raises(Forbidden, match='User "powerless" cannot list resource "configmaps"'):
            await watch.wait_synced()
        assert not watch.synced
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_subscriber_that_fails_does_not_stop_the_others(
    client: Client, outside: Outside, namespace: str
) -> None:
    def fail(change: object) -> None:
        raise RuntimeError("a bug in a subscriber")

    async with following(client, outside) as followed:
        followed.watch.subscribe(fail)
        outside.put(f"{namespace}/object")
        await followed.agrees()


async def test_a_restart_of_the_server_loses_only_its_memory(fresh_cluster: FreshCluster) -> None:
    cluster = fresh_cluster(controllers=False, scheduler=False, kwok=False)
    outside = Outside(cluster.client)
    connection = credentials(cluster.server, cluster.admin_token, cluster.ca_file)
    async with Client(connection, QUICK_CLIENT) as client, following(client, outside) as followed:
        outside.put("default/deleted")
        outside.put("default/kept")
        await followed.agrees()
        restart = asyncio.create_task(asyncio.to_thread(cluster.restart_apiserver))
        await eventually(lambda: followed.watch.last_error is not None, "the watch broke")
        await restart
        outside.delete("default/deleted")
        outside.put("default/created")
        await followed.agrees()
        # What the server remembers for watches begins anew with it, and it says so.
        late = ListWatch(client, ObjectTable(CONFIG_MAP), QUICK_WATCH)
        late._version = 1
        with pytest.raises(Gone, match="too old"):
            await late._watch()


RANDOM_FAULTS: list[Fault] = [
    *BROKEN_WATCHES.values(),
    cut_after(3000),
    end_after(3000),
    line_after(2000, '{"type":"MODIFIED","object":{"metadata":{'),
    stall_after(1500),
    forget_version(),
    error_event(410),
    error_event(410),
]


@pytest.mark.parametrize("run", range(int(os.environ.get("FAULT_RUNS", "3"))))
async def test_store_and_server_agree_after_any_faults(
    run: int, cluster: TestCluster, proxy: FaultProxy, outside: Outside, namespace: str
) -> None:
    seed = int(os.environ.get("FAULT_SEED", "") or Random().randrange(10**6)) + run
    print(f"To repeat: FAULT_RUNS=1 FAULT_SEED={seed}")
    chance = Random(seed)
    async with Client(credentials(proxy.url, cluster.admin_token), IMPATIENT) as client:
        for _ in range(5):
            proxy.next(is_list, chance.choice([cut_at_once, cut_after(500), answer_with(500)]))
        settings = replace(QUICK_WATCH, batch_seconds=chance.choice([0.0, 0.02, 0.1]))
        async with following(client, outside, settings) as followed:
            for _ in range(150):
                await asyncio.to_thread(change_something, outside, namespace, chance)
                if chance.random() < 0.2:
                    proxy.next(is_watch, chance.choice(RANDOM_FAULTS))
                if chance.random() < 0.1:
                    proxy.next(is_next_page, forget_version())
                if chance.random() < 0.1:
                    proxy.cut_all()
            await followed.agrees()


def change_something(outside: Outside, namespace: str, chance: Random) -> None:
    """Create, change or delete one of a few objects."""
    key = f"{namespace}/object-{chance.randrange(12)}"
    if chance.random() < 0.3:
        outside.delete_if_there(key)
    else:
        outside.put(key, value=str(chance.random()), filling="x" * chance.randrange(2000))


def compact_history(cluster: TestCluster, outside: Outside) -> None:
    """Let the server forget all versions up to now, as it does every five minutes."""
    revision = int(outside.client.get(CONFIG_MAP.path)["metadata"]["resourceVersion"])
    body = json.dumps({"revision": revision}).encode()
    urlopen(Request(f"{cluster.etcd_url}/v3/kv/compaction", body)).close()


def continued_from_the_beginning(path: str) -> str:
    """The path of a next page, as if its list had been begun at the first version."""
    url = urlsplit(path)
    query = {name: values[0] for name, values in parse_qs(url.query).items()}
    token = json.loads(base64.urlsafe_b64decode(query["continue"] + "=="))
    changed = base64.urlsafe_b64encode(json.dumps({**token, "rv": 1}).encode()).decode()
    query["continue"] = changed.rstrip("=")
    return f"{url.path}?" + "&".join(f"{name}={quote(value)}" for name, value in query.items())
