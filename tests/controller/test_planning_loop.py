"""Rounds request moves, heed the outcome of earlier ones, and delete what did not start."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import pytest

from rescheduler.controller.move_requests import first_wave
from rescheduler.controller.planning_loop import PlanningLoop
from rescheduler.kube.clock import WALL_CLOCK, WallClock
from rescheduler.kube.live_store import LiveStore
from rescheduler.migration.migration_watches import MigrationWatches
from rescheduler.model.moves import Mode
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.planning.plan import Move
from rescheduler.settings import Policy, StrategyName
from testcluster.client import ApiError, JsonObject
from testcluster.waiting import wait_until
from tests.kube.support import QUICK_WATCH
from tests.migration.admission_policies import refused
from tests.migration.support import Sandbox, client_for, controller_on, node_of

MAINTENANCE = "scheduler.alpha.kubernetes.io/maintenance"
POLICY = Policy(enabled_strategies=(StrategyName.NODE_MAINTENANCE,), max_reschedule_pods=100)


REPAIR = Policy(enabled_strategies=(StrategyName.CONSTRAINT_REPAIR,), max_reschedule_pods=100)


class FastClock(WallClock):
    """A clock that is ahead of others, and can be turned forward."""

    def __init__(self, ahead: timedelta = timedelta(0)) -> None:
        self._ahead = ahead
        self.elapsed = timedelta(0)

    def now(self) -> datetime:
        return super().now() + self._ahead + self.elapsed

    def seconds(self) -> float:
        return super().seconds() + self.elapsed.total_seconds()


@asynccontextmanager
async def planning_loop_on(
    sandbox: Sandbox,
    minutes_later: int = 0,
    *,
    policy: Policy = POLICY,
    clock: FastClock | None = None,
    dry_run: bool = False,
) -> AsyncIterator[PlanningLoop]:
    async with client_for(sandbox.cluster) as client:
        tables = ClusterTables()
        store = LiveStore(client, tables, settings=QUICK_WATCH)
        watches = MigrationWatches(client, store, tables, QUICK_WATCH)
        store.start()
        tasks = [*watches.start(), asyncio.create_task(watches.memory.run())]
        await watches.synced()
        await watches.memory.was_read()
        clock = clock or FastClock(timedelta(minutes=minutes_later))
        try:
            yield PlanningLoop(client, store, watches, policy, dry_run=dry_run, clock=clock)
        finally:
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


async def test_a_node_that_cannot_be_cordoned_is_emptied_all_the_same(sandbox: Sandbox) -> None:
    pod, target = under_maintenance(sandbox)
    path = f"/api/v1/nodes/{node_of(pod)}"
    note = {"metadata": {"annotations": {"note": "touched"}}}
    with refused(sandbox, "nodes", lambda: sandbox.outside.patch(path, note), name=node_of(pod)):
        async with planning_loop_on(sandbox) as loop:
            await loop.run_round()
    set_maintenance(sandbox, node_of(pod), None)
    assert requested_moves(sandbox) == [(pod["metadata"]["name"], target)]


async def test_a_round_has_the_answer_of_a_server_that_refuses_a_migration(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    pod, _ = under_maintenance(sandbox)
    quota = {
        "metadata": {"name": "none"},
        "spec": {"hard": {"count/migrations.rescheduler.dev": 0}},
    }
    sandbox.outside.create(f"/api/v1/namespaces/{sandbox.namespace}/resourcequotas", quota)
    wait_until(lambda: quota_is_in_force(sandbox), what="the quota is in force")
    async with planning_loop_on(sandbox) as loop:
        finished = await loop.run_round()
    set_maintenance(sandbox, node_of(pod), None)
    assert finished is not None
    key = f"{sandbox.namespace}/{pod['metadata']['name']}"
    assert "quota: none" in finished.not_created[key]
    (line,) = [line for line in caplog.records if line.message == "Finished a round"]
    assert line.__dict__["refused"] == len(finished.not_created)
    assert line.__dict__["refusal"] in finished.not_created.values()
    assert key not in [move.pod for move in finished.requested]
    assert sandbox.all("migrations") == []


def quota_is_in_force(sandbox: Sandbox) -> bool:
    probe = {"metadata": {"name": "probe", "uid": "0"}}
    try:
        sandbox.migrate(probe, "nowhere", "probe", paused=True)
    except ApiError as error:
        return "quota: none" in str(error)
    sandbox.outside.delete(sandbox.path("migrations", "probe"))
    return False


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


async def test_a_planned_migration_that_did_not_start_in_time_is_withdrawn(
    sandbox: Sandbox,
) -> None:
    """What has failed before is remembered as failed; a person's and a paused one wait."""
    pod = {"metadata": {"name": "web-1", "uid": "1"}}
    sandbox.migrate(pod, "a", "planned", strategy="LoadBalancing")
    sandbox.migrate(pod, "a", "retried", strategy="LoadBalancing")
    sandbox.migrate(pod, "a", "paused", strategy="LoadBalancing", paused=True)
    sandbox.migrate(pod, "a", "requested-by-a-person")
    tried = {"attempts": 1, "failures": 1, "message": "target node a is cordoned"}
    path = sandbox.path("migrations", "retried") + "/status"
    sandbox.outside.patch(path, {"status": tried})
    # A clock that is wrong by some minutes withdraws nothing: it counts from what it has seen.
    clock = FastClock(timedelta(minutes=10))
    async with planning_loop_on(sandbox, clock=clock) as loop:
        await loop.run_round()
        assert len(sandbox.all("migrations")) == 4
        clock.elapsed = timedelta(minutes=6)
        await loop.run_round()
    left = {found["metadata"]["name"]: found["status"] for found in sandbox.all("migrations")}
    assert set(left) == {"retried", "paused", "requested-by-a-person"}
    assert (left["retried"]["phase"], left["retried"]["outcome"]) == ("Failed", "Failed")
    assert "target node a is cordoned" in left["retried"]["message"]
    assert left["paused"]["phase"] == "Pending"


async def test_a_paused_migration_holds_up_nobody(sandbox: Sandbox) -> None:
    """Not even the other pods of its workload, nor the room on its target."""
    paused, other = misplaced(sandbox, "web", 2)
    target = sandbox.nodes[-1]
    sandbox.migrate(paused, target, "paused", strategy="ConstraintRepair", paused=True)
    async with planning_loop_on(sandbox, policy=REPAIR) as loop:
        await loop.run_round()
    wanted = {(paused["metadata"]["name"], target), (other["metadata"]["name"], target)}
    assert set(requested_moves(sandbox)) == wanted


async def test_a_migration_that_waits_for_a_rollout_that_hangs_holds_up_only_its_workload(
    sandbox: Sandbox,
) -> None:
    """The rollout wants a pod that fits on no node, so it never ends."""
    stuck = misplaced(sandbox, "stuck", 2)
    (other,) = misplaced(sandbox, "web", 1)
    target = sandbox.nodes[1]
    nowhere = {"template": {"spec": {"nodeSelector": {"disk": "none"}}}}
    sandbox.outside.patch(sandbox.path("deployments", "stuck"), {"spec": nowhere})
    async with controller_on(sandbox.cluster):
        await sandbox.until(lambda: len(sandbox.pods("stuck")) == 3, "the rollout has begun")
        sandbox.migrate(stuck[0], target, "waits", strategy="ConstraintRepair")
        await sandbox.until(lambda: sandbox.status("waits").get("message"), "it waits")
        async with planning_loop_on(sandbox, policy=REPAIR) as loop:
            await loop.run_round()
    assert "rolling out another version" in sandbox.status("waits")["message"]
    moves = {migration["spec"]["pod"]["name"] for migration in sandbox.all("migrations")}
    assert moves == {stuck[0]["metadata"]["name"], other["metadata"]["name"]}


def misplaced(sandbox: Sandbox, name: str, replicas: int) -> list[JsonObject]:
    """Pods whose node no longer has the label that they require; another node has it."""
    if not sandbox.nodes:
        sandbox.add_nodes("a", labels={"disk": "fast"})
    first = sandbox.nodes[0]
    set_label(sandbox, first, "disk", "fast")
    expression = {"key": "disk", "operator": "In", "values": ["fast"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    if len(sandbox.nodes) > 1:
        set_label(sandbox, sandbox.nodes[1], "disk", "slow")
    pods = sandbox.deploy(name, replicas, {"affinity": affinity})
    set_label(sandbox, first, "disk", "slow")
    if len(sandbox.nodes) == 1:
        sandbox.add_nodes("b")
    set_label(sandbox, sandbox.nodes[1], "disk", "fast")
    return pods


def set_label(sandbox: Sandbox, node: str, key: str, value: str) -> None:
    sandbox.outside.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {key: value}}})


def test_later_waves_wait_for_the_first() -> None:
    moves = tuple(
        Move(f"shop/{number}", "a", "b", "s", Mode.HANDOFF, "r", 1.0, wave)
        for number, wave in enumerate((1, 2, 1, 3))
    )
    assert [move.pod for move in first_wave(moves)] == ["shop/0", "shop/2"]
