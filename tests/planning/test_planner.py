import gc
import os
import weakref
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.model.moves import Mode
from rescheduler.planning.feasibility.checker import FeasibilityChecker
from rescheduler.planning.plan import Plan
from rescheduler.planning.planner import make_plan
from rescheduler.settings import (
    CostOptimizationOptions,
    DefragmentationOptions,
    Policy,
    Seconds,
    StrategyName,
)
from testcluster.builders import budget, daemonset, deployment, node, pod, replicaset, statefulset
from testcluster.snapshots import snapshot_of

BALANCING = Policy(enabled_strategies=(StrategyName.LOAD_BALANCING,))
RELIEVING = Policy(enabled_strategies=(StrategyName.RESOURCE_OPTIMIZATION,))
MAINTENANCE = Policy(enabled_strategies=(StrategyName.NODE_MAINTENANCE,))

Objects = list[dict[str, Any]]


def replicas(
    name: str, nodes: str, *, cpu: str = "1", deployed: Any = None, **options: Any
) -> Objects:
    """A Deployment, its ReplicaSet, and a running pod on each of the named nodes."""
    owner = deployment(f"shop/{name}", replicas=len(nodes), **(deployed or {}))
    owned = replicaset(f"shop/{name}-5d", replicas=len(nodes), owner=owner)
    options.setdefault("labels", {"app": name})
    pods = [
        pod(f"shop/{name}-5d-{number}", on=on, cpu=cpu, owner=owned, **options)
        for number, on in enumerate(nodes)
    ]
    return [owner, owned, *pods]


def plan_for(objects: Objects, policy: Policy = BALANCING) -> Plan:
    return make_plan(snapshot_of(objects), policy)


def blockers(plan: Plan) -> dict[str, str]:
    return {each.pod: each.blocker for each in plan.blocked}


def test_load_is_evened_out() -> None:
    plan = plan_for([node("a"), node("b"), *replicas("web", "aaaaaa")])
    assert [(move.source, move.target, move.mode) for move in plan.moves] == [
        ("a", "b", Mode.HANDOFF)
    ] * 3
    assert plan.before.utilization["cpu"].standard_deviation == pytest.approx(0.375)
    assert plan.after.utilization["cpu"].standard_deviation == pytest.approx(0)
    assert plan.after.objective < plan.before.objective
    assert sum(move.gain for move in plan.moves) == pytest.approx(
        plan.before.objective - plan.after.objective
    )


def test_a_plan_says_whether_its_search_was_complete() -> None:
    snapshot = snapshot_of([node("a"), node("b"), *replicas("web", "aaaaaa")])
    complete = make_plan(snapshot, BALANCING)
    assert complete.search_complete
    answers = count()
    cut_short = make_plan(snapshot, BALANCING, time_used=lambda: next(answers) >= 2)
    assert not cut_short.search_complete
    assert 0 < len(cut_short.moves) < len(complete.moves)
    nothing = make_plan(snapshot, BALANCING, time_used=lambda: True)
    assert not nothing.search_complete
    assert nothing.moves == ()


def test_moves_are_found_even_if_most_of_the_time_is_over_before_any_is_looked_for() -> None:
    snapshot = snapshot_of([node("a"), node("b"), *replicas("web", "aaaaaa")])
    plan = make_plan(snapshot, BALANCING, time_used=lambda: 0.8)
    assert not plan.search_complete
    assert len(plan.moves) == len(make_plan(snapshot, BALANCING).moves)


def test_where_single_moves_do_more_moves_allowed_begin_with_the_same_moves() -> None:
    """So more moves, or more time, never give a worse plan there: every move gains."""
    nodes = [node(f"n{number:02}", cpu="28") for number in range(16)]
    crowded = [f"n{number:02}" for number in range(0, 16, 2)]
    apps = [each for app in range(22) for each in _one_per_node(f"app{app}", crowded)]
    snapshot = snapshot_of([*nodes, *apps])
    plans = [
        make_plan(
            snapshot,
            Policy(enabled_strategies=(StrategyName.LOAD_BALANCING,), max_reschedule_pods=most),
        )
        for most in (1, 2, 5, 9, 20)
    ]
    assert [len(plan.moves) for plan in plans] == [1, 2, 5, 9, 20]
    longest = _where_to(plans[-1])
    for plan in plans:
        assert _where_to(plan) == longest[: len(plan.moves)]
        assert all(move.gain > 0 for move in plan.moves)


def _one_per_node(name: str, nodes: list[str]) -> Objects:
    owner = deployment(f"shop/{name}", replicas=len(nodes))
    owned = replicaset(f"shop/{name}-5d", replicas=len(nodes), owner=owner)
    cpu = f"{600 + 41 * len(name) + 17 * int(name[3:])}m"
    pods = [pod(f"shop/{name}-{on}", on=on, cpu=cpu, owner=owned) for on in nodes]
    return [owner, owned, *pods]


def _where_to(plan: Plan) -> list[tuple[str, str]]:
    return [(move.pod, move.target) for move in plan.moves]


COSTS_TOO = (StrategyName.NODE_MAINTENANCE, StrategyName.COST_OPTIMIZATION)
LEAVING = {"scheduler.alpha.kubernetes.io/maintenance": "true"}


@pytest.mark.parametrize("questions", [8, 20, 60, 10**9])
def test_savings_that_are_too_small_do_not_cost_maintenance_its_time(questions: int) -> None:
    nodes = [node("a", labels=LEAVING), *(node(name) for name in "bcde")]
    snapshot = snapshot_of([*nodes, *replicas("web", "aabbccddee")])
    policy = Policy(
        enabled_strategies=COSTS_TOO,
        cost_optimization=CostOptimizationOptions(minimum_savings=1000.0),
        planning_timeout_seconds=Seconds(0.5),
    )
    asked = count()
    plan = make_plan(snapshot, policy, time_used=lambda: next(asked) >= questions)
    assert [(move.source, move.strategy) for move in plan.moves] == [("a", "NodeMaintenance")] * 2


@pytest.mark.parametrize("questions", [0, 3, 10**9])
def test_a_plan_without_worthwhile_savings_says_so(questions: int) -> None:
    policy = Policy(
        enabled_strategies=(StrategyName.COST_OPTIMIZATION,),
        cost_optimization=CostOptimizationOptions(minimum_savings=1000.0),
        planning_timeout_seconds=Seconds(0.5),
    )
    asked = count()
    snapshot = snapshot_of([node("a"), node("b"), *replicas("web", "ab")])
    plan = make_plan(snapshot, policy, time_used=lambda: next(asked) >= questions)
    assert plan.moves == ()
    assert (
        plan.summary == "Nothing to move: CostOptimization found nothing that is worth its moves."
    )


def test_an_optimal_cluster_is_not_called_unfinished() -> None:
    """Combinations may be searched for until the time is over, and there are none."""
    full = [node(name, cpu="2") for name in "abc"]
    snapshot = snapshot_of([*full, *replicas("web", "aabbcc")])
    policy = Policy(enabled_strategies=(StrategyName.COST_OPTIMIZATION,))
    asked = count()
    plan = make_plan(snapshot, policy, time_used=lambda: next(asked) >= 5)
    assert plan.moves == ()
    assert not plan.search_complete
    assert plan.summary.startswith("Nothing to move: every pod that should leave its node")
    assert plan.summary.endswith("The search was ended by planningTimeout (5 s).")
    hardly_begun = make_plan(snapshot, policy, time_used=lambda: True)
    assert hardly_begun.summary == "Nothing found within planningTimeout (5 s)."


def test_a_difference_within_the_threshold_is_left_alone() -> None:
    plan = plan_for([node("a"), node("b"), *replicas("web", "aab")])
    assert plan.moves == ()
    assert "load lies between 6% and 12%, not further apart than" in plan.summary


def test_no_more_moves_than_the_policy_allows() -> None:
    objects = [node("a"), node("b"), *replicas("web", "aaaaaa")]
    one = Policy(enabled_strategies=BALANCING.enabled_strategies, max_reschedule_pods=1)
    plan = plan_for(objects, one)
    assert len(plan.moves) == 1
    none = Policy(enabled_strategies=BALANCING.enabled_strategies, max_reschedule_pods=0)
    assert "maxReschedulePods is 0" in plan_for(objects, none).summary


def test_a_hot_node_is_relieved_until_it_is_below_the_threshold() -> None:
    objects = [node("a", cpu="4"), node("b", cpu="8"), *replicas("web", "aaaab", cpu="950m")]
    plan = plan_for(objects, RELIEVING)
    assert [(move.source, move.target) for move in plan.moves] == [("a", "b")]
    assert plan.after.utilization["cpu"].maximum <= 0.8
    assert "threshold is 80.0%" in plan.moves[0].reason


def test_a_node_under_maintenance_is_emptied_of_what_can_move() -> None:
    label = {"scheduler.alpha.kubernetes.io/maintenance": "true"}
    agent = daemonset("shop/agent")
    objects = [
        node("a", labels=label),
        node("b"),
        *replicas("web", "aa", cpu="0"),
        pod("shop/agent-1", on="a", owner=agent),
        pod("shop/bare", on="a", cpu="1"),
    ]
    plan = plan_for(objects, MAINTENANCE)
    assert {move.pod for move in plan.moves} == {"shop/web-5d-0", "shop/web-5d-1"}
    assert blockers(plan) == {"shop/bare": "BarePod"}


def test_no_pod_comes_to_a_node_that_is_not_for_it() -> None:
    maintenance = {"scheduler.alpha.kubernetes.io/maintenance": "true"}
    objects = [
        node("a"),
        node("cordoned", unschedulable=True),
        node("sick", ready=False),
        node("leaving", labels=maintenance),
        node("master", labels={"node-role.kubernetes.io/control-plane": ""}),
        *replicas("web", "aaaaaa"),
    ]
    assert plan_for(objects).moves == ()


def test_ten_pods_do_not_fit_one_hole() -> None:
    objects = [node("a", cpu="20"), node("b", cpu="20", pods=2), *replicas("web", "a" * 18)]
    plan = plan_for(objects)
    assert len(plan.moves) == 2
    assert set(blockers(plan).values()) == {"NoNodeFits"}


def test_a_handoff_leaves_the_spread_as_even_as_its_pod_asks_for() -> None:
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    objects = [
        node("a", zone="x"),
        node("b", zone="y"),
        *replicas("web", "ab", topologySpreadConstraints=[spread]),
        pod("shop/bare", on="a", cpu="5"),
    ]
    plan = plan_for(objects)
    assert plan.moves == ()
    assert blockers(plan)["shop/web-5d-0"] == "NoNodeFits"
    assert any("PodTopologySpread" in each.detail for each in plan.blocked)


def test_nodes_full_of_pods_that_stay_do_not_hide_those_that_can_be_relieved() -> None:
    stuck = [node(f"n{number}", cpu="1") for number in range(12)]
    bare = [pod(f"shop/bare-{number}", on=f"n{number}", cpu="1") for number in range(12)]
    objects = [node("a", cpu="4"), node("b", cpu="8"), *stuck, *bare, *replicas("web", "aaaa")]
    plan = plan_for(objects, RELIEVING)
    assert [(move.source, move.target) for move in plan.moves] == [("a", "b")]
    assert len(plan.blocked) == 12


def test_a_blocked_pod_names_the_most_urgent_strategy_that_wants_it_gone() -> None:
    nodes = [node("a", cpu="4", labels=LEAVING), node("b", cpu="4"), node("c", cpu="4")]
    bare = [pod(f"shop/on-{name}", on=name, cpu="3900m") for name in "ab"]
    strategies = (StrategyName.RESOURCE_OPTIMIZATION, StrategyName.NODE_MAINTENANCE)
    plan = plan_for([*nodes, *bare], Policy(enabled_strategies=strategies))
    wanted_by = {each.pod: each.strategy for each in plan.blocked}
    assert wanted_by == {"shop/on-a": "NodeMaintenance", "shop/on-b": "ResourceOptimization"}


def test_maintenance_comes_before_thresholds() -> None:
    """Five of seven pods fit below 80 %, and the other two fit as well."""
    nodes = [node("a", cpu="10", labels=LEAVING), node("b", cpu="10"), node("c", cpu="10")]
    others = [*replicas("other", "bbbbb"), *replicas("more", "cccccc")]
    objects = [*nodes, *replicas("web", "aaaaaaa"), *others]
    strategies = (StrategyName.NODE_MAINTENANCE, StrategyName.RESOURCE_OPTIMIZATION)
    plan = plan_for(objects, Policy(enabled_strategies=strategies))
    assert [move.source for move in plan.moves] == ["a"] * 7
    assert all(load["cpu"] <= 0.9 + 1e-9 for load in plan.after.per_node.values())
    assert plan.after.per_node["a"]["cpu"] == 0
    assert plan.blocked == ()


def test_maintenance_keeps_to_thresholds_where_it_can() -> None:
    nodes = [node("a", cpu="10", labels=LEAVING), node("b", cpu="10"), node("c", cpu="10")]
    tight = [*replicas("big", "aa", cpu="3"), *replicas("other", "bbbbb"), *replicas("c", "ccccc")]
    strategies = (StrategyName.NODE_MAINTENANCE, StrategyName.RESOURCE_OPTIMIZATION)
    plan = plan_for([*nodes, *tight], Policy(enabled_strategies=strategies))
    assert sorted(move.target for move in plan.moves) == ["b", "c"]


def test_no_node_is_pushed_above_a_threshold_to_relieve_another() -> None:
    objects = [node("a"), node("b"), *replicas("web", "aaaaaaaa"), *replicas("api", "bbbbbb")]
    plan = plan_for(objects, RELIEVING)
    assert plan.moves == ()


def test_relief_comes_before_balance() -> None:
    both = Policy(
        enabled_strategies=(StrategyName.RESOURCE_OPTIMIZATION, StrategyName.LOAD_BALANCING)
    )
    loaded = [pod("shop/memory", on="b", memory="24Gi")]
    objects = [node("a"), node("b", cpu="32"), *loaded, *replicas("web", "aaaaaaa")]
    plan = plan_for(objects, both)
    assert plan.moves[0].strategy == "ResourceOptimization"


def test_nodes_that_take_nothing_do_not_count_as_empty() -> None:
    taint = {"key": "reserved", "effect": "NoSchedule"}
    empty = [node("zero", cpu="0", memory="0"), node("kept", taints=[taint])]
    plan = plan_for([node("a"), node("b"), *empty, *replicas("web", "aaabb")])
    assert plan.moves == ()
    assert "load lies between 12% and 19%, not further apart than" in plan.summary


def test_a_node_left_with_its_own_pods_is_at_rest() -> None:
    label = {"scheduler.alpha.kubernetes.io/maintenance": "true"}
    agent = pod("shop/agent-1", on="a", owner=daemonset("shop/agent"))
    plan = plan_for([node("a", labels=label), node("b"), agent], MAINTENANCE)
    assert plan.blocked == ()
    assert "only pods that belong to their nodes are left there" in plan.summary


@pytest.mark.parametrize(
    ("options", "blocker"),
    [
        (
            {"labels": {"scheduler.alpha.kubernetes.io/rescheduling": "disabled"}},
            "ReschedulingDisabled",
        ),
        ({"annotations": {"karpenter.sh/do-not-disrupt": "true"}}, "DoNotDisrupt"),
        (
            {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}},
            "NotSafeToEvict",
        ),
        ({"priority": 2_000_000_000, "priorityClassName": "system-cluster-critical"}, "SystemPod"),
        ({"volumes": [{"name": "d", "hostPath": {"path": "/d"}}]}, "LocalStorage"),
        ({"volumes": [{"name": "d", "emptyDir": {}}]}, "LocalStorage"),
        ({"resourceClaims": [{"name": "gpu"}]}, "ResourceClaims"),
        ({"ready": False}, "NotReady"),
        ({"phase": "Pending"}, "NotRunning"),
        ({"nodeSelector": {"disk": "ssd"}}, "NoNodeFits"),
    ],
)
def test_a_pod_that_must_stay_says_why(options: dict[str, Any], blocker: str) -> None:
    plan = plan_for([node("a"), node("b"), *replicas("web", "aaaa", **options)])
    assert plan.moves == ()
    assert set(blockers(plan).values()) == {blocker}
    assert len(plan.blocked) == 4
    assert all(each.detail for each in plan.blocked)


def test_excluded_namespaces_and_pods_stay() -> None:
    objects = [node("a"), node("b"), *replicas("web", "aaaa"), *replicas("api", "aaaa")]
    excluding = Policy(
        enabled_strategies=BALANCING.enabled_strategies, excluded_namespaces=("shop",)
    )
    assert set(blockers(plan_for(objects, excluding)).values()) == {"ExcludedNamespace"}


def test_without_room_for_a_second_copy_deployments_are_evicted_within_their_budget() -> None:
    both: dict[str, Any] = {
        "deployed": {"strategy": {"type": "Recreate"}},
        "labels": {"tier": "front"},
    }
    workloads = [*replicas("web", "aaa", **both), *replicas("api", "aaa", **both)]
    one = budget("shop/front", selector={"tier": "front"}, max_unavailable=1, allowed=1)
    plan = plan_for([node("a"), node("b"), *workloads, one])
    assert [move.mode for move in plan.moves] == [Mode.EVICT]
    moved = plan.moves[0].pod.rpartition("-")[0]
    others = {why for pod, why in blockers(plan).items() if not pod.startswith(moved)}
    assert others == {"Budget"}


def test_a_budget_that_allows_nothing_does_not_stop_a_handoff() -> None:
    objects = [node("a"), node("b"), *replicas("web", "aaaaaa")]
    plan = plan_for([*objects, budget("shop/web", min_available="100%", allowed=0)])
    assert {move.mode for move in plan.moves} == {Mode.HANDOFF}


def test_a_pod_of_two_budgets_is_never_evicted() -> None:
    owner = statefulset("shop/db", replicas=4)
    pods = [
        pod(f"shop/db-{number}", on="a", cpu="1", owner=owner, labels={"app": "db"})
        for number in range(4)
    ]
    budgets = [budget(f"shop/{name}", selector={"app": "db"}, allowed=2) for name in ("x", "y")]
    plan = plan_for([node("a"), node("b"), *pods, *budgets])
    assert set(blockers(plan).values()) == {"SeveralBudgets"}


def test_of_a_stateful_set_one_pod_is_evicted_at_a_time() -> None:
    owner = statefulset("shop/db", replicas=4)
    pods = [pod(f"shop/db-{number}", on="a", cpu="2", owner=owner) for number in range(4)]
    plan = plan_for([node("a"), node("b"), *pods])
    assert [move.mode for move in plan.moves] == [Mode.EVICT]
    assert set(blockers(plan).values()) == {"OneAtATime"}


def test_between_equals_the_lower_priority_moves() -> None:
    important = replicas("api", "aaa", priority=1000)
    objects = [node("a"), node("b"), *important, *replicas("web", "aaa")]
    plan = plan_for(objects)
    assert {move.pod.split("-")[0] for move in plan.moves} == {"shop/web"}


@pytest.mark.parametrize("objects", [[], [node("only"), *replicas("web", "")]])
def test_a_cluster_with_nowhere_to_go_gives_an_empty_plan_that_says_why(objects: Objects) -> None:
    plan = plan_for(objects)
    assert plan.moves == ()
    assert plan.summary.startswith("Nothing to move:")


@st.composite
def clusters(draw: st.DrawFn) -> Objects:
    names = "abcdef"[: draw(st.integers(1, 6))]
    nodes = [
        node(name, cpu=str(draw(st.integers(2, 8))), zone=draw(st.sampled_from(["x", "y"])))
        for name in names
    ]
    numbers: Iterator[int] = count()
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"s": "1"}}}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    pods: Objects = []
    for _ in range(draw(st.integers(0, 6))):
        number = next(numbers)
        special = draw(st.booleans())
        pods += replicas(
            f"w{number}",
            draw(st.text(names, min_size=1, max_size=4)),
            cpu=draw(st.sampled_from(["0", "100m", "1", "2"])),
            labels={"s": "1" if special else "0"},
            affinity={"podAntiAffinity": {required: [apart]}} if special else None,
        )
    return nodes + pods


@settings(max_examples=60 if os.environ.get("EXHAUSTIVE") == "1" else 30, deadline=None)
@given(clusters())
def test_every_target_accepts_its_pod_when_its_turn_comes(objects: Objects) -> None:
    snapshot = snapshot_of([_without_nulls(item) for item in objects])
    everything = Policy(
        enabled_strategies=tuple(StrategyName),
        imbalance_threshold=5.0,
        planning_timeout_seconds=Seconds(0.1),
        defragmentation=DefragmentationOptions(shape={"cpu": "2"}),
    )
    plan = make_plan(snapshot, everything)
    checker = FeasibilityChecker(snapshot)
    for move in plan.moves:
        row, target = snapshot.pods.find(move.pod), snapshot.nodes.index[move.target]
        assert row is not None
        template = int(snapshot.pods.template[row])
        assert snapshot.nodes.names[checker.node_of(row)] == move.source
        assert checker.accepted(template)[target]
        checker.move(row, target)
    assert len(plan.moves) <= everything.max_reschedule_pods
    assert plan.after.objective <= plan.before.objective
    assert make_plan(snapshot, everything) == plan


def _without_nulls(item: dict[str, Any]) -> dict[str, Any]:
    if "spec" in item:
        return {**item, "spec": {k: v for k, v in item["spec"].items() if v is not None}}
    return item


@pytest.mark.parametrize("strategies", [Policy().enabled_strategies, tuple(StrategyName)])
def test_nothing_keeps_a_snapshot_in_memory_when_its_plan_is_made(
    strategies: tuple[str, ...],
) -> None:
    """Else several are there at once: a garbage collection comes late where few objects are."""
    nodes = [node("a", cpu="10", labels=LEAVING), node("b", cpu="10"), node("c", cpu="10")]
    snapshot = snapshot_of([*nodes, *replicas("web", "aaaabb"), pod("shop/bare", on="b", cpu="9")])
    gone = weakref.ref(snapshot)
    gc.collect()
    gc.disable()
    try:
        shape = DefragmentationOptions(shape={"cpu": "8"})
        policy = Policy(enabled_strategies=strategies, defragmentation=shape)
        assert make_plan(snapshot, policy).moves
        del snapshot
        assert gone() is None
    finally:
        gc.enable()
