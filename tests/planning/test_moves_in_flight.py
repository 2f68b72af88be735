"""A plan goes on beside earlier moves that are not finished, with what does not touch them."""

from typing import Any

import msgspec

from rescheduler.controller.move_requests import select_moves
from rescheduler.files.policy_file import read_policy
from rescheduler.planning.context import MoveInFlight, PlanningContext
from rescheduler.planning.plan import Plan
from rescheduler.planning.planner import make_plan
from rescheduler.settings import Policy
from testcluster.builders import node, pod, replicaset
from testcluster.snapshots import snapshot_of

Objects = list[dict[str, Any]]

LEAVING = {"scheduler.alpha.kubernetes.io/maintenance": "true"}
TO_EMPTY = node("a", labels=LEAVING)


def policy(*strategies: str, **arguments: Any) -> Policy:
    options = {"enabledStrategies": strategies, "planningTimeout": "500ms", **arguments}
    return read_policy("policy", msgspec.json.encode(options))


MAINTENANCE = policy("NodeMaintenance")


def replicas(name: str, nodes: str, **options: Any) -> Objects:
    """A ReplicaSet and a running pod of one CPU on each of the named nodes."""
    owner, labels = replicaset(f"shop/{name}", replicas=len(nodes)), {"app": name}
    return [
        owner,
        *(
            pod(f"shop/{name}-{number}", on=on, cpu="1", owner=owner, labels=labels, **options)
            for number, on in enumerate(nodes)
        ),
    ]


def plan_beside(objects: Objects, rules: Policy, *in_flight: MoveInFlight) -> Plan:
    return make_plan(snapshot_of(objects), rules, PlanningContext(in_flight=in_flight))


def moved(plan: Plan) -> list[str]:
    return sorted(move.pod for move in plan.moves)


def test_a_paused_move_holds_its_pod_and_no_room() -> None:
    objects = [TO_EMPTY, node("b", cpu="1"), *replicas("web", "aa")]
    paused = MoveInFlight("shop/web-0", "b", is_paused=True, waits_for="paused")
    plan = plan_beside(objects, MAINTENANCE, paused)
    assert moved(plan) == ["shop/web-1"]
    (blocked,) = plan.blocked
    assert (blocked.pod, blocked.blocker) == ("shop/web-0", "BeingMigrated")
    assert blocked.detail == "its Migration to b is paused"


def test_a_workload_one_of_whose_moves_waits_is_left_alone_and_others_are_not() -> None:
    objects = [TO_EMPTY, node("b"), *replicas("api", "aa"), *replicas("web", "aa")]
    reason = "waiting: Deployment web is rolling out another version"
    plan = plan_beside(objects, MAINTENANCE, MoveInFlight("shop/web-0", "b", waits_for=reason))
    assert moved(plan) == ["shop/api-0", "shop/api-1"]
    found = {blocked.pod: blocked for blocked in plan.blocked}["shop/web-1"]
    assert found.blocker == "WorkloadWaits"
    assert found.detail == (
        f"an earlier move of ReplicaSet/shop/web, that of shop/web-0, has not started: {reason}"
    )


def test_a_workload_goes_on_beside_a_move_that_is_in_progress() -> None:
    objects = [TO_EMPTY, node("b"), *replicas("web", "aa")]
    assert moved(plan_beside(objects, MAINTENANCE, MoveInFlight("shop/web-0", "b"))) == [
        "shop/web-1"
    ]


def test_pods_in_flight_are_found_again_whatever_their_order() -> None:
    """Their stand-ins are put among the other pods, which are looked up by bisection."""
    objects = [TO_EMPTY, node("b"), *replicas("api", "aaa"), *replicas("web", "aaa")]
    in_flight = [MoveInFlight(f"shop/{name}", "b") for name in ("web-1", "api-2", "web-0", "api-0")]
    plan = plan_beside(objects, MAINTENANCE, *in_flight)
    assert moved(plan) == ["shop/api-1", "shop/web-2"]
    assert {each.pod for each in plan.blocked if each.blocker == "BeingMigrated"} == {
        move.pod for move in in_flight
    }


def test_pods_that_are_spread_together_move_one_after_the_other() -> None:
    """Where the moved pod counts is not known until its move is over."""
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    others = replicas("api", "a")
    web = replicas("web", "aa", topologySpreadConstraints=[spread])
    objects = [TO_EMPTY, node("b"), node("c"), node("d"), *web, *others]
    assert moved(plan_beside(objects, MAINTENANCE)) == ["shop/api-0", "shop/web-0", "shop/web-1"]
    plan = plan_beside(objects, MAINTENANCE, MoveInFlight("shop/web-0", "b"))
    assert moved(plan) == ["shop/api-0"]
    reasons = {blocked.pod: blocked.blocker for blocked in plan.blocked}
    assert reasons["shop/web-1"] == "MoveUnderWay"


def test_the_replacement_of_an_evicted_pod_has_its_room() -> None:
    web = replicas("web", "a")
    evicted = [web[0], pod("shop/web-9", cpu="1", owner=web[0], labels={"app": "web"})]
    objects = [TO_EMPTY, node("b", cpu="1"), *replicas("api", "a"), *evicted]
    gone = MoveInFlight("shop/web-0", "b", workload="ReplicaSet/shop/web")
    assert moved(plan_beside(objects, MAINTENANCE)) == ["shop/api-0"]
    assert moved(plan_beside(objects, MAINTENANCE, gone)) == []


# ---------------------------------------------------------------- how many


BALANCED = policy("LoadBalancing", maxReschedulePods=2)
UNEVEN = [node("a"), node("b"), *replicas("web", "aaaaaa")]
BY_BALANCING = MoveInFlight("shop/other-0", "b", strategy="LoadBalancing")


def test_planned_moves_that_are_not_finished_count_against_the_limit() -> None:
    assert len(plan_beside(UNEVEN, BALANCED).moves) == 2
    assert len(plan_beside(UNEVEN, BALANCED, BY_BALANCING).moves) == 1
    full = plan_beside(UNEVEN, BALANCED, BY_BALANCING, BY_BALANCING)
    assert full.moves == ()
    assert "as many earlier moves are not finished as maxReschedulePods allows, 2" in full.summary


def test_moves_that_cannot_start_and_those_that_people_requested_do_not_count() -> None:
    resting = MoveInFlight("shop/other-0", "b", strategy="LoadBalancing", is_paused=True)
    waiting = MoveInFlight("shop/other-2", "b", strategy="LoadBalancing", is_held_up=True)
    by_hand = MoveInFlight("shop/other-1", "b")
    assert len(plan_beside(UNEVEN, BALANCED, resting, waiting, waiting, by_hand).moves) == 2


def test_what_a_person_asked_for_does_not_wait_for_other_moves() -> None:
    rules = policy("NodeMaintenance", "LoadBalancing", maxReschedulePods=2)
    objects = [TO_EMPTY, node("b"), node("c"), *replicas("web", "aabbbbb")]
    plan = plan_beside(objects, rules, BY_BALANCING, BY_BALANCING)
    selected, _ = select_moves(plan, (BY_BALANCING, BY_BALANCING), rules, {})
    assert {move.strategy for move in selected} == {"NodeMaintenance"}
    earlier = MoveInFlight("shop/other-0", "b", strategy="NodeMaintenance")
    assert len(plan_beside(objects, rules, earlier).moves) == 1


def test_other_moves_of_such_a_plan_wait_until_there_are_fewer() -> None:
    rules = policy("NodeMaintenance", "LoadBalancing", maxReschedulePods=2)
    objects = [TO_EMPTY, node("b"), node("c"), *replicas("web", "abbbbbb")]
    plan = plan_beside(objects, rules, BY_BALANCING)
    assert {move.strategy for move in plan.moves} == {"NodeMaintenance", "LoadBalancing"}
    selected, skipped = select_moves(plan, (BY_BALANCING,), rules, {})
    assert [move.strategy for move in selected] == ["NodeMaintenance"]
    assert list(skipped.values()) == ["maxReschedulePods (2) moves are not finished"]


# ---------------------------------------------------------------- no way back

EVEN = policy("LoadBalancing", imbalanceThreshold=0)


def uneven(web: str) -> Objects:
    return [*(node(name, cpu="4") for name in "abc"), *replicas("web", web), *replicas("api", "cc")]


def targets_of_web(objects: Objects, *in_flight: MoveInFlight) -> set[str]:
    moves = plan_beside(objects, EVEN, *in_flight).moves
    return {move.target for move in moves if move.pod.startswith("shop/web")}


def test_nobody_comes_to_a_node_that_one_of_its_workload_is_just_leaving() -> None:
    leaving = MoveInFlight("shop/web-3", "c", strategy="LoadBalancing")
    assert "b" in targets_of_web(uneven("aaab"))
    assert "b" not in targets_of_web(uneven("aaab"), leaving)


def test_an_evicted_pod_that_is_gone_has_left_its_node_as_well() -> None:
    gone = MoveInFlight(
        "shop/web-9", "c", workload="ReplicaSet/shop/web", source="b", strategy="LoadBalancing"
    )
    assert "b" in targets_of_web(uneven("aaa"))
    assert "b" not in targets_of_web(uneven("aaa"), gone)


def test_who_is_leaving_for_maintenance_closes_no_node_to_others() -> None:
    leaving = MoveInFlight("shop/web-3", "c", strategy="NodeMaintenance")
    assert "b" in targets_of_web(uneven("aaab"), leaving)
