"""TopologySpread: what it evens out, which domains count, and how much it counts."""

from typing import Any

import pytest

from tests.planning.rest.rounds import after, rounds
from tests.planning.wanted.cases import (
    MAINTENANCE,
    ZONE,
    Objects,
    machine,
    machines,
    places,
    plan_for,
    policy,
    replicas,
    staying,
)

SPREADING = policy("TopologySpread")


def over_zones(max_skew: int = 1, when: str = "ScheduleAnyway") -> dict[str, Any]:
    constraint = {
        "maxSkew": max_skew,
        "topologyKey": ZONE,
        "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    return {"topologySpreadConstraints": [constraint]}


# ---------------------------------------------------------------- what is evened out


@pytest.mark.parametrize("declared", [over_zones(), {}], ids=["declared", "undeclared"])
def test_domains_are_evened_out_although_the_emptiest_is_full(declared: dict[str, Any]) -> None:
    """8/1/1/1/1/0, and nobody fits into the last zone."""
    nodes = [machine(name, zone=f"zone-{name}") for name in "abcdef"]
    objects = [*nodes, staying("database", on="f", cpu=10)]
    objects += replicas("web", "aaaaaaaabcde", **declared)
    placed = places(after(objects, plan_for(objects, SPREADING)), "web")
    assert sorted(placed.values()) == [2, 2, 2, 3, 3]


def test_an_empty_domain_that_has_room_is_filled_first() -> None:
    nodes = [machine(name, zone=f"zone-{name}") for name in "abc"]
    objects = [*nodes, *replicas("web", "aaab", **over_zones())]
    plan = plan_for(objects, policy("TopologySpread", maxReschedulePods=1))
    assert [(move.source, move.target) for move in plan.moves] == [("a", "c")]


# ---------------------------------------------------------------- what other moves make uneven


def two_sizes(large_on: str, small_on: str) -> Objects:
    """Pods of one spread constraint, of which one is too large for most nodes."""
    options = {"labels": {"app": "web"}, **over_zones()}
    large = replicas("large", large_on, cpu=6, **options)
    return [*large, *replicas("small", small_on, cpu=1, **options)]


def test_what_maintenance_makes_uneven_is_mended_in_the_same_plan() -> None:
    """The large pod must go to `b`, beside the small one, which then goes to `c`."""
    nodes = [machine(name, zone=f"zone-{name}") for name in "bc"]
    nodes += [machine("a", zone="zone-a", labels=MAINTENANCE)]
    objects = [*nodes, staying("database", on="c", cpu=5), *two_sizes("a", "b")]
    plan = plan_for(objects, policy("NodeMaintenance", "TopologySpread"))
    assert [(move.source, move.target) for move in plan.moves] == [("a", "b"), ("b", "c")]


def test_what_savings_make_uneven_is_mended_in_the_same_plan() -> None:
    """Two pods leave `a` together: one comes to `b`, beside the small one, which goes to `c`."""
    prices = {"a": 9, "b": 1, "c": 1}
    nodes = [machine(name, zone=name, price=price) for name, price in prices.items()]
    objects = [*nodes, staying("database", on="c", cpu=5), staying("cache", on="b", cpu=2)]
    objects += [*two_sizes("a", "b"), *replicas("other", "a", cpu=3)]
    found = list(rounds(objects, policy("CostOptimization", "TopologySpread"), at_most=2))
    assert [len(each.plan.moves) for each in found] == [3, 0]
    assert places(after(objects, found[0].plan), "web", "other") == {"b": 1, "c": 2}


# ---------------------------------------------------------------- which domains count


def test_a_zone_whose_nodes_are_all_cordoned_does_not_count() -> None:
    nodes = [machine("a", zone="x"), machine("b", zone="y")]
    closed = machine("c", zone="z", unschedulable=True)
    objects = [*nodes, closed, *replicas("web", "aaab", **over_zones(max_skew=2))]
    plan = plan_for(objects, SPREADING)
    assert plan.moves == ()
    assert "as evenly as asked for" in plan.summary


def test_a_zone_under_maintenance_does_not_count() -> None:
    nodes = [machine("a", zone="x"), machine("b", zone="y")]
    leaving = machine("c", zone="z", labels={"scheduler.alpha.kubernetes.io/maintenance": "true"})
    objects = [*nodes, leaving, *replicas("web", "aaab", **over_zones(max_skew=2))]
    assert plan_for(objects, policy("TopologySpread", "NodeMaintenance")).moves == ()


# ---------------------------------------------------------------- how much it counts


def heavy_zone(web: str) -> Objects:
    """Two replicas. Load wants both on `b`, spread wants them apart."""
    return [
        machine("a", zone="x"),
        machine("b", zone="y"),
        *(staying(f"database-{row}", on="a", cpu=3) for row in range(2)),
        *replicas("web", web, cpu=2),
    ]


@pytest.mark.parametrize(
    ("weight", "expected"), [(0.01, {"b": 2}), (100.0, {"a": 1, "b": 1})], ids=["light", "heavy"]
)
@pytest.mark.parametrize("start", ["ab", "bb"])
def test_its_weight_decides_against_load(
    start: str, weight: float, expected: dict[str, int]
) -> None:
    objects = heavy_zone(start)
    weights = {"TopologySpread": weight}
    both = ("LoadBalancing", "TopologySpread")
    rules = policy(*both, strategyWeights=weights, imbalanceThreshold=5)
    assert places(after(objects, plan_for(objects, rules)), "web") == expected


def test_a_constraint_that_must_hold_comes_before_load_whatever_its_weight() -> None:
    objects = [*heavy_zone(""), *replicas("web", "bb", cpu=2, **over_zones(when="DoNotSchedule"))]
    both = ("LoadBalancing", "TopologySpread")
    weights = {"TopologySpread": 0.001, "LoadBalancing": 100.0}
    rules = policy(*both, strategyWeights=weights, imbalanceThreshold=5)
    assert places(after(objects, plan_for(objects, rules)), "web") == {"a": 1, "b": 1}


def test_replicas_on_one_of_many_nodes_are_spread_even_if_no_zone_is_known() -> None:
    objects = [*machines("abc"), *replicas("web", "aaaaaa")]
    placed = places(after(objects, plan_for(objects, SPREADING)), "web")
    assert placed == {"a": 2, "b": 2, "c": 2}
