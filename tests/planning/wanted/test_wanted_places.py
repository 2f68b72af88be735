"""Where pods go when load does not decide: fewer pods, replicas apart, what they prefer."""

from typing import Any

import pytest

from tests.planning.rest.rounds import after
from tests.planning.wanted.cases import (
    HOST,
    MAINTENANCE,
    PREFERRED,
    loads,
    machine,
    machines,
    places,
    plan_for,
    policy,
    replicas,
)

DRAINING = policy("NodeMaintenance", maxReschedulePods=50)
SOFT_TAINT = {"key": "DeletionCandidateOfClusterAutoscaler", "effect": "PreferNoSchedule"}


# ---------------------------------------------------------------- pods without requests


@pytest.mark.parametrize("also", [(), ("LoadBalancing",), ("ResourceOptimization",)], ids="+".join)
def test_pods_without_requests_leave_for_all_other_nodes_evenly(also: tuple[str, ...]) -> None:
    objects = [machine("a", labels=MAINTENANCE), *machines("bcde"), *replicas("web", "a" * 48, 0)]
    plan = plan_for(objects, policy("NodeMaintenance", *also, maxReschedulePods=50))
    placed = places(after(objects, plan), "web")
    assert placed.keys() == set("bcde")
    assert max(placed.values()) - min(placed.values()) <= 2


def test_pods_without_requests_go_to_nodes_with_fewer_pods() -> None:
    """Ten workloads of one pod each, and a node that has twenty pods already."""
    nodes = [machine("a", labels=MAINTENANCE), *machines("bc")]
    apps = [f"app-{row}" for row in range(10)]
    objects = [*nodes, *replicas("many", "b" * 20, 0)]
    for app in apps:
        objects += replicas(app, "a", 0)
    plan = plan_for(objects, DRAINING)
    assert places(after(objects, plan), *apps) == {"c": 10}


@pytest.mark.parametrize("cpu", [0, 0.5])
def test_replicas_that_leave_a_node_are_kept_apart(cpu: float) -> None:
    """Four workloads of four: every other node gets one pod of each."""
    apps = ("web", "api", "cart", "mail")
    objects = [machine("a", labels=MAINTENANCE), *machines("bcde")]
    for app in apps:
        objects += replicas(app, "aaaa", cpu)
    moved = after(objects, plan_for(objects, DRAINING))
    assert [max(places(moved, app).values()) for app in apps] == [1, 1, 1, 1]


# ---------------------------------------------------------------- what pods prefer


def away_from(app: str) -> dict[str, Any]:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}}
    weighted = {"weight": 100, "podAffinityTerm": term}
    return {"affinity": {"podAntiAffinity": {PREFERRED: [weighted]}}}


def near(app: str) -> dict[str, Any]:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}}
    weighted = {"weight": 100, "podAffinityTerm": term}
    return {"affinity": {"podAffinity": {PREFERRED: [weighted]}}}


SSD = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
ON_SSD: dict[str, Any] = {
    "affinity": {"nodeAffinity": {PREFERRED: [{"weight": 100, "preference": SSD}]}}
}


def test_a_drained_pod_that_prefers_to_be_alone_does_not_join_its_sibling() -> None:
    """`b` is the emptier node, and has the other replica."""
    objects = [machine("a", labels=MAINTENANCE), *machines("bc"), *replicas("load", "ccc")]
    objects += replicas("web", "ab", **away_from("web"))
    assert [move.target for move in plan_for(objects, DRAINING).moves] == ["c"]


def test_a_drained_pod_that_prefers_to_be_alone_stays_away_from_other_apps_too() -> None:
    objects = [machine("a", labels=MAINTENANCE), *machines("bc"), *replicas("load", "ccc")]
    objects += [*replicas("noisy", "b", 0.1), *replicas("web", "a", **away_from("noisy"))]
    assert [move.target for move in plan_for(objects, DRAINING).moves] == ["c"]


def test_a_drained_pod_goes_to_the_neighbour_that_it_prefers() -> None:
    objects = [machine("a", labels=MAINTENANCE), *machines("bc"), *replicas("cache", "ccc")]
    objects += replicas("web", "a", **near("cache"))
    assert [move.target for move in plan_for(objects, DRAINING).moves] == ["c"]


def test_a_drained_pod_goes_to_a_node_as_it_prefers() -> None:
    fast = machine("c", labels={"disk": "ssd"})
    objects = [machine("a", labels=MAINTENANCE), machine("b"), fast, *replicas("load", "ccc")]
    objects += replicas("web", "a", **ON_SSD)
    assert [move.target for move in plan_for(objects, DRAINING).moves] == ["c"]


def test_a_drained_pod_goes_to_a_node_that_is_not_about_to_be_removed() -> None:
    doomed = machine("b", taints=[SOFT_TAINT])
    objects = [machine("a", labels=MAINTENANCE), doomed, machine("c"), *replicas("load", "ccc")]
    objects += replicas("web", "a")
    assert [move.target for move in plan_for(objects, DRAINING).moves] == ["c"]


def test_a_preference_is_no_reason_to_stay_on_a_node_under_maintenance() -> None:
    objects = [machine("a", labels=MAINTENANCE), machine("b", taints=[SOFT_TAINT])]
    objects += [*replicas("web", "ab", **away_from("web"))]
    assert [move.target for move in plan_for(objects, DRAINING).moves] == ["b"]


@pytest.mark.parametrize("threshold", [0, 20])
def test_load_balancing_does_not_fill_a_node_that_is_about_to_be_removed(threshold: int) -> None:
    nodes = [*machines("ab"), machine("doomed", taints=[SOFT_TAINT])]
    rules = policy("LoadBalancing", imbalanceThreshold=threshold)
    uneven = plan_for([*nodes, *replicas("web", "a" * 9 + "b" * 5)], rules)
    assert loads(uneven) == {"a": 70, "b": 70, "doomed": 0}
    even = plan_for([*nodes, *replicas("web", "a" * 7 + "b" * 7)], rules)
    assert even.moves == ()


def test_a_pod_that_prefers_to_be_alone_is_not_brought_beside_its_sibling_for_load() -> None:
    """Any of the pods on `a` would do as well."""
    objects = [*machines("ab"), *replicas("web", "ab", **away_from("web"))]
    objects += replicas("load", "aaaaa")
    plan = plan_for(objects, policy("LoadBalancing", imbalanceThreshold=10))
    assert len(plan.moves) in (2, 3)
    assert places(after(objects, plan), "web") == {"a": 1, "b": 1}
