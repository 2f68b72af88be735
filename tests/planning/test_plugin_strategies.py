"""Strategies of plugins can do all that those built in can."""

from typing import Any

import msgspec
import numpy as np
import pytest

from rescheduler.model.snapshot import Bools, Floats, Ints
from rescheduler.planning.node_load import NodeLoad
from rescheduler.planning.plan import Assessment, Plan
from rescheduler.planning.planner import make_plan
from rescheduler.planning.strategies import (
    STRATEGIES,
    enabled_strategies,
    is_requested,
    requested_strategies,
)
from rescheduler.planning.strategies.strategy import Rows, Strategy
from rescheduler.planning.strategies.urgency import Urgency
from rescheduler.settings import (
    ConstraintRepairOptions,
    CostOptimizationOptions,
    DefragmentationOptions,
    Policy,
    Seconds,
    StrategyName,
)
from testcluster.builders import node, pod, replicaset
from testcluster.snapshots import snapshot_of
from tests.planning.promise.generated_cases import cases_without_migrations

POLICY = Policy(
    planning_timeout_seconds=Seconds(0.05),
    imbalance_threshold=5.0,
    cpu_threshold=60.0,
    max_unready_nodes_percent=100.0,
    constraint_repair=ConstraintRepairOptions(preferred=True),
    defragmentation=DefragmentationOptions(shape={"cpu": "2"}),
)
CLUSTERS = 12


def plan_with(objects: list[dict[str, Any]], *names: str, **plugins: type[Strategy]) -> Plan:
    policy = msgspec.structs.replace(POLICY, enabled_strategies=names)
    return make_plan(snapshot_of(objects), policy, strategies=plugins)


@pytest.mark.parametrize("name", StrategyName)
def test_a_built_in_strategy_under_another_name_gives_the_same_plans(name: StrategyName) -> None:
    renamed = type("Renamed", (STRATEGIES[name],), {"name": "Renamed"})
    moves = 0
    for case in cases_without_migrations(CLUSTERS):
        built_in = plan_with(case.objects, name)
        plugin = plan_with(case.objects, "Renamed", Renamed=renamed)
        assert [
            msgspec.structs.replace(move, strategy=name) if move.strategy == "Renamed" else move
            for move in plugin.moves
        ] == list(built_in.moves)
        assert renamed_back(plugin.before, name) == built_in.before
        assert renamed_back(plugin.after, name) == built_in.after
        assert plugin.overloaded == built_in.overloaded
        moves += sum(move.strategy == "Renamed" for move in plugin.moves)
    assert moves > 0


def renamed_back(state: Assessment, name: str) -> Assessment:
    measures = {name if key == "Renamed" else key: each for key, each in state.measures.items()}
    return msgspec.structs.replace(state, measures=measures)


class Evacuation(Strategy):
    """Wants the node `a` empty, because a person asked for it."""

    name = "Evacuation"
    urgency = Urgency.REQUESTED

    def __init__(self, load: NodeLoad, policy: Policy) -> None:
        super().__init__(load, policy)
        self._left = np.array([name == "a" for name in load.snapshot.nodes.names], bool)

    def cost(self, rows: Rows, used: Floats, movable: Ints) -> Floats:
        return np.asarray(100.0 * self._left[rows] * movable)

    def nodes_to_relieve(self, used: Floats, movable: Ints) -> Bools:
        return self._left


def test_what_a_plugin_was_asked_for_comes_before_what_is_nice() -> None:
    owner = replicaset("shop/web", replicas=4)
    pods = [pod(f"shop/web-{row}", on="a", cpu="1", owner=owner) for row in range(4)]
    objects = [node("a"), node("b"), owner, *pods]
    plan = plan_with(objects, "LoadBalancing", "Evacuation", Evacuation=Evacuation)
    assert [(move.source, move.strategy) for move in plan.moves] == [("a", "Evacuation")] * 4
    assert is_requested("Evacuation", {"Evacuation": Evacuation})
    assert not any(is_requested(name, {}) for name in {*STRATEGIES} - {*requested_strategies()})


class CheaperNodes(Strategy):
    """Wants nothing itself, but requires another strategy, which requires others in turn."""

    name = "CheaperNodes"
    requires = (STRATEGIES[StrategyName.COST_OPTIMIZATION],)

    def cost(self, rows: Rows, used: Floats, movable: Ints) -> Floats:
        return np.zeros(np.shape(movable))


def test_what_a_required_strategy_requires_is_enabled_too() -> None:
    policy = msgspec.structs.replace(POLICY, enabled_strategies=("CheaperNodes",))
    enabled = enabled_strategies(policy, {"CheaperNodes": CheaperNodes})
    assert {strategy.name for strategy in enabled} == {
        "CheaperNodes",
        "CostOptimization",
        "ConstraintRepair",
    }


def test_a_required_strategy_that_gains_too_little_is_dropped_with_those_that_require_it() -> None:
    owner = replicaset("shop/web", replicas=2)
    pods = [pod(f"shop/web-{on}", on=on, cpu="100m", owner=owner) for on in ("a", "b")]
    policy = msgspec.structs.replace(
        POLICY,
        enabled_strategies=("CheaperNodes",),
        cost_optimization=CostOptimizationOptions(minimum_savings=1e6),
    )
    snapshot = snapshot_of([node("a"), node("b"), owner, *pods])
    plan = make_plan(snapshot, policy, strategies={"CheaperNodes": CheaperNodes})
    assert not plan.moves
