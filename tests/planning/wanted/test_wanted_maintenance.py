"""Maintenance comes first: a person asked for it."""

from itertools import count
from typing import Any

import pytest

from rescheduler.planning.planner import make_plan
from testcluster.builders import pod
from testcluster.snapshots import snapshot_of
from tests.planning.rest.rounds import rounds
from tests.planning.wanted.cases import (
    MAINTENANCE,
    Objects,
    loads,
    machine,
    machines,
    places,
    plan_for,
    policy,
    replicas,
)

EVERYTHING = (
    "NodeMaintenance",
    "ConstraintRepair",
    "TopologySpread",
    "ResourceOptimization",
    "CostOptimization",
    "LoadBalancing",
)
GROUP = "scheduling.x-k8s.io/pod-group"


def leaving(names: str) -> Objects:
    return machines(names, labels=MAINTENANCE)


# ---------------------------------------------------------------- over everything else


@pytest.mark.parametrize("strategies", [EVERYTHING[:1], EVERYTHING], ids=["alone", "everything"])
def test_a_node_is_emptied_over_thresholds(strategies: tuple[str, ...]) -> None:
    """Five of seven pods fit below 80 %, and the other two below 90 %."""
    objects = [*leaving("a"), *machines("bc"), *replicas("web", "aaaaaaa")]
    objects += [*replicas("api", "bbbbb"), *replicas("cart", "cccccc")]
    plan = plan_for(objects, policy(*strategies))
    assert [move.source for move in plan.moves] == ["a"] * 7
    assert loads(plan) == {"a": 0, "b": 90, "c": 90}


@pytest.mark.parametrize("strategies", [EVERYTHING[:1], EVERYTHING], ids=["alone", "everything"])
def test_a_node_is_emptied_whatever_savings_there_must_be(strategies: tuple[str, ...]) -> None:
    objects = [*leaving("a"), *machines("bcde"), *replicas("web", "aabbccddee")]
    saving = {"minimumSavings": 1000.0}
    plan = plan_for(objects, policy(*strategies, costOptimization=saving, maxReschedulePods=2))
    assert [move.source for move in plan.moves] == ["a", "a"]


def test_a_node_is_emptied_beside_gated_pods_that_only_look_pending() -> None:
    gates = [{"name": "kueue.x-k8s.io/admission"}]
    queued = [pod(f"batch/job-{row}", cpu="1", schedulingGates=gates) for row in range(101)]
    objects = [*leaving("a"), machine("b"), *replicas("web", "aaa"), *queued]
    assert loads(plan_for(objects, policy(*EVERYTHING))) == {"a": 0, "b": 30}


def test_a_node_is_emptied_even_if_another_strategy_weighs_a_thousand_times_as_much() -> None:
    objects = [*leaving("a"), machine("b"), machine("c", unschedulable=True)]
    objects += replicas("web", "aaaa")
    weights = {"NodeMaintenance": 0.001, "TopologySpread": 1000.0, "CostOptimization": 1000.0}
    plan = plan_for(objects, policy(*EVERYTHING, strategyWeights=weights))
    assert loads(plan) == {"a": 0, "b": 40, "c": 0}


@pytest.mark.parametrize("answers", [5, 10, 20, 40, 80, 160, 320])
def test_a_node_is_emptied_although_what_comes_later_runs_out_of_time(answers: int) -> None:
    objects = [*leaving("a"), *machines("bcde"), *replicas("web", "aaabbccddee")]
    asked = count()
    plan = make_plan(
        snapshot_of(objects),
        policy(*EVERYTHING, maxReschedulePods=20),
        time_used=lambda: next(asked) >= answers,
    )
    assert loads(plan)["a"] == 0


# ---------------------------------------------------------------- several nodes


def test_two_nodes_are_emptied_one_after_the_other() -> None:
    objects = [*leaving("ab"), *machines("cd"), *replicas("web", "abababababab")]
    found = list(rounds(objects, policy("NodeMaintenance", maxReschedulePods=4), at_most=5))
    left = [places(each.objects, "web") for each in found]
    assert [len(each.plan.moves) for each in found] == [4, 4, 4, 0]
    assert [sorted((each["a"], each["b"])) for each in left] == [[6, 6], [2, 6], [0, 4], [0, 0]]


def test_the_node_that_needs_fewer_moves_is_emptied_first() -> None:
    objects = [*leaving("ab"), *machines("cd"), *replicas("web", "aaaaabb")]
    plan = plan_for(objects, policy("NodeMaintenance", maxReschedulePods=2))
    assert [move.source for move in plan.moves] == ["b", "b"]


def test_a_node_that_cannot_be_emptied_does_not_hold_up_one_that_can() -> None:
    pinned: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": "a"}}
    objects = [*leaving("ab"), machine("c"), *replicas("pinned", "a", **pinned)]
    objects += replicas("web", "bbbb")
    plan = plan_for(objects, policy("NodeMaintenance", maxReschedulePods=4))
    assert [move.source for move in plan.moves] == ["b"] * 4


# ---------------------------------------------------------------- groups of pods


def test_a_group_is_not_torn_apart_to_even_out_load() -> None:
    objects = [*machines("ab"), *replicas("train", "aaaaaa", labels={GROUP: "one"})]
    plan = plan_for(objects, policy("LoadBalancing"))
    assert len(plan.moves) in (0, 6)


def test_a_group_is_not_torn_apart_by_the_limit_of_a_round() -> None:
    objects = [*machines("abc"), *replicas("train", "aaaaaa", labels={GROUP: "one"})]
    objects += replicas("web", "aaa")
    for most in range(1, 10):
        plan = plan_for(objects, policy("LoadBalancing", maxReschedulePods=most))
        moved = [move for move in plan.moves if "train" in move.pod]
        assert len(moved) in (0, 6), most


def test_a_group_larger_than_the_limit_stays_and_the_plan_says_that() -> None:
    objects = [*leaving("a"), *machines("bc"), *replicas("train", "a" * 6, labels={GROUP: "one"})]
    plan = plan_for(objects, policy("NodeMaintenance", maxReschedulePods=5))
    assert plan.moves == ()
    assert {each.pod for each in plan.blocked} == {f"shop/train-{row}" for row in range(6)}
    for blocked in plan.blocked:
        assert blocked.blocker != "NoGain"
        assert "group" in blocked.detail


def test_a_group_that_finds_no_room_together_stays_and_the_plan_says_that() -> None:
    nodes = [*leaving("a"), machine("b", cpu=2), machine("c", cpu=2)]
    objects = [*nodes, *replicas("train", "a" * 6, labels={GROUP: "one"}), *replicas("web", "a")]
    plan = plan_for(objects, policy("NodeMaintenance"))
    assert [move.pod for move in plan.moves] == ["shop/web-0"]
    assert {each.pod for each in plan.blocked} == {f"shop/train-{row}" for row in range(6)}
    assert all(each.blocker != "NoGain" for each in plan.blocked)
