"""A plan without moves says what keeps pods where they should not be."""

from typing import Any

import pytest

from rescheduler.planning.context import MoveInFlight, PlanningContext
from rescheduler.planning.plan import NoMovesReason, Plan
from rescheduler.planning.planner import make_plan
from testcluster.builders import budget, pod, statefulset
from testcluster.client import JsonObject
from testcluster.snapshots import snapshot_of
from tests.planning.wanted.cases import (
    MAINTENANCE,
    ZONE,
    Objects,
    machine,
    policy,
    replicas,
    stateful,
)

NO_DISRUPTION = budget("shop/db", min_available=2, selector={"app": "db"}, allowed=0)
GOLD: dict[str, Any] = {"nodeSelector": {"disk": "gold"}}
OVER_ZONES: dict[str, Any] = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "db"}},
        }
    ]
}


def plan_for(objects: Objects, strategy: str) -> Plan:
    return make_plan(snapshot_of(objects), policy(strategy))


def blockers(plan: Plan) -> set[tuple[str, str]]:
    return {(blocked.pod, blocked.blocker) for blocked in plan.blocked}


def both(blocker: str) -> set[tuple[str, str]]:
    return {("shop/db-0", blocker), ("shop/db-1", blocker)}


def gold(name: str, cpu: int = 10) -> JsonObject:
    return machine(name, cpu, labels={"disk": "gold"})


@pytest.mark.parametrize(
    ("strategy", "objects", "measure", "value"),
    [
        (
            "ConstraintRepair",
            [machine("a", 1), machine("b"), *stateful("db", "aa")],
            "overcommitted_nodes",
            1,
        ),
        (
            "ConstraintRepair",
            [machine("a"), gold("b"), *stateful("db", "aa", **GOLD)],
            "rule_violations",
            2,
        ),
        (
            "TopologySpread",
            [machine("a", zone="x"), machine("b", zone="y"), *stateful("db", "aa", **OVER_ZONES)],
            "rule_violations",
            1,
        ),
        (
            "NodeMaintenance",
            [machine("a", labels=MAINTENANCE), machine("b"), *stateful("db", "aa")],
            "pods_to_drain",
            2,
        ),
    ],
    ids=["overcommitted", "broken rule", "spread", "maintenance"],
)
def test_a_budget_that_keeps_pods_from_leaving_is_named(
    strategy: str, objects: Objects, measure: str, value: float
) -> None:
    plan = plan_for([*objects, NO_DISRUPTION], strategy)
    assert blockers(plan) == both("Budget")
    assert plan.idle_reason == NoMovesReason.ALL_BLOCKED
    assert "Budget (2)" in plan.summary
    assert plan.before.measures[strategy][measure] == value
    assert plan.after.measures[strategy][measure] == value
    # It is the budget, and nothing else.
    assert plan_for(objects, strategy).moves


def test_that_no_other_node_is_large_enough_is_named() -> None:
    objects = [machine("a"), gold("b", 1), *stateful("db", "aa", cpu=2, **GOLD)]
    plan = plan_for(objects, "ConstraintRepair")
    assert plan.moves == ()
    assert blockers(plan) == both("NoNodeFits")
    assert plan.idle_reason == NoMovesReason.ALL_BLOCKED
    assert plan.before.measures["ConstraintRepair"]["rule_violations"] == 2


@pytest.mark.parametrize(
    ("key", "options"),
    [
        ("shop/db", {"labels": {"scheduler.alpha.kubernetes.io/rescheduling": "disabled"}}),
        ("shop/db", {"labels": {"app": "excluded"}}),
        ("kube-system/db", {}),
        ("shop/db", {"priorityClassName": "system-cluster-critical", "priority": 2_000_000_000}),
    ],
    ids=["label", "selector", "namespace", "system"],
)
def test_pods_that_are_to_be_left_alone_break_rules_in_peace(
    key: str, options: dict[str, Any]
) -> None:
    owner = statefulset(key, replicas=1)
    alone = pod(f"{key}-0", on="a", cpu="1", owner=owner, **GOLD, **options)
    rules = policy("ConstraintRepair", excludedPodSelector="app=excluded")
    plan = make_plan(snapshot_of([machine("a"), gold("b"), owner, alone]), rules)
    assert (plan.moves, plan.blocked) == ((), ())
    assert plan.idle_reason == NoMovesReason.NOTHING_TO_IMPROVE
    assert plan.before.measures["ConstraintRepair"]["rule_violations"] == 0


@pytest.mark.parametrize("full", ["a", "ab"], ids=["one full node", "two of three"])
def test_a_load_that_moves_could_only_pass_on_is_nothing_to_improve(full: str) -> None:
    """Each pod is so large that the node it came to would be as full as the one it left."""
    objects = [machine("a"), machine("b"), machine("c"), *replicas("db", full, cpu=6)]
    plan = plan_for(objects, "LoadBalancing")
    assert plan.before.measures["LoadBalancing"]["load_difference_ratio"] > 0.2
    assert {blocked.blocker for blocked in plan.blocked} == {"NoGain"}
    assert plan.idle_reason == NoMovesReason.NOTHING_TO_IMPROVE
    number = "1 pod" if full == "a" else "2 pods"
    assert plan.summary == (
        f"Nothing to move: nothing would be gained by moving {number} that is worth a move."
    )


def test_system_pods_on_full_nodes_do_not_make_such_a_load_a_problem() -> None:
    system = [pod(f"kube-system/dns-{name}", on=name, cpu="100m") for name in "abc"]
    objects = [machine("a"), machine("b"), machine("c"), *replicas("db", "a", cpu=6), *system]
    plan = plan_for(objects, "LoadBalancing")
    assert {blocked.blocker for blocked in plan.blocked} == {"NoGain", "ExcludedNamespace"}
    assert plan.idle_reason == NoMovesReason.NOTHING_TO_IMPROVE
    assert plan.summary == (
        "Nothing to move: nothing would be gained by moving 1 pod that is worth a move."
    )


def test_a_node_that_is_full_of_pods_to_be_left_alone_stays_a_problem_beside_such_a_load() -> None:
    system = pod("kube-system/dns", on="b", cpu="9")
    objects = [machine("a"), machine("b"), machine("c"), *replicas("db", "a", cpu=6), system]
    plan = plan_for(objects, "LoadBalancing")
    assert blockers(plan) == {("shop/db-0", "NoGain"), ("kube-system/dns", "ExcludedNamespace")}
    assert plan.idle_reason == NoMovesReason.ALL_BLOCKED


def test_pods_that_nobody_stops_because_their_node_is_silent_are_blocked() -> None:
    owner, stuck = stateful("db", "a")
    stuck["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    silent, others = machine("a", labels=MAINTENANCE, ready=False), map(machine, "bcdefghij")
    objects = [silent, *others, owner, stuck]
    plan = plan_for(objects, "NodeMaintenance")
    assert blockers(plan) == {("shop/db-0", "BeingDeleted")}
    assert plan.idle_reason == NoMovesReason.ALL_BLOCKED


@pytest.mark.parametrize("others", [(), ("shop/db-1",)], ids=["alone", "beside a migration"])
def test_pods_that_take_long_to_stop_are_on_their_way(others: tuple[str, ...]) -> None:
    owner, *pods = stateful("db", "aa"[: 1 + len(others)])
    pods[0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    objects = [machine("a", labels=MAINTENANCE), machine("b"), owner, *pods]
    in_flight = tuple(MoveInFlight(key, "b") for key in others)
    context = PlanningContext(in_flight=in_flight)
    plan = make_plan(snapshot_of(objects), policy("NodeMaintenance"), context)
    assert plan.moves == ()
    assert plan.idle_reason == NoMovesReason.UNFINISHED_MOVES
    number = "2 pods" if others else "1 pod"
    assert plan.summary == f"Nothing to move: {number} on the way or being deleted already."


def test_replicas_that_are_not_quite_even_are_no_problem_where_they_may_not_move() -> None:
    scratch: dict[str, Any] = {"volumes": [{"name": "scratch", "emptyDir": {}}]}
    objects = [machine("a"), machine("b"), *replicas("db", "aaa", **scratch)]
    plan = plan_for(objects, "TopologySpread")
    assert (plan.moves, plan.blocked) == ((), ())
    assert plan.idle_reason == NoMovesReason.NOTHING_TO_IMPROVE


def test_replicas_that_are_not_quite_even_are_no_problem_where_they_cannot_go_elsewhere() -> None:
    objects = [machine("a"), gold("b", 1), *stateful("db", "aa", cpu=2)]
    plan = plan_for(objects, "TopologySpread")
    assert (plan.moves, plan.blocked) == ((), ())
    assert plan.idle_reason == NoMovesReason.NOTHING_TO_IMPROVE
    assert plan.summary == (
        "Nothing to move: no move would improve what is wanted of pods (TopologySpread)."
    )
