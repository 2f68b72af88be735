"""Simulated days: no pod goes back to a node that one of its workload left, without a cause.

`EXHAUSTIVE=1` plays ten times as many random days, `SEED=17` only the one of that seed.
"""

import os
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from rescheduler.files.policy_file import read_policy
from rescheduler.model.moves import Outcome
from rescheduler.settings import Policy, Seconds
from rescheduler.simulation.results.measurement.moves import ObservedMove
from rescheduler.simulation.scenario.cluster_completion import complete_cluster
from rescheduler.simulation.scenario.example_cluster import example_cluster
from rescheduler.simulation.scenario.timeline import timeline_of
from rescheduler.simulation.scenario.workload_file import read_workload
from rescheduler.simulation.simulation import NamedPolicy, Progress, Scenario, simulate
from tests.simulation.random_days import RandomDay

pytestmark = pytest.mark.slow

WORKLOADS = Path(__file__).parents[2] / "examples" / "workloads"
HOURS = 10
LOAD = ("NodeMaintenance", "ResourceOptimization", "LoadBalancing", "TopologySpread")
MONEY = ("NodeMaintenance", "ResourceOptimization", "CostOptimization")
ROOM = ("NodeMaintenance", "ConstraintRepair", "LoadBalancing", "Defragmentation")
SEED = os.environ.get("SEED")
DAYS = [int(SEED)] if SEED else list(range(40 if os.environ.get("EXHAUSTIVE") == "1" else 4))
CAUSES = {"NodeMaintenance", "ConstraintRepair", "ResourceOptimization"}
"""Strategies whose moves name a cause: a label, a broken rule, a node that is too full."""


@pytest.mark.parametrize(
    ("workload", "strategies"),
    [("shop-day.yaml", LOAD), ("shop-day.yaml", MONEY), ("batch-nights.yaml", ROOM)],
    ids=["load", "money", "room"],
)
def test_no_pod_returns_within_the_day_without_a_cause(
    workload: str, strategies: tuple[str, ...]
) -> None:
    moves = moves_of_a_day(workload, policy(strategies))
    assert sum(move.outcome == Outcome.LANDED for move in moves) >= 5, "there is little to judge"
    assert list(returns(moves)) == []


@pytest.fixture(scope="module")
def random_days() -> dict[int, list[ObservedMove]]:
    """By seed: the moves of the day."""
    return {seed: RandomDay(seed).moves() for seed in DAYS}


def test_no_pod_returns_within_a_random_day_without_a_cause(
    random_days: dict[int, list[ObservedMove]],
) -> None:
    returned = {seed: list(returns(moves)) for seed, moves in random_days.items()}
    assert {seed: found for seed, found in returned.items() if found} == {}


@pytest.mark.skipif(SEED is not None, reason="on one day, little may happen")
def test_enough_moves_on_random_days_to_judge(random_days: dict[int, list[ObservedMove]]) -> None:
    landed = [
        move for moves in random_days.values() for move in moves if move.outcome == Outcome.LANDED
    ]
    assert len(landed) >= 5 * len(DAYS)
    assert len({move.strategy for move in landed}) >= 4
    assert max(Counter(move.owner for move in landed).values()) >= 3, "each moved once"


def policy(strategies: tuple[str, ...]) -> Policy:
    made = read_policy("policy", b"defragmentation: {shape: {cpu: '8', memory: 16Gi}}")
    return msgspec.structs.replace(
        made,
        enabled_strategies=strategies,
        rescheduling_interval_seconds=Seconds(600),
        planning_timeout_seconds=Seconds(0.02),
    )


def moves_of_a_day(workload: str, rules: Policy) -> list[ObservedMove]:
    """All moves that were requested, in the order in which they were."""
    data = (WORKLOADS / workload).read_bytes()
    day = read_workload(workload, data)
    cluster = complete_cluster(example_cluster(seed=1))
    seconds = HOURS * 3600.0
    timeline = timeline_of(day, cluster.objects, seed=1, seconds=seconds)
    midnight = datetime(2026, 1, 1, tzinfo=UTC)
    scenario = Scenario(cluster.objects, timeline, midnight, day.start, seconds, seed=1)
    seen: list[Progress] = []
    simulate(scenario, NamedPolicy("rules", rules), show=seen.append)
    return list(seen[-1].recorder.moves.by_uid.values())


def returns(moves: list[ObservedMove]) -> Iterator[str]:
    left: dict[tuple[str, str], ObservedMove] = {}
    for move in moves:
        earlier = left.get((move.owner, move.target))
        if earlier is not None and move.strategy not in CAUSES:
            yield f"{move.strategy} brings {move.pod} to {move.target}, which {earlier.pod} left"
        if move.outcome == Outcome.LANDED and move.strategy != "NodeMaintenance":
            left[move.owner, move.source] = move
