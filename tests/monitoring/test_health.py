"""`/healthz` fails only if a restart would help, and `/readyz` says what is missing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from rescheduler.controller.program import Program
from rescheduler.kube.client import Client, ClientSettings
from rescheduler.kube.live_store import LiveStore
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.monitoring.health import (
    PLAN_SECONDS,
    PLAN_TIMEOUTS,
    dead_task,
    endless_plan,
    why_not_loaded,
)
from rescheduler.settings import Policy, Seconds
from testcluster import TestCluster
from testcluster.ports import pick_ports
from tests.kube.support import QUICK_WATCH, credentials
from tests.migration.support import client_for


class Planner:
    """A program that has been planning for so long."""

    def __init__(self, seconds: float) -> None:
        self.policy = msgspec.structs.replace(Policy(), planning_timeout_seconds=Seconds(5))
        self._seconds = seconds

    def planning_seconds(self) -> float:
        return self._seconds


def test_a_plan_may_take_long_but_not_for_ever() -> None:
    longest = PLAN_SECONDS + 5 * PLAN_TIMEOUTS
    assert endless_plan(Planner(0)) == ""
    assert endless_plan(Planner(longest)) == ""
    assert endless_plan(Planner(longest + 1)) == (
        f"a plan has not ended for {longest + 1:.0f}s; planningTimeout is 5s"
    )


@asynccontextmanager
async def started(store: LiveStore) -> AsyncIterator[None]:
    store.start()
    try:
        yield
    finally:
        await store.stop()


async def test_a_watch_that_has_ended_is_a_reason_to_restart(
    cluster: TestCluster,
) -> None:
    async with client_for(cluster) as client:
        store = LiveStore(client, ClusterTables(), settings=QUICK_WATCH)
        async with started(store):
            await store.synced(60)
            assert (store.dead_watches(), why_not_loaded(store)) == ([], "")
            (task,) = (each for each in asyncio.all_tasks() if each.get_name() == "watch nodes")
            task.cancel()
            await asyncio.wait([task])
            assert store.dead_watches() == ["watch nodes"]
            program = Program(client, Policy())
            program.store = store
            assert dead_task(program) == "ended although it should run on: watch nodes"


@pytest.mark.parametrize("kind", ["Node", "Pod"])
async def test_without_a_server_a_program_is_well_but_not_ready(kind: str) -> None:
    (port,) = pick_ports(1)
    settings = ClientSettings(attempts=1)
    async with Client(credentials(f"http://127.0.0.1:{port}", "token"), settings) as client:
        store = LiveStore(client, ClusterTables(), settings=QUICK_WATCH)
        async with started(store):
            async with asyncio.timeout(60):
                while "(" not in (why := why_not_loaded(store)):
                    assert store.dead_watches() == []
                    await asyncio.sleep(0.01)
            assert why.startswith("the cluster is not loaded yet: no list of ")
            assert kind in why
            assert f"127.0.0.1:{port}" in why
