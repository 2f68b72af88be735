"""Rounds ask for moves, remember what became of earlier ones, and withdraw what is stale."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from rescheduler.controller.migration_watches import MigrationWatches
from rescheduler.controller.planning_loop import PlanningLoop, first_wave
from rescheduler.kube.clock import WALL_CLOCK, WallClock
from rescheduler.kube.live_store import LiveStore
from rescheduler.model.moves import Mode
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.planning.plan import Move
from rescheduler.settings import Policy, StrategyName
from testcluster.client import JsonObject
from tests.kube.support import QUICK_WATCH
from tests.migration.support import Corner, client_for, node_of

MAINTENANCE = "scheduler.alpha.kubernetes.io/maintenance"
POLICY = Policy(enabled_strategies=(StrategyName.NODE_MAINTENANCE,), max_reschedule_pods=100)


class FastClock(WallClock):
    """One that is ahead."""

    def __init__(self, ahead: timedelta) -> None:
        self._ahead = ahead

    def now(self) -> datetime:
        return super().now() + self._ahead


@asynccontextmanager
async def rounds_on(corner: Corner, minutes_later: int = 0) -> AsyncIterator[PlanningLoop]:
    async with client_for(corner.cluster) as client:
        tables = ClusterTables()
        store = LiveStore(client, tables, settings=QUICK_WATCH)
        watching = MigrationWatches(client, store, tables, QUICK_WATCH)
        store.start()
        watches = watching.start()
        await watching.synced()
        clock = FastClock(timedelta(minutes=minutes_later))
        yield PlanningLoop(client, store, watching, POLICY, clock=clock)
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)
        await store.stop()


def under_maintenance(corner: Corner) -> tuple[JsonObject, str]:
    """A pod that has to leave its node, and the only node it can go to."""
    corner.add_nodes("a")
    (pod,) = corner.deploy("web", 1)
    (target,) = corner.add_nodes("b")
    rest(corner, node_of(pod), "true")
    return pod, target


def rest(corner: Corner, node: str, value: str | None) -> None:
    corner.outside.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {MAINTENANCE: value}}})


def asked_for(corner: Corner) -> list[tuple[str, str]]:
    return [
        (each["spec"]["pod"]["name"], each["spec"]["targetNode"])
        for each in corner.all("migrations")
        if not each["status"].get("outcome")
    ]


async def test_a_round_asks_for_a_move_once(corner: Corner) -> None:
    pod, target = under_maintenance(corner)
    async with rounds_on(corner) as rounds:
        await rounds.run_round()
        again = await rounds.run_round()
        await corner.until(lambda: asked_for(corner))
        third = await rounds.run_round()
    rest(corner, node_of(pod), None)
    assert asked_for(corner) == [(pod["metadata"]["name"], target)]
    assert again is not None
    assert third is not None
    mine = [move.pod for move in third.asked_for if move.pod.startswith(corner.namespace)]
    assert mine == []


async def test_a_move_that_came_back_is_not_asked_for_again_at_once(corner: Corner) -> None:
    pod, target = under_maintenance(corner)
    name = corner.migrate(pod, target, "earlier")
    owner = pod["metadata"]["ownerReferences"][0]
    workload = {"kind": owner["kind"], "name": owner["name"], "uid": owner["uid"]}
    ended = {
        "phase": "Completed",
        "outcome": "CameBack",
        "finishedAt": WALL_CLOCK.now().isoformat(),
        "workload": workload,
    }
    corner.outside.patch(corner.path("migrations", name) + "/status", {"status": ended})
    key = f"{corner.namespace}/{pod['metadata']['name']}"
    async with rounds_on(corner) as rounds:
        made = await rounds.run_round()
    assert made is not None
    assert {each.pod: each.blocker for each in made.plan.blocked}[key] == "RecentlyMoved"
    assert asked_for(corner) == []
    async with rounds_on(corner, minutes_later=11) as rounds:
        await rounds.run_round()
        await corner.until(lambda: asked_for(corner), "later it is tried again")
    rest(corner, node_of(pod), None)


async def test_a_planned_move_that_never_started_is_withdrawn(corner: Corner) -> None:
    pod = {"metadata": {"name": "web-1", "uid": "1"}}
    corner.migrate(pod, "a", "planned", strategy="LoadBalancing")
    corner.migrate(pod, "a", "asked-for-by-a-person")
    async with rounds_on(corner, minutes_later=10) as rounds:
        await rounds.run_round()
    assert [each["metadata"]["name"] for each in corner.all("migrations")] == [
        "asked-for-by-a-person"
    ]


def test_later_waves_wait_for_the_first() -> None:
    moves = tuple(
        Move(f"shop/{number}", "a", "b", "s", Mode.HANDOFF, "r", 1.0, wave)
        for number, wave in enumerate((1, 2, 1, 3))
    )
    assert [move.pod for move in first_wave(moves)] == ["shop/0", "shop/2"]
