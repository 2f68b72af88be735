"""Simulated days: no pod goes back to a node that one of its workload left, without a cause."""

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

pytestmark = pytest.mark.slow

WORKLOADS = Path(__file__).parents[2] / "examples" / "workloads"
HOURS = 10
LOAD = ("NodeMaintenance", "ResourceOptimization", "LoadBalancing", "TopologySpread")
MONEY = ("NodeMaintenance", "ResourceOptimization", "CostOptimization")
ROOM = ("NodeMaintenance", "ConstraintRepair", "LoadBalancing", "Defragmentation")
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
