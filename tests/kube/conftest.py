"""Fixtures for everything that talks to an API server."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from random import Random

import pytest

from rescheduler.kube.client import Client
from rescheduler.kube.listwatch import ListWatch, WatchSettings
from rescheduler.model.tables.object_table import ObjectTable
from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import namespace as namespace_object
from testcluster.builders import node
from tests.kube.faultproxy import FaultProxy
from tests.kube.support import (
    CONFIG_MAP,
    QUICK_CLIENT,
    QUICK_WATCH,
    ConfigMap,
    Consumer,
    Outside,
    contents_of,
    credentials,
    eventually,
)

numbers = count(1)


@pytest.fixture
def outside(cluster: TestCluster) -> Iterator[Outside]:
    client = cluster.client
    yield Outside(client)
    client.close()


@pytest.fixture
def namespace(outside: Outside) -> Iterator[str]:
    """A namespace of the test's own."""
    name = f"kube-{next(numbers)}"
    outside.client.create("/api/v1/namespaces", namespace_object(name))
    yield name
    outside.delete_all(name)


@pytest.fixture
def own_node(cluster: TestCluster, outside: Outside, namespace: str) -> Iterator[str]:
    """A node that only takes pods which are meant for it, and is gone after the test."""
    name = f"{namespace}-node"
    apply(cluster, node(name, taints=[{"key": "own", "effect": "NoSchedule"}]))
    yield name
    outside.client.delete(f"/api/v1/nodes/{name}")


@pytest.fixture
async def client(cluster: TestCluster) -> AsyncIterator[Client]:
    """The client under test, connected to the server itself."""
    connection = credentials(cluster.server, cluster.admin_token, cluster.ca_file)
    async with Client(connection, QUICK_CLIENT) as client:
        yield client


@pytest.fixture
async def proxy(cluster: TestCluster) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(cluster.server, str(cluster.ca_file)) as proxy:
        yield proxy


@pytest.fixture
async def proxied(cluster: TestCluster, proxy: FaultProxy) -> AsyncIterator[Client]:
    """The client under test, connected through the proxy."""
    async with Client(credentials(proxy.url, cluster.admin_token), QUICK_CLIENT) as client:
        yield client


class Following:
    """A list-watch that runs, its table, and someone who sees its changes."""

    def __init__(self, client: Client, settings: WatchSettings, outside: Outside) -> None:
        self.table = ObjectTable(CONFIG_MAP)
        self.watch: ListWatch[ConfigMap] = ListWatch(client, self.table, settings, chance=Random(1))
        self.consumer = Consumer(self.watch, self.table)
        self._outside = outside

    async def agrees(self) -> None:
        """Wait until table, consumer and server agree."""

        def agree() -> bool:
            there = self._outside.contents()
            return there == contents_of(self.table) == self.consumer.known

        await eventually(agree, "table and server agree")
        assert self.consumer.complaints == []


@asynccontextmanager
async def following(
    client: Client, outside: Outside, settings: WatchSettings = QUICK_WATCH
) -> AsyncIterator[Following]:
    """Follow config maps while the block runs, from the first list on."""
    followed = Following(client, settings, outside)
    task = asyncio.create_task(followed.watch.run())
    try:
        await followed.watch.wait_synced()
        yield followed
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
