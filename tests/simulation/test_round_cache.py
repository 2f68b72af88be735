"""Rounds that are told again instead of made again are what they would have been."""

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


async def rounds_of(cluster: SimulatedCluster, deeds: dict[int, Any]) -> list[tuple[Any, ...]]:
    """What every round of twenty minutes found, while things happen at some of them."""
    policy = Policy()
    program = Program(cluster.server, policy, clock=cluster.clock, chance=Random(1))
    made: list[tuple[Any, ...]] = []

    def note(each: Round) -> None:
        plan = each.plan
        asked = tuple((move.pod, move.target) for move in each.asked_for)
        made.append((cluster.clock.seconds(), plan.summary, asked, plan.before, plan.overloaded))

    program.rounds.subscribe(note)
    running = asyncio.create_task(program.run())
    for minute in range(20):
        if minute in deeds:
            deeds[minute](cluster)
        await asyncio.sleep(60)
    program.stop()
    await running
    return made


DEEDS = {
    3: lambda cluster: cluster.patch("Deployment", "shop/web", {"spec": {"replicas": 9}}),
    6: lambda cluster: cluster.create(node("c", cpu="4")),
    9: lambda cluster: cluster.patch("Node", "a", {"metadata": {"labels": {MAINTENANCE: "true"}}}),
    14: lambda cluster: cluster.patch("Node", "a", {"metadata": {"labels": {MAINTENANCE: None}}}),
}


def told(skips: bool, monkeypatch: pytest.MonkeyPatch) -> tuple[list[tuple[Any, ...]], int]:
    skipped = [0]
    again = RoundCache.again

    def counted(self: RoundCache[Any], policy: Policy, now: Any) -> Any:
        found = again(self, policy, now) if skips else None
        skipped[0] += found is not None
        return found

    monkeypatch.setattr(RoundCache, "again", counted)
    made = in_simulated_cluster(UNEVEN, lambda cluster: rounds_of(cluster, DEEDS))
    monkeypatch.undo()
    return made, skipped[0]


def test_rounds_find_the_same_whether_they_rest_or_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    planned, none = told(False, monkeypatch)
    rested, skipped = told(True, monkeypatch)
    assert rested == planned
    assert none == 0
    assert skipped > len(rested) / 4


def test_a_round_is_made_again_when_a_pod_has_become_old_enough(
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
