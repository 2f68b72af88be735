"""A day in memory: what did not work out is not tried all day long."""

import asyncio
from random import Random
from typing import Any

from rescheduler.controller.program import Program
from rescheduler.settings import MigrationOptions, Policy, Seconds
from rescheduler.simulation.cluster.cluster import SimulatedCluster
from rescheduler.simulation.cluster.json_objects import Json
from testcluster.builders import node, statefulset
from tests.simulation.simulated_clusters import in_simulated_cluster

HOUR = 3600.0
# 10 min, 20 min, ... 10 h 40 min: after seven failures in a row, the next pause takes all day.
MOST_TRIES = 8


def policy(**migration: Any) -> Policy:
    return Policy(
        enabled_strategies=("LoadBalancing",),
        rescheduling_interval_seconds=Seconds(300),
        migration=MigrationOptions(**migration),
    )


class Day:
    """Runs the program on a cluster in which every pod of `db` comes back to node `a`."""

    def __init__(self, rules: Policy, restart_every_hours: int | None = None) -> None:
        self._policy = rules
        self._restart_every_hours = restart_every_hours
        self.evictions = 0
        self.outcomes: list[str] = []
        self.left: dict[str, int] = {}

    async def run(self, cluster: SimulatedCluster) -> "Day":
        cluster.subscribe("Pod", lambda old, new: self._bring_back(cluster, old, new))
        cluster.subscribe("MoveRecord", self._note_outcome)
        hours = self._restart_every_hours or 24
        for number in range(24 // hours):
            program = Program(
                cluster.server, self._policy, clock=cluster.clock, chance=Random(number)
            )
            running = asyncio.create_task(program.run())
            await asyncio.sleep(hours * HOUR)
            program.stop()
            await running
        for kind in ("Migration", "MoveRecord"):
            self.left[kind] = len(cluster.list(kind))
        return self

    def _bring_back(self, cluster: SimulatedCluster, old: Json | None, new: Json | None) -> None:
        """Place a replacement where its pod was, before the scheduler sees it."""
        if old is None and new is not None:
            self.evictions += 1
            key = f"shop/{new['metadata']['name']}"
            asyncio.get_running_loop().call_soon(cluster.registry.bind, key, "a")

    def _note_outcome(self, old: Json | None, new: Json | None) -> None:
        if old is None and new is not None:
            self.outcomes.append(new["spec"]["outcome"])


def day_of(rules: Policy, restart_every_hours: int | None = None) -> Day:
    async def run(cluster: SimulatedCluster) -> Day:
        cluster.create(node("b", cpu="8"))
        return await Day(rules, restart_every_hours).run(cluster)

    return in_simulated_cluster([node("a", cpu="8"), statefulset("shop/db", 2, "3")], run)


def test_a_pod_that_always_comes_back_is_evicted_a_few_times_a_day() -> None:
    day = day_of(policy())
    assert 3 <= day.evictions <= MOST_TRIES
    assert set(day.outcomes) == {"CameBack"}
    assert len(day.outcomes) == day.evictions == day.left["MoveRecord"]
    assert day.left["Migration"] <= 1


def test_it_is_remembered_by_the_next_process_though_migrations_are_deleted_at_once() -> None:
    day = day_of(policy(keep_seconds=Seconds(1)), restart_every_hours=1)
    assert 3 <= day.evictions <= MOST_TRIES
    assert day.left == {"Migration": 0, "MoveRecord": day.evictions}


def test_a_dry_run_reads_what_is_recorded_and_records_nothing() -> None:
    async def run(cluster: SimulatedCluster) -> tuple[set[str], int]:
        cluster.create(node("b", cpu="8"))
        failed = {
            "namespace": "shop",
            "pod": "db-0",
            "workload": {"kind": "StatefulSet", "name": "db"},
            "sourceNode": "a",
            "targetNode": "b",
            "outcome": "Failed",
            "finishedAt": cluster.registry.now(),
        }
        kind = {"apiVersion": "rescheduler.dev/v1alpha1", "kind": "MoveRecord"}
        cluster.create({**kind, "metadata": {"name": "recorded"}, "spec": failed})
        pod = cluster.list("Pod")["shop/db-0"]["metadata"]
        migration = {"pod": {"name": "db-0", "uid": pod["uid"]}, "targetNode": "b"}
        kind["kind"] = "Migration"
        cluster.create({**kind, "metadata": {"name": "m", "namespace": "shop"}, "spec": migration})
        ended = {"phase": "Failed", "outcome": "Failed", "finishedAt": failed["finishedAt"]}
        cluster.patch("Migration", "shop/m", {"status": ended}, status=True)
        program = Program(cluster.server, policy(), dry_run=True, clock=cluster.clock)
        blockers: set[str] = set()
        program.subscribe(
            lambda planned: blockers.update(each.blocker for each in planned.plan.blocked)
        )
        running = asyncio.create_task(program.run())
        await asyncio.sleep(301)
        program.stop()
        await running
        return blockers, len(cluster.list("MoveRecord"))

    objects = [node("a", cpu="8"), statefulset("shop/db", 2, "3")]
    assert in_simulated_cluster(objects, run) == ({"RecentlyMoved"}, 1)
