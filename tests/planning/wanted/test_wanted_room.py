"""Defragmentation and CostOptimization: room is made, never destroyed."""

from typing import Any

import pytest

from testcluster.client import JsonObject
from tests.planning.rest.rounds import after
from tests.planning.wanted.cases import (
    Objects,
    loads,
    machine,
    machines,
    places,
    plan_for,
    policy,
    replicas,
)

FPGA, GPU = "example.com/fpga", "nvidia.com/gpu"


def gathering(**shape: str) -> Any:
    return policy("Defragmentation", defragmentation={"shape": shape}, maxReschedulePods=50)


def asking(objects: Objects, resource: str, amount: str) -> Objects:
    """The same with pods that also ask for another resource."""
    for each in objects:
        if each["kind"] == "Pod":
            each["spec"]["containers"][0]["resources"]["requests"][resource] = amount
    return objects


# ---------------------------------------------------------------- holes


@pytest.mark.parametrize(
    "closed",
    [
        machine("b", unschedulable=True),
        machine("b", taints=[{"key": "dedicated", "effect": "NoSchedule"}]),
    ],
    ids=["cordoned", "tainted"],
)
@pytest.mark.parametrize("size", [1, 3, 7])
def test_a_hole_is_not_filled_from_a_node_whose_room_is_for_nobody(
    closed: JsonObject, size: int
) -> None:
    """Free on `a` are 7 CPUs: a hole for a pod of 4, and three quarters of another."""
    tolerating = [{"key": "dedicated", "operator": "Exists"}]
    objects = [machine("a"), closed, *replicas("web", "aaa")]
    objects += replicas("closed", "b" * (7 // size), size, tolerations=tolerating)
    assert plan_for(objects, gathering(cpu="4")).moves == ()


def test_one_move_opens_a_second_hole() -> None:
    """Free are 8 CPUs and 4, then 6 and 6."""
    objects = [*machines("ab"), *replicas("web", "abbb", cpu=2)]
    plan = plan_for(objects, gathering(cpu="5"))
    assert [(move.source, move.target) for move in plan.moves] == [("b", "a")]


def test_two_halves_become_a_hole_with_as_few_moves_as_needed() -> None:
    objects = [*machines("ab"), *replicas("web", "aaabbbbb")]
    plan = plan_for(objects, gathering(cpu="10"))
    assert [(move.source, move.target) for move in plan.moves] == [("a", "b")] * 3


# ---------------------------------------------------------------- other resources than CPU


def test_room_is_made_for_a_pod_that_also_asks_for_gpus() -> None:
    nodes = machines("abc", resources={GPU: "4"})
    objects = [*nodes, *asking(replicas("train", "abc"), GPU, "1")]
    plan = plan_for(objects, gathering(**{"cpu": "4", GPU: "4"}))
    placed = places(after(objects, plan), "train")
    assert sorted(placed.values()) == [3]


def test_room_is_made_for_a_pod_that_asks_for_what_nobody_uses_yet() -> None:
    nodes = [machine("a", resources={FPGA: "1"}), machine("b")]
    objects = [*nodes, *replicas("web", "ab")]
    plan = plan_for(objects, gathering(**{"cpu": "10", FPGA: "1"}))
    assert places(after(objects, plan), "web") == {"b": 2}


def test_nodes_without_what_the_shape_asks_for_are_left_alone() -> None:
    objects = [*machines("ab"), machine("c", resources={FPGA: "1"}), *replicas("web", "ab")]
    plan = plan_for(objects, gathering(**{"cpu": "10", FPGA: "1"}))
    assert plan.moves == ()


def test_a_shape_that_no_node_could_ever_hold_is_not_said_to_fit() -> None:
    objects = [*machines("ab"), *replicas("web", "aab")]
    plan = plan_for(objects, gathering(**{"cpu": "2", FPGA: "1"}))
    assert plan.moves == ()
    assert "no free capacity is too small for the shape" not in plan.summary


# ---------------------------------------------------------------- prices


def test_a_control_plane_node_keeps_its_pods_when_others_are_saved() -> None:
    control_plane = machine("a", price=10, labels={"node-role.kubernetes.io/control-plane": ""})
    objects = [control_plane, *machines("bc", price=1), *replicas("web", "aaabc")]
    plan = plan_for(objects, policy("CostOptimization", "LoadBalancing"))
    assert places(after(objects, plan), "web")["a"] == 3
    assert sorted(loads(plan).values()) == [0, 20, 30]


def test_a_preference_of_one_pod_does_not_keep_a_node_in_use() -> None:
    objects = [machine("a", price=1), machine("b", price=1, labels={"disk": "ssd"})]
    term = {
        "weight": 10,
        "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]},
    }
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    objects += [*replicas("web", "aaaa"), *replicas("cache", "b", affinity=affinity)]
    plan = plan_for(objects, policy("CostOptimization"))
    assert len(places(after(objects, plan), "web", "cache")) == 1
