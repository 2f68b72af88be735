"""A workload that lacks a pod does not lose another one, whether or not it has a budget."""

from typing import Any

import msgspec
import pytest

from rescheduler.files.policy_file import read_policy
from rescheduler.planning.context import MoveInFlight, PlanningContext
from rescheduler.planning.movability.blocker import Blocker
from rescheduler.planning.movability.movability import Movability
from rescheduler.planning.planner import make_plan
from rescheduler.settings import Policy
from testcluster.builders import (
    budget,
    deployment,
    job,
    node,
    pod,
    replicaset,
    statefulset,
)
from testcluster.snapshots import snapshot_of

Objects = list[dict[str, Any]]

LEAVING = {"scheduler.alpha.kubernetes.io/maintenance": "true"}
NO_SURGE = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
NEVER = {"rescheduler.dev/handoff": "never"}


def pods_of(owner: dict[str, Any], *ready: bool, **options: Any) -> Objects:
    """Pods on node a, Ready or not."""
    key = f"shop/{owner['metadata']['name']}"
    labels = {"app": "db"}
    return [
        pod(f"{key}-{number}", on="a", owner=owner, ready=is_ready, labels=labels, **options)
        for number, is_ready in enumerate(ready)
    ]


def blocker(objects: Objects, key: str = "shop/db-0", policy: Policy | None = None) -> Blocker:
    snapshot = snapshot_of([node("a"), node("b"), *objects])
    row = snapshot.pods.find(key)
    assert row is not None
    found = Movability(snapshot, policy or Policy()).blocker(row)
    return found or Blocker("", "")


@pytest.mark.parametrize("budgets", [[], [budget("shop/db", allowed=1, selector={"app": "db"})]])
def test_a_statefulset_with_a_pod_that_is_not_ready_loses_no_other(budgets: Objects) -> None:
    owner = statefulset("shop/db", replicas=3)
    objects = [owner, *budgets, *pods_of(owner, True, True, False)]
    assert blocker(objects) == ("WorkloadNotReady", "StatefulSet shop/db has 2 of 3 pods Ready")
    assert blocker(objects, "shop/db-2").name == "NotReady"
    assert blocker([owner, *budgets, *pods_of(owner, True, True, True)]).name == ""


def test_a_pod_whose_node_is_gone_counts_like_one_that_is_not_ready() -> None:
    owner = statefulset("shop/db", replicas=2)
    lost = pod("shop/db-1", on="gone", owner=owner, labels={"app": "db"})
    objects = [owner, *pods_of(owner, True), lost]
    assert blocker(objects) == ("WorkloadNotReady", "StatefulSet shop/db has 1 of 2 pods Ready")
    assert blocker(objects, "shop/db-1") == (
        "NodeMissing",
        "its node is not known: it may be just deleted",
    )


def test_a_pod_that_is_missing_counts_like_one_that_is_not_ready() -> None:
    owner = statefulset("shop/db", replicas=3)
    assert blocker([owner, *pods_of(owner, True, True)]).detail == (
        "StatefulSet shop/db has 2 of 3 pods Ready"
    )


def test_a_pod_that_is_being_deleted_counts_as_missing() -> None:
    owner = statefulset("shop/db", replicas=3)
    pods = pods_of(owner, True, True, True)
    pods[2]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert blocker([owner, *pods]).name == "WorkloadNotReady"


def test_all_replicasets_of_a_deployment_are_one_workload() -> None:
    """Half a rollout without surge: the old version has all its pods, the Deployment has not."""
    above = deployment("shop/web", replicas=2, strategy=NO_SURGE)
    old, new = (replicaset(f"shop/{name}", replicas=1, owner=above) for name in ("old", "new"))
    objects = [above, old, new, *pods_of(old, True), *pods_of(new, False)]
    assert blocker(objects, "shop/old-0") == (
        "WorkloadNotReady",
        "Deployment shop/web has 1 of 2 pods Ready",
    )
    whole = [above, old, new, *pods_of(old, True), *pods_of(new, True)]
    assert blocker(whole, "shop/old-0").name == "SingleReplica"


def test_replicasets_of_a_custom_resource_are_one_workload() -> None:
    rollout = {"kind": "Rollout", "apiVersion": "argoproj.io/v1alpha1"}
    above = {**rollout, "metadata": {"name": "web", "namespace": "shop", "uid": "r"}}
    stable, canary = (replicaset(f"shop/{name}", replicas=2, owner=above) for name in ("x", "y"))
    objects = [stable, canary, *pods_of(stable, True, True, annotations=NEVER)]
    assert blocker(objects, "shop/x-0").detail == "Rollout shop/web has 2 of 4 pods Ready"


def test_of_a_custom_resource_only_its_pods_are_known() -> None:
    cloned = {"kind": "CloneSet", "apiVersion": "apps.kruise.io/v1alpha1"}
    owner = {**cloned, "metadata": {"name": "db", "namespace": "shop", "uid": "c"}}
    assert blocker(pods_of(owner, True, True)).name == ""
    assert blocker(pods_of(owner, True, False)).detail == "CloneSet shop/db has 1 of 2 pods Ready"


def test_a_replication_controller_is_a_workload_too() -> None:
    spec = {"replicas": 3, "selector": {"app": "db"}}
    metadata = {"name": "db", "namespace": "shop", "uid": "rc"}
    kind = {"kind": "ReplicationController", "apiVersion": "v1"}
    owner = {**kind, "metadata": metadata, "spec": spec}
    assert blocker([owner, *pods_of(owner, True, True)]).detail == (
        "ReplicationController shop/db has 2 of 3 pods Ready"
    )


def test_the_other_pods_of_a_job_do_not_matter() -> None:
    allowed = Policy(allow_job_pods=True)
    owner = job("shop/db", completions=5, parallelism=3)
    assert blocker([owner, *pods_of(owner, True, False)], policy=allowed).name == ""


def test_a_custom_resource_named_job_is_no_job() -> None:
    volcano = {"kind": "Job", "apiVersion": "batch.volcano.sh/v1alpha1"}
    owner = {**volcano, "metadata": {"name": "db", "namespace": "shop", "uid": "v"}}
    allowed = Policy(allow_job_pods=True)
    assert blocker(pods_of(owner, True, False), policy=allowed).name == "WorkloadNotReady"
    assert blocker(pods_of(owner, True), policy=allowed).name == "SingleReplica"


def test_a_drain_lists_what_a_workload_lacks() -> None:
    owner = statefulset("shop/db", replicas=3)
    objects = [node("a", labels=LEAVING), node("b"), owner, *pods_of(owner, True, True, False)]
    rules = read_policy("p", msgspec.json.encode({"enabledStrategies": ["NodeMaintenance"]}))
    plan = make_plan(snapshot_of(objects), rules)
    assert plan.moves == ()
    assert {blocked.pod: blocked.blocker for blocked in plan.blocked} == {
        "shop/db-0": "WorkloadNotReady",
        "shop/db-1": "WorkloadNotReady",
        "shop/db-2": "NotReady",
    }


def test_a_move_in_flight_does_not_count_as_a_pod_that_is_not_ready() -> None:
    owner = replicaset("shop/db", replicas=2)
    objects = [node("a", labels=LEAVING), node("b"), owner, *pods_of(owner, True, True)]
    rules = read_policy("p", msgspec.json.encode({"enabledStrategies": ["NodeMaintenance"]}))
    context = PlanningContext(in_flight=(MoveInFlight("shop/db-0", "b"),))
    assert [move.pod for move in make_plan(snapshot_of(objects), rules, context).moves] == [
        "shop/db-1"
    ]
