"""A round from the cache is what another round of planning would have found."""

import asyncio
from random import Random
from typing import Any

import numpy as np

from rescheduler.controller.planning_loop import PlanningLoop
from rescheduler.controller.program import Program
from rescheduler.controller.round_cache import Round
from rescheduler.kube.live_store import LiveStore, cancel
from rescheduler.labels import MAINTENANCE
from rescheduler.migration.migration_watches import MigrationWatches
from rescheduler.model.snapshot import Floats, Ints
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.planning.node_load import NodeLoad
from rescheduler.planning.strategies.strategy import Rows, Strategy
from rescheduler.settings import Policy
from rescheduler.settings.value_types import SecondsOrZero
from rescheduler.simulation.cluster.cluster import SimulatedCluster
from testcluster.builders import deployment, node
from tests.simulation.simulated_clusters import in_simulated_cluster

UNUSED = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "unused"},
    "value": 1,
}
UNEVEN_CLUSTER = [
    node("a", cpu="4"),
    node("b", cpu="4"),
    deployment("shop/web", 6, "300m"),
    deployment("shop/api", 4, "200m"),
    UNUSED,
]
CHANGES_BY_MINUTE = {
    3: lambda cluster: cluster.patch("Deployment", "shop/web", {"spec": {"replicas": 9}}),
    6: lambda cluster: cluster.create(node("c", cpu="4")),
    9: lambda cluster: cluster.patch("Node", "a", {"metadata": {"labels": {MAINTENANCE: "true"}}}),
    14: lambda cluster: cluster.patch("Node", "a", {"metadata": {"labels": {MAINTENANCE: None}}}),
}


class RoundLog:
    """The rounds of a program. A round from the cache is the very object of the one before."""

    def __init__(self, program: Program, cluster: SimulatedCluster) -> None:
        self.rounds: list[Round] = []
        self.times: list[float] = []
        self._cluster = cluster
        program.subscribe(self._record)

    def _record(self, finished: Round) -> None:
        self.rounds.append(finished)
        self.times.append(self._cluster.clock.seconds())

    @property
    def is_planned(self) -> list[bool]:
        """For each round, whether it was planned rather than taken from the cache."""
        earlier = [None, *self.rounds]
        return [now is not before for now, before in zip(self.rounds, earlier, strict=False)]

    def findings(self) -> list[tuple[Any, ...]]:
        """When each round was, and what it found."""
        return [
            (
                time,
                finished.plan.summary,
                tuple((move.pod, move.target) for move in finished.requested),
                finished.plan.before,
                finished.plan.overloaded,
            )
            for time, finished in zip(self.times, self.rounds, strict=True)
        ]


async def rounds_of_twenty_minutes(
    cluster: SimulatedCluster, *, with_unrelated_changes: bool
) -> RoundLog:
    """Run the program while the cluster changes.

    Unrelated changes come every second. No plan depends on them, but no round is from the cache.
    """
    program = Program(cluster.server, Policy(), clock=cluster.clock, chance=Random(1))
    log = RoundLog(program, cluster)
    running = asyncio.create_task(program.run())
    for second in range(20 * 60):
        minute, rest = divmod(second, 60)
        if rest == 0 and minute in CHANGES_BY_MINUTE:
            CHANGES_BY_MINUTE[minute](cluster)
        if with_unrelated_changes:
            annotations = {"second": str(second)}
            cluster.patch("PriorityClass", "unused", {"metadata": {"annotations": annotations}})
        await asyncio.sleep(1)
    program.stop()
    await running
    return log


def run_cluster(*, with_unrelated_changes: bool) -> RoundLog:
    return in_simulated_cluster(
        UNEVEN_CLUSTER,
        lambda cluster: rounds_of_twenty_minutes(
            cluster, with_unrelated_changes=with_unrelated_changes
        ),
    )


def test_rounds_find_the_same_whether_they_are_cached_or_planned() -> None:
    planned = run_cluster(with_unrelated_changes=True)
    cached = run_cluster(with_unrelated_changes=False)
    assert cached.findings() == planned.findings()
    assert all(planned.is_planned)
    assert cached.is_planned.count(False) > len(cached.rounds) / 4


def test_a_round_is_planned_again_when_a_pod_has_become_old_enough() -> None:
    policy = Policy(min_pod_age_seconds=SecondsOrZero(300))

    async def run_rounds(cluster: SimulatedCluster) -> RoundLog:
        program = Program(cluster.server, policy, clock=cluster.clock, chance=Random(1))
        log = RoundLog(program, cluster)
        running = asyncio.create_task(program.run())
        await asyncio.sleep(1200)
        program.stop()
        await running
        return log

    log = in_simulated_cluster([node("a"), deployment("shop/web", 1)], run_rounds, settle=30)
    times = [time for time, planned in zip(log.times, log.is_planned, strict=True) if planned]
    assert len(times) == 2
    assert 300 <= times[1] <= 300 + policy.rescheduling_interval_seconds + 1


def test_a_policy_that_comes_while_a_round_is_planned_counts_from_the_next_round_on() -> None:
    wanted = Policy(imbalance_threshold=0.0)

    async def run_rounds(cluster: SimulatedCluster) -> tuple[Round | None, Round | None]:
        class ReplacesPolicy(Strategy):
            """Replaces the policy while the planner is at work."""

            name = "ReplacesPolicy"

            def __init__(self, load: NodeLoad, policy: Policy) -> None:
                super().__init__(load, policy)
                loop.policy = wanted

            def cost(self, rows: Rows, used: Floats, movable: Ints) -> Floats:
                return np.zeros(len(used.T[rows]))

        idle = Policy(enabled_strategies=("ReplacesPolicy",))
        plugins = {"ReplacesPolicy": ReplacesPolicy}
        server, tables = cluster.server, ClusterTables()
        store = LiveStore(server, tables, clock=cluster.clock.seconds)
        watches = MigrationWatches(server, store, tables)
        loop = PlanningLoop(server, store, watches, idle, strategies=plugins, clock=cluster.clock)
        store.start()
        watching = watches.start()
        await watches.synced()
        rounds = await loop.run_round(), await loop.run_round()
        await cancel(watching)
        await store.stop()
        return rounds

    first, second = in_simulated_cluster(UNEVEN_CLUSTER, run_rounds)
    assert first is not None
    assert second is not None
    assert not first.plan.moves
    assert second is not first
