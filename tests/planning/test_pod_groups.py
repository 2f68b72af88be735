"""Pod groups leave their nodes together or not at all, on clusters that a reader can judge."""

from collections import Counter
from typing import Any

import pytest

from rescheduler.labels import MAINTENANCE
from rescheduler.planning.context import MoveInFlight, PlanningContext
from rescheduler.planning.plan import Plan
from rescheduler.planning.planner import make_plan
from rescheduler.settings import Policy
from testcluster.builders import daemonset, node, pod, replicaset, statefulset
from testcluster.snapshots import snapshot_of
from tests.planning.test_strategies import policy

GROUP = "scheduling.x-k8s.io/pod-group"
LEAVING = {MAINTENANCE: "true"}
Objects = list[dict[str, Any]]


def group(nodes: str, name: str = "job-7", cpu: str = "1", **options: Any) -> Objects:
    """A pod group of a ReplicaSet, with a pod on each of the named nodes."""
    owner = replicaset(f"train/{name}", replicas=len(nodes))
    pods = [
        pod(f"train/{name}-{number}", on=on, cpu=cpu, owner=owner, labels={GROUP: name}, **options)
        for number, on in enumerate(nodes)
    ]
    return [owner, *pods]


def single(name: str, on: str, cpu: str = "1") -> Objects:
    """A pod that is in no group."""
    owner = replicaset(f"shop/{name}", replicas=1)
    return [owner, pod(f"shop/{name}-0", on=on, cpu=cpu, owner=owner)]


def plan_for(objects: Objects, rules: Policy, context: PlanningContext | None = None) -> Plan:
    return make_plan(snapshot_of(objects), rules, context or PlanningContext())


def moved(plan: Plan) -> Counter[str]:
    """How many pods leave each node, by the beginning of their names."""
    return Counter(f"{move.pod.rpartition('-')[0]} from {move.source}" for move in plan.moves)


def blockers(plan: Plan) -> set[tuple[str, str]]:
    return {(each.blocker, each.detail) for each in plan.blocked}


# ---------------------------------------------------------------- overload


def overloaded(limit: int = 10) -> tuple[Objects, Policy]:
    """Six pods fill node `a` beyond 80 %: two moves would be enough."""
    rules = policy("ResourceOptimization", maxReschedulePods=limit)
    return [node("a", cpu="6"), *group("aaaaaa")], rules


def test_all_of_a_group_leave_an_overloaded_node_where_two_would_do() -> None:
    objects, rules = overloaded()
    plan = plan_for([*objects, node("b", cpu="20")], rules)
    assert moved(plan) == {"train/job-7 from a": 6}


def test_none_of_a_group_leave_an_overloaded_node_if_there_is_no_room_for_all() -> None:
    objects, rules = overloaded()
    plan = plan_for([*objects, node("b", cpu="6")], rules)
    assert plan.moves == ()


def test_others_leave_in_the_place_of_a_group_for_which_there_is_no_room() -> None:
    """Two of the group would fit on `b`, and the two others would, too: these go."""
    objects, rules = overloaded()
    objects = [node("a", cpu="8"), *objects[1:], *single("web", "a"), *single("api", "a")]
    plan = plan_for([*objects, node("b", cpu="3")], rules)
    assert moved(plan) == {"shop/web from a": 1, "shop/api from a": 1}
    room = "there is no room for all 6 pods, or nothing would be gained by moving all"
    tight = policy("ResourceOptimization", cpuThreshold=60)
    plan = plan_for([*objects, node("b", cpu="4")], tight)
    words = f"pod group train/job-7 leaves its node together: {room}"
    assert ("PodGroup", words) in blockers(plan)


def test_a_group_finds_room_on_several_nodes() -> None:
    objects, rules = overloaded()
    plan = plan_for([*objects, *(node(name, cpu="4") for name in "bcd")], rules)
    assert moved(plan) == {"train/job-7 from a": 6}
    assert set(Counter(move.target for move in plan.moves).values()) <= {1, 2, 3}


def test_none_of_a_group_leave_if_fewer_may_move_and_the_plan_says_so() -> None:
    objects, rules = overloaded(limit=5)
    plan = plan_for([*objects, node("b", cpu="20")], rules)
    assert plan.moves == ()
    words = "pod group train/job-7 leaves its node together: 6 pods, and at most 5 may move"
    assert blockers(plan) == {("PodGroup", words)}


def test_others_leave_the_node_in_the_place_of_a_group_that_cannot() -> None:
    objects, rules = overloaded(limit=5)
    plan = plan_for([*objects, *single("api", "a", "2"), node("b", cpu="20")], rules)
    assert moved(plan) == {"shop/api from a": 1}


def test_other_moves_make_way_if_the_group_is_worth_more() -> None:
    """Six of the group and one of two others may leave: seven moves, and not four and two."""
    objects = [node("a", cpu="8", labels=LEAVING), node("b", cpu="20")]
    objects += [*group("aaaaaa"), *single("web", "a"), *single("api", "a")]
    plan = plan_for(objects, policy("NodeMaintenance", maxReschedulePods=7))
    assert moved(plan)["train/job-7 from a"] == 6
    assert len(plan.moves) == 7


# ---------------------------------------------------------------- maintenance


@pytest.mark.parametrize(("limit", "moves"), [(10, 0), (12, 12)])
def test_a_group_larger_than_the_limit_stays_under_maintenance_and_the_plan_says_so(
    limit: int, moves: int
) -> None:
    objects = [node("a", cpu="20", labels=LEAVING), node("b", cpu="20"), *group("a" * 12)]
    plan = plan_for(objects, policy("NodeMaintenance", maxReschedulePods=limit))
    assert len(plan.moves) == moves
    if not moves:
        words = "pod group train/job-7 leaves its nodes together: 12 pods, and at most 10 may move"
        assert blockers(plan) == {("PodGroup", words)}
        assert "PodGroup (12)" in plan.summary


def test_other_pods_leave_although_a_group_is_larger_than_the_limit() -> None:
    objects = [node("a", cpu="20", labels=LEAVING), node("b", cpu="20"), *group("a" * 12)]
    objects += [*single("web", "a"), *single("api", "a")]
    plan = plan_for(objects, policy("NodeMaintenance"))
    assert moved(plan) == {"shop/web from a": 1, "shop/api from a": 1}


def test_only_the_members_on_a_node_under_maintenance_leave() -> None:
    objects = [node("a", cpu="20", labels=LEAVING), *(node(name, cpu="20") for name in "bc")]
    plan = plan_for([*objects, *group("aaabb")], policy("NodeMaintenance"))
    assert moved(plan) == {"train/job-7 from a": 3}


def test_members_on_several_nodes_under_maintenance_leave_in_one_plan() -> None:
    leaving = [node(name, cpu="20", labels=LEAVING) for name in "ab"]
    objects = [*leaving, node("c", cpu="20"), *group("aaabbb")]
    assert len(plan_for(objects, policy("NodeMaintenance")).moves) == 6
    plan = plan_for(objects, policy("NodeMaintenance", maxReschedulePods=5))
    assert plan.moves == ()
    assert {each.blocker for each in plan.blocked} == {"PodGroup"}


def test_a_limit_other_than_that_of_the_plan_is_named() -> None:
    objects = [node("a", cpu="20", labels=LEAVING), node("b", cpu="20"), *group("aaa")]
    plan = plan_for(objects, policy("NodeMaintenance", maxMovesPerWorkload=2))
    assert plan.moves == ()
    words = "of ReplicaSet/train/job-7, maxMovesPerWorkload lets 2 pods move at once"
    together = f"pod group train/job-7 leaves its nodes together: 3 pods, and {words}"
    assert blockers(plan) == {("PodGroup", together)}


def test_a_group_that_is_evicted_one_by_one_stays() -> None:
    owner = statefulset("train/db", replicas=3)
    pods = [pod(f"train/db-{n}", on="a", owner=owner, labels={GROUP: "db"}) for n in range(3)]
    objects = [node("a", labels=LEAVING), node("b"), owner, *pods]
    plan = plan_for(objects, policy("NodeMaintenance"))
    assert plan.moves == ()
    assert {each.blocker for each in plan.blocked} == {"PodGroup"}
    assert plan.blocked[0].detail.endswith("1 pod is evicted at a time")


# ---------------------------------------------------------------- members that cannot move


def test_a_member_that_cannot_move_keeps_the_others_and_they_name_it() -> None:
    objects = [node("a", cpu="20", labels=LEAVING), node("b", cpu="20"), *group("aaa")]
    objects[-1]["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] = "true"
    plan = plan_for(objects, policy("NodeMaintenance"))
    assert plan.moves == ()
    found = {each.pod: each for each in plan.blocked}
    assert found["train/job-7-2"].blocker == "DoNotDisrupt"
    others = {found[f"train/job-7-{number}"] for number in range(2)}
    assert {each.blocker for each in others} == {"PodGroup"}
    (words,) = {each.detail for each in others}
    start = (
        "pod group train/job-7 leaves its nodes together, and train/job-7-2 cannot: DoNotDisrupt"
    )
    assert words.startswith(start)


def test_a_member_on_another_node_keeps_nobody() -> None:
    objects = [node("a", cpu="20", labels=LEAVING), *map(node, "bc"), *group("aab")]
    objects[-1]["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] = "true"
    plan = plan_for(objects, policy("NodeMaintenance"))
    assert moved(plan) == {"train/job-7 from a": 2}


def test_a_member_that_is_leaving_already_keeps_nobody() -> None:
    objects = [node("a", cpu="20", labels=LEAVING), node("b", cpu="20"), *group("aaa")]
    context = PlanningContext(in_flight=(MoveInFlight("train/job-7-0", "b"),))
    plan = plan_for(objects, policy("NodeMaintenance"), context)
    assert sorted(move.pod for move in plan.moves) == ["train/job-7-1", "train/job-7-2"]


def test_a_daemon_pod_with_the_label_of_a_group_keeps_nobody() -> None:
    owner = daemonset("train/agent")
    agent = pod("train/agent-a", on="a", owner=owner, labels={GROUP: "job-7"})
    objects = [node("a", cpu="20", labels=LEAVING), node("b", cpu="20"), *group("aaa"), owner]
    plan = plan_for([*objects, agent], policy("NodeMaintenance"))
    assert moved(plan) == {"train/job-7 from a": 3}


def test_groups_of_one_name_in_two_namespaces_are_two_groups() -> None:
    other = pod("shop/x-0", on="a", labels={GROUP: "job-7"}, annotations={})
    objects = [node("a", cpu="20", labels=LEAVING), node("b", cpu="20"), *group("aaa"), other]
    plan = plan_for(objects, policy("NodeMaintenance"))
    assert moved(plan) == {"train/job-7 from a": 3}


# ---------------------------------------------------------------- improvements


def test_a_group_is_completed_only_if_that_is_better_than_to_leave_it() -> None:
    """Four on one node and none on the other: two should go, all four would change nothing."""
    objects = [node("a", cpu="4"), node("b", cpu="4"), *group("aaaa")]
    assert plan_for(objects, policy("LoadBalancing")).moves == ()
    objects = [node("a", cpu="8"), node("b", cpu="8"), *group("aaaa", "one"), *group("aaaa", "two")]
    plan = plan_for(objects, policy("LoadBalancing"))
    assert sorted(moved(plan).values()) == [4]
