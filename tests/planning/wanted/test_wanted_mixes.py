"""Strategies together: those at rest are heard, and weights decide."""

import pytest

from tests.planning.rest.rounds import Round, after, rounds
from tests.planning.wanted.cases import (
    Objects,
    gap,
    loads,
    machine,
    machines,
    places,
    plan_for,
    policy,
    replicas,
    staying,
)


def pods_that_return(found: list[Round]) -> list[str]:
    """Pods that come back to a node that they left in an earlier round."""
    left: set[tuple[str, str]] = set()
    returned = []
    for each in found:
        returned += [move.pod for move in each.plan.moves if (move.pod, move.target) in left]
        left |= {(move.pod, move.source) for move in each.plan.moves}
    return returned


# ---------------------------------------------------------------- at rest, and heard


def test_load_and_spread_do_not_pass_a_pod_back_and_forth() -> None:
    """Load wants the replica off the node with the database, spread wants it in that zone."""
    nodes = [machine("a", zone="x"), machine("b", zone="y"), machine("c", zone="y")]
    objects = [*nodes, staying("database", on="a", cpu=3.5), *replicas("web", "ab", cpu=4)]
    rules = policy("LoadBalancing", "ResourceOptimization", "TopologySpread")
    found = list(rounds(objects, rules, at_most=6))
    assert found[-1].plan.moves == ()
    assert pods_that_return(found) == []


def test_an_even_load_is_not_made_uneven_for_room_that_weighs_less() -> None:
    """50/50/50: a hole of a whole node costs an imbalance of 0.5, which weighs ten times that."""
    objects = [*machines("abc"), *replicas("web", "aaaaabbbbbccccc")]
    rules = policy(
        "LoadBalancing",
        "Defragmentation",
        defragmentation={"shape": {"cpu": "10"}},
        strategyWeights={"LoadBalancing": 10.0},
    )
    assert plan_for(objects, rules).moves == ()


@pytest.mark.parametrize("weight", [0.1, 1.0, 10.0])
def test_load_and_room_come_to_rest_together(weight: float) -> None:
    objects = [*machines("abc"), *replicas("web", "aaaaabbbbbccccc")]
    rules = policy(
        "LoadBalancing",
        "Defragmentation",
        defragmentation={"shape": {"cpu": "10"}},
        strategyWeights={"LoadBalancing": weight},
    )
    found = list(rounds(objects, rules, at_most=3))
    assert found[-1].plan.moves == ()
    assert pods_that_return(found) == []


def test_replicas_that_are_apart_are_not_brought_together_to_even_out_load() -> None:
    """Any other pod of `a` evens out load as well."""
    objects = [*machines("ab"), *replicas("web", "ab"), *replicas("api", "aaaaaa", cpu=1)]
    api_only = policy("LoadBalancing", "TopologySpread", topologySpread={"undeclared": True})
    plan = plan_for(objects, api_only)
    assert gap(plan) <= 10
    assert places(after(objects, plan), "web") == {"a": 1, "b": 1}


# ---------------------------------------------------------------- weights


@pytest.mark.parametrize(
    ("load", "room", "expected"),
    [(1.0, 100.0, [0, 60]), (100.0, 1.0, [30, 30])],
    ids=["room", "load"],
)
def test_the_heavier_of_load_and_room_decides(load: float, room: float, expected: object) -> None:
    objects = [*machines("ab"), *replicas("web", "aaaabb")]
    rules = policy(
        "LoadBalancing",
        "Defragmentation",
        defragmentation={"shape": {"cpu": "10"}},
        strategyWeights={"LoadBalancing": load, "Defragmentation": room},
        imbalanceThreshold=10,
    )
    assert sorted(loads(plan_for(objects, rules)).values()) == expected


@pytest.mark.parametrize(
    ("load", "money", "expected"),
    [(1.0, 100.0, [0, 60]), (100.0, 1.0, [30, 30])],
    ids=["money", "load"],
)
def test_the_heavier_of_load_and_money_decides(load: float, money: float, expected: object) -> None:
    objects = [*machines("ab"), *replicas("web", "aaaabb")]
    rules = policy(
        "LoadBalancing",
        "CostOptimization",
        strategyWeights={"LoadBalancing": load, "CostOptimization": money},
        imbalanceThreshold=10,
    )
    assert sorted(loads(plan_for(objects, rules)).values()) == expected


def preferring(weight: int) -> Objects:
    """Pods that prefer the node that is nearly full."""
    term = {
        "weight": weight,
        "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]},
    }
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    return replicas("web", "aaaaaabb", affinity=affinity)


@pytest.mark.parametrize(
    ("repair", "expected"), [(0.001, [40, 40]), (1000.0, [0, 80])], ids=["light", "heavy"]
)
def test_the_weight_of_preferences_decides_against_load(repair: float, expected: object) -> None:
    objects = [machine("a", labels={"disk": "ssd"}), machine("b"), *preferring(100)]
    rules = policy(
        "LoadBalancing",
        "ConstraintRepair",
        constraintRepair={"preferred": True},
        strategyWeights={"ConstraintRepair": repair},
    )
    assert sorted(loads(plan_for(objects, rules)).values()) == expected
