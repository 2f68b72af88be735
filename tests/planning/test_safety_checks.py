"""When nothing is moved, and how that is said."""

from rescheduler.planning.planner import make_plan
from rescheduler.planning.safety_checks import failed_safety_check
from rescheduler.settings import Policy
from testcluster.builders import node, pod, replicaset
from testcluster.snapshots import snapshot_of


def test_a_cluster_with_many_pending_pods_is_left_alone() -> None:
    waiting = [pod(f"shop/p{number:03}") for number in range(132)]
    assert failed_safety_check(snapshot_of([node("a"), *waiting]), Policy()) == (
        "TooManyPendingPods",
        "132 pods are pending, more than maxPendingPods (100): "
        "nothing is moved until the cluster has calmed down",
    )
    assert failed_safety_check(snapshot_of([node("a"), *waiting[:100]]), Policy()) is None


def test_one_pending_pod_is_one_too_many_if_none_may_be() -> None:
    said = failed_safety_check(snapshot_of([node("a"), pod("shop/p")]), Policy(max_pending_pods=0))
    assert said is not None
    assert said.sentence.startswith("1 pod is pending, more than maxPendingPods (0)")


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
