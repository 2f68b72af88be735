"""When nothing is moved, and how that is said."""

from typing import Any

import msgspec
import pytest

from rescheduler.planning.planner import make_plan
from rescheduler.planning.safety_checks import failed_safety_check
from rescheduler.settings import Policy
from testcluster.builders import node, pod, replicaset
from testcluster.client import JsonObject
from testcluster.snapshots import snapshot_of


def test_a_cluster_with_many_pending_pods_is_left_alone() -> None:
    waiting = [pod(f"shop/p{number:03}") for number in range(132)]
    assert failed_safety_check(snapshot_of([node("a"), *waiting]), Policy()) == (
        "TooManyPendingPods",
        "132 pods are pending that a node could take, more than maxPendingPods (100): "
        "only maintenance goes on until the cluster has calmed down",
    )
    assert failed_safety_check(snapshot_of([node("a"), *waiting[:100]]), Policy()) is None


def test_one_pending_pod_is_one_too_many_if_none_may_be() -> None:
    said = failed_safety_check(snapshot_of([node("a"), pod("shop/p")]), Policy(max_pending_pods=0))
    assert said is not None
    assert said.sentence.startswith(
        "1 pod is pending that a node could take, more than maxPendingPods (0)"
    )


def running_in(*namespaces: str) -> list[JsonObject]:
    """A pod in each of these namespaces, so that each of them has moves to lose."""
    return [pod(f"{namespace}/running", on="a") for namespace in namespaces]


def pending_in(namespace: str, pods: int, **changes: Any) -> list[JsonObject]:
    return [pod(f"{namespace}/p{number:05}", **changes) for number in range(pods)]


def test_one_namespace_alone_does_not_stop_the_moves_of_others() -> None:
    tenant = [node("a"), *running_in("shop", "tenant"), *pending_in("tenant", 10_000)]
    assert failed_safety_check(snapshot_of(tenant), Policy()) is None
    more = [*tenant, *pending_in("other", 50)]
    assert failed_safety_check(snapshot_of(more), Policy()) is None
    said = failed_safety_check(snapshot_of([*more, *pending_in("third", 1)]), Policy())
    assert said is not None
    assert said.sentence.startswith(
        "101 pods are pending that a node could take (at most 50 of a namespace count), "
        "more than maxPendingPods (100)"
    )


def test_pods_in_excluded_namespaces_have_no_moves_to_lose() -> None:
    pods = [*running_in("kube-system", "shop"), *pending_in("shop", 101)]
    assert failed_safety_check(snapshot_of([node("a"), *pods]), Policy()) is not None


@pytest.mark.parametrize(
    "changes",
    [
        {"cpu": "1000"},
        {"nodeSelector": {"disk": "none-has-it"}},
        {"nodeSelector": {"disk": "tainted-only"}},
        {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}]},
    ],
    ids=str,
)
def test_pods_that_no_node_could_take_if_it_were_empty_do_not_count(changes: Any) -> None:
    taint = {"key": "team", "value": "other", "effect": "NoSchedule"}
    nodes = [node("a"), node("b", labels={"disk": "tainted-only"}, taints=[taint])]
    snapshot = snapshot_of([*nodes, *running_in("shop"), *pending_in("shop", 101, **changes)])
    assert failed_safety_check(snapshot, Policy()) is None


def test_pods_count_that_only_a_full_node_could_take() -> None:
    full = pod("shop/large", on="a", cpu="4")
    snapshot = snapshot_of([node("a", cpu="4"), full, *pending_in("shop", 101, cpu="2")])
    assert failed_safety_check(snapshot, Policy()) is not None


def test_maintenance_goes_on_beside_many_pending_pods() -> None:
    leaving = node("a", labels={"scheduler.alpha.kubernetes.io/maintenance": "true"})
    owner = replicaset("shop/web", replicas=2)
    pods = [pod(f"shop/web-{number}", on="a", cpu="1", owner=owner) for number in range(2)]
    nodes = [leaving, node("b", cpu="4"), node("c", cpu="4")]
    waiting = pending_in("shop", 101, cpu="3500m")
    snapshot = snapshot_of([*nodes, owner, *pods, *waiting])
    policy = Policy(enabled_strategies=("NodeMaintenance", "LoadBalancing"))
    plan = make_plan(snapshot, policy)
    assert [move.source for move in plan.moves] == ["a", "a"]
    assert plan.summary == (
        "2 of at most 10 moves. 101 pods are pending that a node could take, more than "
        "maxPendingPods (100): only maintenance goes on until the cluster has calmed down."
    )
    without = msgspec.structs.replace(policy, enabled_strategies=("LoadBalancing",))
    assert make_plan(snapshot, without).idle_reason == "TooManyPendingPods"


def test_pods_that_are_gated_or_have_room_kept_for_them_do_not_count() -> None:
    gated = pod("shop/gated", schedulingGates=[{"name": "example.com/wait"}])
    nominated = pod("shop/nominated")
    nominated["status"]["nominatedNodeName"] = "a"
    snapshot = snapshot_of([node("a"), gated, nominated])
    assert failed_safety_check(snapshot, Policy(max_pending_pods=0)) is None


def test_a_node_is_drained_beside_many_gated_pods() -> None:
    """A queue such as Kueue gates all the pods that wait for their turn."""
    leaving = node("a", labels={"scheduler.alpha.kubernetes.io/maintenance": "true"})
    owner = replicaset("shop/web", replicas=2)
    pods = [pod(f"shop/web-{number}", on="a", owner=owner) for number in range(2)]
    gates = [{"name": "kueue.x-k8s.io/admission"}]
    queued = [pod(f"batch/job-{number}", schedulingGates=gates) for number in range(101)]
    snapshot = snapshot_of([leaving, node("b"), owner, *pods, *queued])
    plan = make_plan(snapshot, Policy(enabled_strategies=("NodeMaintenance",)))
    assert [move.target for move in plan.moves] == ["b", "b"]


def test_pods_that_have_ended_are_not_pending() -> None:
    ended = pod("shop/p", phase="Succeeded")
    assert failed_safety_check(snapshot_of([node("a"), ended]), Policy(max_pending_pods=0)) is None


def test_a_cluster_with_many_nodes_not_ready_is_left_alone() -> None:
    nodes = [node(name, ready=name not in "abc") for name in "abcdefghij"]
    assert failed_safety_check(snapshot_of(nodes), Policy()) == (
        "TooManyUnreadyNodes",
        "3 of 10 nodes are not ready, more than maxUnreadyNodesPercent (20%): "
        "nothing is moved until the cluster has calmed down",
    )
    assert (
        failed_safety_check(snapshot_of(nodes[1:]), Policy(max_unready_nodes_percent=23.0)) is None
    )
    assert failed_safety_check(snapshot_of(nodes), Policy(max_unready_nodes_percent=30.0)) is None


def test_cordoned_nodes_are_not_unready() -> None:
    nodes = [node(name, unschedulable=True) for name in "abc"]
    assert failed_safety_check(snapshot_of(nodes), Policy(max_unready_nodes_percent=0.0)) is None


def test_a_cluster_without_nodes_needs_no_brake() -> None:
    assert failed_safety_check(snapshot_of([]), Policy()) is None
