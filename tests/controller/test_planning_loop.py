"""Rounds request moves, heed the outcome of earlier ones, and delete what did not start."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from rescheduler.controller.move_requests import first_wave
from rescheduler.controller.planning_loop import PlanningLoop
from rescheduler.kube.clock import WALL_CLOCK, WallClock
from rescheduler.kube.live_store import LiveStore
from rescheduler.migration.migration_watches import MigrationWatches
from rescheduler.model.moves import Mode
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.planning.plan import Move
from rescheduler.settings import Policy, StrategyName
from testcluster.client import JsonObject
from tests.kube.support import QUICK_WATCH
from tests.migration.support import Sandbox, client_for, node_of

MAINTENANCE = "scheduler.alpha.kubernetes.io/maintenance"
POLICY = Policy(enabled_strategies=(StrategyName.NODE_MAINTENANCE,), max_reschedule_pods=100)


class FastClock(WallClock):
    """A clock that is ahead."""

    def __init__(self, ahead: timedelta) -> None:
        self._ahead = ahead

    def now(self) -> datetime:
        return super().now() + self._ahead


@asynccontextmanager
async def planning_loop_on(sandbox: Sandbox, minutes_later: int = 0) -> AsyncIterator[PlanningLoop]:
    async with client_for(sandbox.cluster) as client:
        tables = ClusterTables()
        store = LiveStore(client, tables, settings=QUICK_WATCH)
        watches = MigrationWatches(client, store, tables, QUICK_WATCH)
        store.start()
        tasks = watches.start()
        await watches.synced()
        clock = FastClock(timedelta(minutes=minutes_later))
        yield PlanningLoop(client, store, watches, POLICY, clock=clock)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await store.stop()


def under_maintenance(sandbox: Sandbox) -> tuple[JsonObject, str]:
    """A pod that has to leave its node, and the only node it can go to."""
    sandbox.add_nodes("a")
    (pod,) = sandbox.deploy("web", 1)
    (target,) = sandbox.add_nodes("b")
    set_maintenance(sandbox, node_of(pod), "true")
    return pod, target


def set_maintenance(sandbox: Sandbox, node: str, value: str | None) -> None:
    sandbox.outside.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {MAINTENANCE: value}}})


def requested_moves(sandbox: Sandbox) -> list[tuple[str, str]]:
    return [
        (migration["spec"]["pod"]["name"], migration["spec"]["targetNode"])
        for migration in sandbox.all("migrations")
        if not migration["status"].get("outcome")
    ]


async def test_a_round_requests_a_move_once(sandbox: Sandbox) -> None:
    pod, target = under_maintenance(sandbox)
    async with planning_loop_on(sandbox) as loop:
        await loop.run_round()
        again = await loop.run_round()
        await sandbox.until(lambda: requested_moves(sandbox))
        third = await loop.run_round()
    set_maintenance(sandbox, node_of(pod), None)
    assert requested_moves(sandbox) == [(pod["metadata"]["name"], target)]
    assert again is not None
    assert third is not None
    mine = [move.pod for move in third.requested if move.pod.startswith(sandbox.namespace)]
    assert mine == []


async def test_a_move_that_came_back_is_not_requested_again_at_once(sandbox: Sandbox) -> None:
    pod, target = under_maintenance(sandbox)
    name = sandbox.migrate(pod, target, "earlier")
    owner = pod["metadata"]["ownerReferences"][0]
    workload = {"kind": owner["kind"], "name": owner["name"], "uid": owner["uid"]}
    ended = {
        "phase": "Completed",
        "outcome": "CameBack",
        "finishedAt": WALL_CLOCK.now().isoformat(),
        "workload": workload,
    }
    sandbox.outside.patch(sandbox.path("migrations", name) + "/status", {"status": ended})
    key = f"{sandbox.namespace}/{pod['metadata']['name']}"
    async with planning_loop_on(sandbox) as loop:
        finished = await loop.run_round()
    assert finished is not None
    assert {blocked.pod: blocked.blocker for blocked in finished.plan.blocked}[
        key
    ] == "RecentlyMoved"
    assert requested_moves(sandbox) == []
    async with planning_loop_on(sandbox, minutes_later=11) as loop:
        await loop.run_round()
        await sandbox.until(lambda: requested_moves(sandbox), "later it is tried again")
    set_maintenance(sandbox, node_of(pod), None)


async def test_a_planned_migration_that_never_started_is_deleted(sandbox: Sandbox) -> None:
    pod = {"metadata": {"name": "web-1", "uid": "1"}}
    sandbox.migrate(pod, "a", "planned", strategy="LoadBalancing")
    sandbox.migrate(pod, "a", "requested-by-a-person")
    async with planning_loop_on(sandbox, minutes_later=10) as loop:
        await loop.run_round()
    assert [found["metadata"]["name"] for found in sandbox.all("migrations")] == [
        "requested-by-a-person"
    ]


def test_later_waves_wait_for_the_first() -> None:
    moves = tuple(
        Move(f"shop/{number}", "a", "b", "s", Mode.HANDOFF, "r", 1.0, wave)
        for number, wave in enumerate((1, 2, 1, 3))
    )
    assert [move.pod for move in first_wave(moves)] == ["shop/0", "shop/2"]
