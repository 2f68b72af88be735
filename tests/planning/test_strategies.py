"""What each strategy wants, on clusters small enough to see the answer."""

from collections import Counter
from copy import deepcopy
from typing import Any

import msgspec
import pytest

from rescheduler.files.policy_file import read_policy
from rescheduler.labels import ORIGINAL_POD
from rescheduler.planning.context import MoveInFlight, PlanningContext
from rescheduler.planning.plan import NoMovesReason, Plan
from rescheduler.planning.planner import make_plan
from rescheduler.settings import Policy
from testcluster.builders import node, pod, replicaset, statefulset
from testcluster.snapshots import snapshot_of

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
Objects = list[dict[str, Any]]


def policy(*strategies: str, **arguments: Any) -> Policy:
    options = {"enabledStrategies": strategies, "planningTimeout": "500ms", **arguments}
    return read_policy("policy", msgspec.json.encode(options))


def replicas(name: str, nodes: str, *, cpu: str = "1", **options: Any) -> Objects:
    """A ReplicaSet and a running pod on each of the named nodes."""
    owner = replicaset(f"shop/{name}", replicas=len(nodes))
    labels = {"app": name, **options.pop("labels", {})}
    pods = [
        pod(f"shop/{name}-{number}", on=on, cpu=cpu, owner=owner, labels=labels, **options)
        for number, on in enumerate(nodes)
    ]
    return [owner, *pods]


def plan_for(objects: Objects, rules: Policy, context: Any = None) -> Plan:
    return make_plan(snapshot_of(objects), rules, context or PlanningContext())


def after(objects: Objects, plan: Plan) -> Objects:
    """The same cluster with all moves made."""
    moved = {move.pod: move.target for move in plan.moves}
    objects = deepcopy(objects)
    for each in objects:
        key = f"{each['metadata'].get('namespace')}/{each['metadata']['name']}"
        if key in moved:
            each["spec"]["nodeName"] = moved[key]
    return objects


def nodes_of(objects: Objects, app: str) -> Counter[str]:
    return Counter(
        each["spec"]["nodeName"]
        for each in objects
        if each["kind"] == "Pod" and each["metadata"]["labels"].get("app") == app
    )


def priced(name: str, price: float, **options: Any) -> dict[str, Any]:
    made = node(name, **options)
    made["metadata"]["annotations"]["rescheduler.dev/node-cost"] = str(price)
    return made


def apart(app: str, key: str = HOST) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}


# ---------------------------------------------------------------- CostOptimization


@pytest.mark.parametrize("role", ["control-plane", "master"])
def test_the_price_of_a_control_plane_node_cannot_be_saved(role: str) -> None:
    """It runs the cluster itself, so nobody removes it when it is empty."""
    control_plane = priced("a", 10, labels={f"node-role.kubernetes.io/{role}": ""})
    objects = [control_plane, priced("b", 1), priced("c", 1), *replicas("web", "abc")]
    plan = plan_for(objects, policy("CostOptimization"))
    assert nodes_of(after(objects, plan), "web") in ({"a": 1, "b": 2}, {"a": 1, "c": 2})
    objects = [control_plane, priced("b", 1), *replicas("web", "ab")]
    assert plan_for(objects, policy("CostOptimization")).moves == ()


def test_the_dear_node_is_emptied_and_the_cheap_one_kept() -> None:
    objects = [priced("a", 1.0), priced("b", 5.0), *replicas("web", "aabb")]
    plan = plan_for(objects, policy("CostOptimization"))
    assert nodes_of(after(objects, plan), "web") == {"a": 4}


def test_a_node_is_not_half_emptied_for_money() -> None:
    objects = [node("a", cpu="3"), node("b", cpu="3"), *replicas("web", "aabb")]
    plan = plan_for(objects, policy("CostOptimization"))
    assert plan.moves == ()


def test_what_is_saved_must_reach_minimum_savings() -> None:
    objects = [priced("a", 1.0), priced("b", 2.0), *replicas("web", "aabb")]
    options = {"moveCost": 0.01}
    enough = {**options, "minimumSavings": 1.9}
    too_little = {**options, "minimumSavings": 2.0}
    assert plan_for(objects, policy("CostOptimization", costOptimization=enough)).moves
    assert not plan_for(objects, policy("CostOptimization", costOptimization=too_little)).moves


def test_a_move_that_costs_more_than_its_node_is_not_made() -> None:
    objects = [priced("a", 1.0), priced("b", 1.0), *replicas("web", "ab")]
    assert plan_for(objects, policy("CostOptimization", costOptimization={"moveCost": 0.9})).moves
    dear = policy("CostOptimization", costOptimization={"moveCost": 1.1})
    assert not plan_for(objects, dear).moves


def test_prices_may_come_from_a_table_of_instance_types() -> None:
    kinds = {name: {"node.kubernetes.io/instance-type": name} for name in ("small", "large")}
    objects = [
        node("a", labels=kinds["large"]),
        node("b", labels=kinds["small"]),
        *replicas("web", "ab"),
    ]
    prices = {"small": 1.0, "large": 9.0}
    plan = plan_for(objects, policy("CostOptimization", costOptimization={"prices": prices}))
    assert nodes_of(after(objects, plan), "web") == {"b": 2}


def test_a_node_with_pods_that_must_stay_is_filled_rather_than_emptied() -> None:
    bare = pod("shop/bare", on="a", cpu="1")
    objects = [node("a"), node("b"), bare, *replicas("web", "abb")]
    plan = plan_for(objects, policy("CostOptimization"))
    assert nodes_of(after(objects, plan), "web") == {"a": 3}


def test_packing_also_mends_what_is_broken() -> None:
    objects = [node("a"), node("b"), node("c"), *replicas("web", "aab", **apart("web"))]
    plan = plan_for(objects, policy("CostOptimization"))
    assert set(nodes_of(after(objects, plan), "web").values()) == {1}


# ---------------------------------------------------------------- Defragmentation


def test_room_for_the_shape_is_made_by_gathering_what_is_free() -> None:
    objects = [
        *(node(name, cpu="4") for name in "abcd"),
        *replicas("web", "aabbccd"),
        *replicas("side", "d", cpu="1"),
    ]
    shape = {"shape": {"cpu": "4"}}
    plan = plan_for(objects, policy("Defragmentation", defragmentation=shape))
    used = nodes_of(after(objects, plan), "web") + nodes_of(after(objects, plan), "side")
    assert sorted(used.get(name, 0) for name in "abcd") == [0, 0, 4, 4]


def test_free_capacity_that_holds_the_shape_is_left_alone() -> None:
    objects = [node("a", cpu="4"), node("b", cpu="4"), *replicas("web", "aabb")]
    plan = plan_for(objects, policy("Defragmentation", defragmentation={"shape": {"cpu": "2"}}))
    assert plan.moves == ()
    assert "no free capacity is too small" in plan.summary


# ---------------------------------------------------------------- ConstraintRepair


def test_a_node_that_has_lost_its_gpus_is_relieved_of_the_pods_that_hold_them() -> None:
    broken, spare = node("a", resources={"nvidia.com/gpu": "0"}), node("c")
    working = node("b", resources={"nvidia.com/gpu": "4"})
    training = replicas("training", "aab")
    for each in training[1:]:
        each["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "1"
    objects = [broken, working, spare, *training, *replicas("web", "aa")]
    plan = plan_for(objects, policy("ConstraintRepair"))
    assert {(move.pod, move.target) for move in plan.moves} == {
        ("shop/training-0", "b"),
        ("shop/training-1", "b"),
    }
    assert "2 nvidia.com/gpu in use, and none to give" in plan.moves[0].reason
    assert plan_for(after(objects, plan), policy("ConstraintRepair")).moves == ()


def test_one_of_two_pods_that_must_not_share_a_node_leaves() -> None:
    objects = [node("a"), node("b"), *replicas("web", "aa", **apart("web"))]
    plan = plan_for(objects, policy("ConstraintRepair"))
    assert nodes_of(after(objects, plan), "web") == {"a": 1, "b": 1}
    assert {move.strategy for move in plan.moves} == {"ConstraintRepair"}


def test_one_of_two_pods_that_must_not_share_a_zone_leaves() -> None:
    nodes = [node("a", zone="x"), node("b", zone="x"), node("c", zone="y")]
    objects = [*nodes, *replicas("web", "ab", **apart("web", ZONE))]
    plan = plan_for(objects, policy("ConstraintRepair"))
    assert [move.target for move in plan.moves] == ["c"]


def test_a_pod_leaves_a_node_whose_taint_it_does_not_tolerate() -> None:
    taint = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
    objects = [node("a", taints=[taint]), node("b"), *replicas("web", "a")]
    assert [move.target for move in plan_for(objects, policy("ConstraintRepair")).moves] == ["b"]


def test_a_cordoned_node_is_not_drained_for_its_taint() -> None:
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    objects = [node("a", unschedulable=True, taints=[taint]), node("b"), *replicas("web", "a")]
    assert plan_for(objects, policy("ConstraintRepair")).moves == ()


def test_a_pod_leaves_a_node_that_lost_the_label_it_requires() -> None:
    objects = [
        node("a"),
        node("b", labels={"disk": "ssd"}),
        *replicas("web", "a", nodeSelector={"disk": "ssd"}),
    ]
    assert [move.target for move in plan_for(objects, policy("ConstraintRepair")).moves] == ["b"]


def test_a_node_that_holds_more_than_it_can_give_is_relieved() -> None:
    objects = [node("a", cpu="2"), node("b"), *replicas("web", "aaa")]
    plan = plan_for(objects, policy("ConstraintRepair"))
    assert nodes_of(after(objects, plan), "web") == {"a": 2, "b": 1}


def test_wishes_count_only_on_request() -> None:
    term = {
        "weight": 100,
        "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]},
    }
    wish: dict[str, Any] = {"affinity": {"nodeAffinity": {PREFERRED: [term]}}}
    objects = [node("a"), node("b", labels={"disk": "ssd"}), *replicas("web", "a", **wish)]
    assert plan_for(objects, policy("ConstraintRepair")).moves == ()
    asked = policy("ConstraintRepair", constraintRepair={"preferred": True})
    assert [move.target for move in plan_for(objects, asked).moves] == ["b"]


# ---------------------------------------------------------------- TopologySpread


def spread(when: str, key: str = ZONE, skew: int = 1, app: str = "web") -> dict[str, Any]:
    constraint = {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"app": app}},
    }
    return {"topologySpreadConstraints": [constraint]}


@pytest.mark.parametrize("when", ["DoNotSchedule", "ScheduleAnyway"])
def test_skew_of_declared_constraints_is_repaired_with_as_few_moves_as_needed(when: str) -> None:
    nodes = [node("a", zone="x"), node("b", zone="y")]
    objects = [*nodes, *replicas("web", "aaaa", **spread(when, skew=2))]
    plan = plan_for(objects, policy("TopologySpread"))
    assert nodes_of(after(objects, plan), "web") == {"a": 3, "b": 1}


def test_replicas_that_declare_nothing_are_kept_apart_unless_switched_off() -> None:
    objects = [node("a", zone="x"), node("b", zone="x"), *replicas("web", "aaa")]
    plan = plan_for(objects, policy("TopologySpread"))
    assert nodes_of(after(objects, plan), "web") == {"a": 2, "b": 1}
    assert "holds 3 pods of ReplicaSet/shop/web" in plan.moves[0].reason
    off = policy("TopologySpread", topologySpread={"undeclared": False})
    assert plan_for(objects, off).moves == ()


# ---------------------------------------------------------------- groups, flight, rounds


@pytest.mark.parametrize(
    "label", ["scheduler.alpha.kubernetes.io/pod-group", "scheduling.x-k8s.io/pod-group"]
)
def test_a_group_moves_as_a_whole_or_not_at_all(label: str) -> None:
    leaving = {"scheduler.alpha.kubernetes.io/maintenance": "true"}
    group = replicas("train", "aaa", labels={label: "one"})
    rules = policy("NodeMaintenance")
    roomy = [node("a", labels=leaving), node("b"), *group]
    assert len(plan_for(roomy, rules).moves) == 3
    tight = [node("a", labels=leaving), node("b", cpu="2"), *group]
    assert plan_for(tight, rules).moves == ()
    limited = policy("NodeMaintenance", maxReschedulePods=2)
    assert plan_for(roomy, limited).moves == ()


def test_what_is_in_flight_takes_room_in_both_places() -> None:
    leaving = {"scheduler.alpha.kubernetes.io/maintenance": "true"}
    objects = [node("a", labels=leaving), node("b", cpu="1"), *replicas("web", "aa")]
    rules = policy("NodeMaintenance")
    assert [move.pod for move in plan_for(objects, rules).moves] != []
    flying = PlanningContext(in_flight=(MoveInFlight("shop/web-0", "b"),))
    plan = plan_for(objects, rules, flying)
    assert plan.moves == ()
    assert {each.pod: each.blocker for each in plan.blocked}["shop/web-0"] == "BeingMigrated"


@pytest.mark.parametrize(("new_on", "nominated"), [(None, "b"), (None, None), ("b", None)], ids=str)
def test_a_new_pod_takes_room_once_wherever_its_migration_is(
    new_on: str | None, nominated: str | None
) -> None:
    """`web-0` is on its way to `b`, which has room for two pods: one more may follow, not two."""
    leaving = {"scheduler.alpha.kubernetes.io/maintenance": "true"}
    new = pod("shop/web-new", on=new_on, cpu="1", labels={"app": "web"})
    if nominated:
        new["status"]["nominatedNodeName"] = nominated
    objects = [node("a", labels=leaving), node("b", cpu="2"), *replicas("web", "aaa"), new]
    flying = PlanningContext(in_flight=(MoveInFlight("shop/web-0", "b", "shop/web-new"),))
    plan = plan_for(objects, policy("NodeMaintenance"), flying)
    assert [move.target for move in plan.moves] == ["b"]


@pytest.mark.parametrize("priority", [-5, 0, 5])
def test_room_that_is_kept_for_somebody_elses_pod_is_not_planned_with(priority: int) -> None:
    leaving = {"scheduler.alpha.kubernetes.io/maintenance": "true"}
    waiting = pod("other/waiting", cpu="1", priority=priority)
    objects = [node("a", labels=leaving), node("b", cpu="1"), *replicas("web", "a"), waiting]
    assert len(plan_for(objects, policy("NodeMaintenance")).moves) == 1
    waiting["status"]["nominatedNodeName"] = "b"
    assert plan_for(objects, policy("NodeMaintenance")).moves == ()


def test_a_pod_that_an_earlier_version_has_pinned_is_moved_again() -> None:
    leaving = {"scheduler.alpha.kubernetes.io/maintenance": "true"}
    pin = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
    pinned = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [pin]}}}
    objects = [node("a", labels=leaving), node("b"), *replicas("web", "a", affinity=pinned)]
    assert plan_for(objects, policy("NodeMaintenance")).moves == ()
    objects[-1]["metadata"]["annotations"][ORIGINAL_POD] = "5f3c"
    assert [move.target for move in plan_for(objects, policy("NodeMaintenance")).moves] == ["b"]


def test_a_replacement_of_the_same_name_stands_for_its_migration() -> None:
    leaving = {"scheduler.alpha.kubernetes.io/maintenance": "true"}
    replacement = pod("shop/db-0", cpu="1")
    replacement["status"]["nominatedNodeName"] = "b"
    objects = [node("a", labels=leaving), node("b", cpu="2"), *replicas("web", "aa"), replacement]
    flying = PlanningContext(in_flight=(MoveInFlight("shop/db-0", "b"),))
    assert len(plan_for(objects, policy("NodeMaintenance"), flying).moves) == 1


def test_no_pod_in_flight_is_moved_again_however_many_there_are() -> None:
    leaving = {"scheduler.alpha.kubernetes.io/maintenance": "true"}
    for count in range(1, 8):
        objects = [node("a", labels=leaving), node("b"), *replicas("web", "a" * count)]
        in_flight = tuple(MoveInFlight(f"shop/web-{row}", "b") for row in range(count))
        plan = plan_for(objects, policy("NodeMaintenance"), PlanningContext(in_flight=in_flight))
        assert plan.moves == ()
        assert Counter(blocked.blocker for blocked in plan.blocked) == {"BeingMigrated": count}
        assert plan.idle_reason == NoMovesReason.UNFINISHED_MOVES
        number = "1 pod" if count == 1 else f"{count} pods"
        assert plan.summary == f"Nothing to move: earlier moves of {number} are not finished."


def test_load_is_acted_on_after_as_many_rounds_as_asked_for() -> None:
    objects = [node("a"), node("b"), *replicas("web", "aaaaaa")]
    rules = policy("LoadBalancing", consecutiveRounds=3)
    first = plan_for(objects, rules, PlanningContext(rounds_overloaded={"a": 1}))
    assert first.moves == ()
    assert first.overloaded == ("a",)
    assert "consecutiveRounds" in first.summary
    assert plan_for(objects, rules, PlanningContext(rounds_overloaded={"a": 3})).moves


# ---------------------------------------------------------------- all together


def test_the_last_pod_that_another_needs_nearby_stays() -> None:
    near = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "cache"}}}
    needs = {"affinity": {"podAffinity": {REQUIRED: [near]}}}
    objects = [
        node("a"),
        node("b"),
        *replicas("cache", "a", cpu="3"),
        *replicas("web", "a", cpu="3", nodeSelector={HOST: "a"}, **needs),
    ]
    plan = plan_for(objects, policy("LoadBalancing", imbalanceThreshold=0))
    assert plan.moves == ()


def test_strategies_that_pull_in_opposite_directions_do_not_undo_each_other() -> None:
    objects = [node(name) for name in "abcd"] + replicas("web", "aaabbcd")
    rules = policy("LoadBalancing", "CostOptimization", imbalanceThreshold=0)
    for _ in range(3):
        plan = plan_for(objects, rules)
        objects = after(objects, plan)
    assert plan_for(objects, rules).moves == ()


def test_a_second_round_takes_nothing_back() -> None:
    objects = [node(name) for name in "abcdef"] + replicas("web", "aaaabbbbbbbcd", cpu="500m")
    objects += replicas("api", "aabbbbe", cpu="700m")
    rules = policy("LoadBalancing", imbalanceThreshold=0)
    first = plan_for(objects, rules)
    second = plan_for(after(objects, first), rules)
    came_from = {move.pod: move.source for move in first.moves}
    assert not [move for move in second.moves if came_from.get(move.pod) == move.target]


def test_only_one_pod_of_a_stateful_set_is_moved_at_a_time() -> None:
    owner = statefulset("shop/db", replicas=4)
    pods = [pod(f"shop/db-{number}", on="a", cpu="1", owner=owner) for number in range(4)]
    plan = plan_for([node("a"), node("b"), owner, *pods], policy("LoadBalancing"))
    assert len(plan.moves) == 1
