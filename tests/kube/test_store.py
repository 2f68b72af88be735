"""The store follows every kind, and says what it cannot see."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from rescheduler.errors import Forbidden, NotFound, Unavailable
from rescheduler.kube.client import Client
from rescheduler.kube.live_store import LiveStore
from rescheduler.model.kinds import KINDS, NODE, POD, Kind
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.model.tables.object_table import ObjectTable
from rescheduler.model.tables.table import Table, TableChange
from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import deployment
from tests.kube.support import CONFIG_MAP, QUICK_CLIENT, QUICK_WATCH, credentials, eventually

NOT_SERVED: Kind[Any] = replace(CONFIG_MAP, name="Gadget", api_version="example.com/v1")


class TablesWith(ClusterTables):
    """The tables of a cluster, and of further kinds."""

    def __init__(self, *kinds: Kind[Any]) -> None:
        super().__init__()
        self.further = [ObjectTable(kind) for kind in kinds]

    def tables(self) -> Iterable[Table[Any]]:
        return [*super().tables(), *self.further]


@asynccontextmanager
async def started(store: LiveStore) -> AsyncIterator[LiveStore]:
    store.start()
    try:
        yield store
    finally:
        await store.stop()


def status_of(store: LiveStore, kind: Kind[Any]) -> Any:
    return next(status for status in store.status() if status.kind == kind.name)


async def test_the_cluster_is_followed(
    cluster: TestCluster, client: Client, namespace: str, own_node: str
) -> None:
    changes: list[TableChange] = []
    store = LiveStore(client, ClusterTables(), settings=QUICK_WATCH)
    store.subscribe(POD, changes.append)
    assert store.age() is None
    async with started(store):
        await store.synced(timeout_seconds=120)
        tolerated = {
            "nodeSelector": {"kubernetes.io/hostname": own_node},
            "tolerations": [{"key": "own", "operator": "Exists"}],
        }
        carts = deployment(f"{namespace}/cart", replicas=2, template=tolerated)
        await asyncio.to_thread(apply, cluster, carts)

        def running() -> int:
            pods = store.snapshot().pods
            return sum(
                key.startswith(f"{namespace}/cart-") and bool(ready)
                for key, ready in zip(pods.keys, pods.ready, strict=True)
            )

        await eventually(lambda: running() == 2, "both pods run")
        assert {status.kind for status in store.status() if status.synced} == {
            kind.name for kind in KINDS
        }
        assert store.age() is not None
        added = {change.key for change in changes if change.type == "Added"}
        assert sum(key.startswith(f"{namespace}/cart-") for key in added) == 2


async def test_everything_is_read_once_without_watching(client: Client, own_node: str) -> None:
    store = LiveStore(client, ClusterTables())
    await store.list_once()
    assert own_node in store.snapshot().nodes.names


async def test_a_kind_that_is_needed_and_not_served_is_an_error(client: Client) -> None:
    store = LiveStore(client, TablesWith(NOT_SERVED), settings=QUICK_WATCH)
    with pytest.raises(NotFound, match="/apis/example"):
        await store.list_once()
    async with started(store):
        with pytest.raises(NotFound, match="/apis/example"):
            await store.synced(timeout_seconds=120)


async def test_who_may_not_list_gets_an_error(cluster: TestCluster) -> None:
    powerless = credentials(cluster.server, cluster.powerless_token, cluster.ca_file)
    async with Client(powerless, QUICK_CLIENT) as client:
        store = LiveStore(client, ClusterTables(), settings=QUICK_WATCH)
        with pytest.raises(Forbidden, match='User "powerless" cannot list resource'):
            await store.list_once()
        async with started(store):
            with pytest.raises(Forbidden, match='User "powerless" cannot list resource'):
                await store.synced(timeout_seconds=120)


async def test_a_server_that_does_not_answer_is_waited_for_only_so_long() -> None:
    client = Client(credentials("http://127.0.0.1:1", ""), QUICK_CLIENT)
    store = LiveStore(client, ClusterTables(), settings=QUICK_WATCH)
    async with client, started(store):
        await eventually(lambda: status_of(store, NODE).last_error)
        with pytest.raises(Unavailable, match=r"first list of nodes, .*: could not connect"):
            await store.synced(timeout_seconds=0.01)
