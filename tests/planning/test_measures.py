"""Strategies measure how far the cluster is from what they want, before a plan and after it."""

from copy import deepcopy
from typing import Any

import msgspec
import pytest

from rescheduler.files.policy_file import read_policy
from rescheduler.model.snapshot import Floats, Ints
from rescheduler.planning.plan import Plan
from rescheduler.planning.planner import make_plan
from rescheduler.planning.strategies import STRATEGIES
from rescheduler.planning.strategies.strategy import Measure, Strategy
from rescheduler.settings import Policy
from testcluster.builders import node, pod, replicaset
from testcluster.snapshots import snapshot_of
from tests.planning.promise.generated_cases import cases_without_migrations

Objects = list[dict[str, Any]]
CASES = 5


def policy(*strategies: str, **arguments: Any) -> Policy:
    options = {"enabledStrategies": strategies, "planningTimeout": "500ms", **arguments}
    return read_policy("policy", msgspec.json.encode(options))


def pods_on(nodes: str, *, cpu: str = "1", **options: Any) -> Objects:
    owner = replicaset("shop/web", replicas=len(nodes))
    return [
        owner,
        *(
            pod(f"shop/web-{number}", on=on, cpu=cpu, owner=owner, **options)
            for number, on in enumerate(nodes)
        ),
    ]


def measures(plan: Plan, strategy: str) -> tuple[dict[str, float], dict[str, float]]:
    return plan.before.measures[strategy], plan.after.measures[strategy]


def zone(name: str) -> dict[str, str]:
    return {"topology.kubernetes.io/zone": name}


MAINTENANCE = {"scheduler.alpha.kubernetes.io/maintenance": "true"}


@pytest.mark.parametrize(
    ("strategy", "objects", "arguments", "before", "after"),
    [
        (
            "LoadBalancing",
            [node("a", cpu="10"), node("b", cpu="10"), *pods_on("aaaa")],
            {"loadBalancing": {"weights": {"cpu": 1, "memory": 0}}, "imbalanceThreshold": 10},
            {"load_difference_ratio": 0.4},
            {"load_difference_ratio": 0.0},
        ),
        (
            "ResourceOptimization",
            [node("a", cpu="4"), node("b", cpu="4"), *pods_on("aaaa")],
            {"cpuThreshold": 80},
            {"overloaded_nodes": 1},
            {"overloaded_nodes": 0},
        ),
        (
            "NodeMaintenance",
            [node("a", labels=MAINTENANCE), node("b"), *pods_on("aaab")],
            {},
            {"pods_to_drain": 3},
            {"pods_to_drain": 0},
        ),
        (
            "ConstraintRepair",
            [
                node("a", taints=[{"key": "old", "effect": "NoSchedule"}]),
                node("b"),
                *pods_on("aa"),
            ],
            {},
            {"rule_violations": 2, "overcommitted_nodes": 0},
            {"rule_violations": 0, "overcommitted_nodes": 0},
        ),
        (
            "TopologySpread",
            [node("a", labels=zone("x")), node("b", labels=zone("y")), *pods_on("aaaa")],
            {},
            # Three are one too many for the zone, and as many for the node.
            {"rule_violations": 6},
            {"rule_violations": 0},
        ),
        (
            "CostOptimization",
            [node("a", cpu="10"), node("b", cpu="10"), *pods_on("ab")],
            {},
            {"nodes_in_use_cost": 2},
            {"nodes_in_use_cost": 1},
        ),
        (
            "Defragmentation",
            [node("a", cpu="4"), node("b", cpu="4"), *pods_on("ab", cpu="2")],
            {"defragmentation": {"shape": {"cpu": "4"}}},
            {"free_shapes": 0},
            {"free_shapes": 1},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_strategy_measures_what_a_plan_improves(
    strategy: str,
    objects: Objects,
    arguments: dict[str, Any],
    before: dict[str, float],
    after: dict[str, float],
) -> None:
    plan = make_plan(snapshot_of(objects), policy(strategy, **arguments))
    then, now = measures(plan, strategy)
    assert then == pytest.approx(before)
    assert now == pytest.approx(after)
    assert {measure.name for measure in STRATEGIES[strategy].measures} == then.keys()


def test_what_is_measured_after_a_plan_is_what_the_next_one_finds() -> None:
    compared = changed = 0
    everything = policy(*STRATEGIES, defragmentation={"shape": {"cpu": "2"}})
    for case in cases_without_migrations(CASES):
        plan = make_plan(snapshot_of(case.objects), everything)
        again = make_plan(snapshot_of(moved(case.objects, plan)), everything)
        assert {*plan.after.measures} == {*again.before.measures} == {*plan.before.measures}
        for strategy, expected in plan.after.measures.items():
            assert again.before.measures[strategy] == pytest.approx(expected), strategy
            compared += 1
        changed += plan.after.measures != plan.before.measures
    assert compared
    assert changed


def moved(objects: list[dict[str, Any]], plan: Plan) -> Objects:
    targets = {move.pod: move.target for move in plan.moves}
    objects = deepcopy(objects)
    for each in objects:
        key = f"{each['metadata'].get('namespace')}/{each['metadata']['name']}"
        if each["kind"] == "Pod" and key in targets:
            each["spec"]["nodeName"] = targets[key]
    return objects


class FewPods(Strategy):
    """Wants nothing, and says how many pods there are."""

    name = "FewPods"
    measures = (Measure("pods_that_could_move", "Pods that could move."),)

    def measured(self, used: Floats, movable: Ints, rule_cost: float) -> tuple[float]:
        return (float(movable.sum()),)


def test_a_plugin_measures_in_the_same_way() -> None:
    rules = msgspec.structs.replace(Policy(), enabled_strategies=("FewPods",))
    objects = [node("a"), node("b"), *pods_on("aab")]
    plan = make_plan(snapshot_of(objects), rules, strategies={"FewPods": FewPods})
    assert measures(plan, "FewPods") == ({"pods_that_could_move": 3}, {"pods_that_could_move": 3})


def test_pods_that_exclude_one_that_stays_count_as_often_as_they_are_relieved() -> None:
    """Two that exclude each other, and one that cannot move: three pairs, of which one pod that
    goes resolves two."""
    apart = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }
    rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    stays = pod("shop/stays", on="a", labels={"app": "x"})
    moving = pods_on("aa", labels={"app": "x"}, affinity=rules)
    plan = make_plan(
        snapshot_of([node("a"), node("b"), stays, *moving]), policy("ConstraintRepair")
    )
    assert measures(plan, "ConstraintRepair") == (
        {"rule_violations": 3, "overcommitted_nodes": 0},
        {"rule_violations": 1, "overcommitted_nodes": 0},
    )
