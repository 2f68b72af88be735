"""A cached round is what a new round would have been."""

import asyncio
from random import Random
from typing import Any

import pytest

from rescheduler.controller.planning_loop import Round
from rescheduler.controller.program import Program
from rescheduler.controller.round_cache import RoundCache
from rescheduler.labels import MAINTENANCE
from rescheduler.settings import Policy
from rescheduler.settings.value_types import SecondsOrZero
from rescheduler.simulation.cluster.cluster import SimulatedCluster
from testcluster.builders import deployment, node
from tests.simulation.simulated_clusters import in_simulated_cluster

UNEVEN = [
    node("a", cpu="4"),
    node("b", cpu="4"),
    deployment("shop/web", 6, "300m"),
    deployment("shop/api", 4, "200m"),
]


async def rounds_of(cluster: SimulatedCluster, changes: dict[int, Any]) -> list[tuple[Any, ...]]:
    """The rounds of twenty minutes, with changes of the cluster in some minutes."""
    policy = Policy()
    program = Program(cluster.server, policy, clock=cluster.clock, chance=Random(1))
    rounds: list[tuple[Any, ...]] = []

    def record(round: Round) -> None:
        plan = round.plan
        asked = tuple((move.pod, move.target) for move in round.asked_for)
        rounds.append((cluster.clock.seconds(), plan.summary, asked, plan.before, plan.overloaded))

    program.rounds.subscribe(record)
    running = asyncio.create_task(program.run())
    for minute in range(20):
        if minute in changes:
            changes[minute](cluster)
        await asyncio.sleep(60)
    program.stop()
    await running
    return rounds


CHANGES = {
    3: lambda cluster: cluster.patch("Deployment", "shop/web", {"spec": {"replicas": 9}}),
    6: lambda cluster: cluster.create(node("c", cpu="4")),
    9: lambda cluster: cluster.patch("Node", "a", {"metadata": {"labels": {MAINTENANCE: "true"}}}),
    14: lambda cluster: cluster.patch("Node", "a", {"metadata": {"labels": {MAINTENANCE: None}}}),
}


def rounds_and_hits(
    uses_cache: bool, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[tuple[Any, ...]], int]:
    hits = [0]
    again = RoundCache.again

    def counted(self: RoundCache[Any], policy: Policy, now: Any) -> Any:
        found = again(self, policy, now) if uses_cache else None
        hits[0] += found is not None
        return found

    monkeypatch.setattr(RoundCache, "again", counted)
    rounds = in_simulated_cluster(UNEVEN, lambda cluster: rounds_of(cluster, CHANGES))
    monkeypatch.undo()
    return rounds, hits[0]


def test_rounds_find_the_same_with_and_without_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    planned, none = rounds_and_hits(False, monkeypatch)
    cached, hits = rounds_and_hits(True, monkeypatch)
    assert cached == planned
    assert none == 0
    assert hits > len(cached) / 4


def test_a_round_plans_again_when_a_pod_has_become_old_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[float] = []
    policy = Policy(min_pod_age_seconds=SecondsOrZero(300))

    async def steps(cluster: SimulatedCluster) -> None:
        program = Program(cluster.server, policy, clock=cluster.clock, chance=Random(1))
        plan = program.rounds._plan

        def counted(*arguments: Any) -> Any:
            calls.append(cluster.clock.seconds())
            return plan(*arguments)

        monkeypatch.setattr(program.rounds, "_plan", counted)
        running = asyncio.create_task(program.run())
        await asyncio.sleep(1200)
        program.stop()
        await running

    in_simulated_cluster([node("a"), deployment("shop/web", 1)], steps, settle=30)
    assert len(calls) == 2
    assert 300 <= calls[1] <= 300 + policy.rescheduling_interval_seconds + 1
