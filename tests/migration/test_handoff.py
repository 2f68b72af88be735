"""Pods are moved by handoff, from every kind of workload that adopts pods."""

from dataclasses import replace
from typing import Any

import msgspec

from testcluster.applying import apply
from testcluster.builders import budget, replicaset
from testcluster.client import JsonObject
from tests.kube.support import QUICK_WATCH
from tests.migration.ready_pod_watch import ReadyPodWatch
from tests.migration.support import (
    COST,
    ID,
    QUICK_OPTIONS,
    STATUS,
    Sandbox,
    controller_on,
    is_ready,
    node_of,
    other_node,
    set_ready,
)

PREFIX = "scheduler.alpha.kubernetes.io/"


async def moved(sandbox: Sandbox, pod: JsonObject, target: str, /, **spec: Any) -> JsonObject:
    """Move a pod, and return the new one."""
    async with controller_on(sandbox.cluster):
        name = sandbox.migrate(pod, target, **spec)
        (status,) = await sandbox.finished(name)
    assert (status["phase"], status["outcome"]) == ("Completed", "Landed"), status
    await sandbox.until(lambda: sandbox.pod(pod["metadata"]["name"]) is None, "the old pod is gone")
    new = sandbox.pod(status["newPod"])
    assert new is not None
    assert node_of(new) == target
    assert sandbox.leftovers() == []
    return new


async def test_a_pod_that_no_eviction_can_move_is_moved_without_a_gap(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a", "b", "c")
    pods = sandbox.deploy("web", 3)
    apply(sandbox.cluster, budget(f"{sandbox.namespace}/web", min_available=3))
    with ReadyPodWatch(sandbox.cluster, sandbox.namespace) as watcher:
        new = await moved(sandbox, pods[0], other_node(sandbox, pods[0]))
    assert new["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet"
    assert len(sandbox.pods("web")) == 3
    assert (watcher.fewest["web"], watcher.most["web"]) == (3, 4)


async def test_a_handoff_does_not_wait_for_events_that_the_store_holds_back(
    sandbox: Sandbox,
) -> None:
    """Two events of each kind that come one after the other are read, and then none for an hour."""
    sandbox.add_nodes("a", "b")
    (old,) = sandbox.deploy("web", 1)
    an_hour = replace(QUICK_WATCH, batch_seconds=3600.0)
    async with controller_on(sandbox.cluster, store_watch=an_hour):
        name = sandbox.migrate(old, other_node(sandbox, old))
        (status,) = await sandbox.finished(name)
    assert (status["phase"], status["outcome"]) == ("Completed", "Landed"), status


async def test_labels_and_events_say_what_happens_to_both_pods(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a", "b")
    (old,) = sandbox.deploy("web", 1)
    async with controller_on(sandbox.cluster):
        name = sandbox.migrate(old, other_node(sandbox, old), strategy="NodeMaintenance")
        (status,) = await sandbox.finished(name)
        await sandbox.until(lambda: "MigrationCompleted" in reasons(sandbox, "Pod"), "Events")
    new = sandbox.pod(status["newPod"])
    assert new is not None
    labels, notes = new["metadata"]["labels"], new["metadata"]["annotations"]
    migration = sandbox.get("migrations", f"move-{old['metadata']['name']}")
    assert migration is not None
    assert labels[ID] == migration["metadata"]["uid"]
    assert labels[STATUS] == "completed"
    assert labels[PREFIX + "migrated-from"] == node_of(old)
    assert labels[PREFIX + "migration-reason"] == "NodeMaintenance"
    assert notes[PREFIX + "original-pod"] == old["metadata"]["uid"]
    assert notes[PREFIX + "original-pod-name"] == old["metadata"]["name"]
    assert notes[PREFIX + "migration-time"].endswith("Z")
    expected = {"MigrationStarted", "NewPodCreated", "NewPodReady", "MigrationCompleted"}
    assert reasons(sandbox, "Migration") == reasons(sandbox, "Pod") == expected


def reasons(sandbox: Sandbox, kind: str) -> set[str]:
    return {
        event["reason"]
        for event in sandbox.all("events")
        if event["involvedObject"]["kind"] == kind
        and event.get("source", {}).get("component") == "rescheduler"
    }


async def test_pods_of_a_deployment_that_is_paused_halfway_are_moved(sandbox: Sandbox) -> None:
    """A canary may stay like this for days, and its nodes must be drained meanwhile."""
    sandbox.add_nodes("a", "b")
    old, _ = sandbox.deploy("web", 2)
    path = sandbox.path("deployments", "web")
    nowhere = {"template": {"spec": {"nodeSelector": {"disk": "none"}}}}
    sandbox.outside.patch(path, {"spec": nowhere})
    await sandbox.until(lambda: len(sandbox.pods("web")) == 3, "the rollout has begun")
    sandbox.outside.patch(path, {"spec": {"paused": True}})
    new = await moved(sandbox, old, other_node(sandbox, old))
    assert new["metadata"]["ownerReferences"] == old["metadata"]["ownerReferences"]
    assert len(sandbox.pods("web")) == 3


async def test_a_deployment_is_not_edited_and_no_rollout_starts(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a", "b")
    pods = sandbox.deploy("web", 2)
    before = sandbox.get("deployments", "web")
    assert before is not None
    await moved(sandbox, pods[0], other_node(sandbox, pods[0]))
    after = sandbox.get("deployments", "web")
    assert after is not None
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    assert len(sandbox.all("replicasets")) == 1


async def test_minimum_ready_seconds_pass_before_the_old_pod_goes(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a", "b")
    (old,) = sandbox.deploy("web", 1, minReadySeconds=2)
    new = await moved(sandbox, old, other_node(sandbox, old))
    migration = sandbox.get("migrations", f"move-{old['metadata']['name']}")
    assert migration is not None
    times = {condition["type"]: condition for condition in migration["status"]["conditions"]}
    ready = next(
        condition for condition in new["status"]["conditions"] if condition["type"] == "Ready"
    )
    handed_over = times["NewPodReady"]["lastTransitionTime"]
    assert seconds_between(ready["lastTransitionTime"], handed_over) >= 2


def seconds_between(earlier: str, later: str) -> float:
    from datetime import datetime

    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


async def test_a_plain_replicaset_gets_its_label_back_at_the_handover(sandbox: Sandbox) -> None:
    """The label that no Service selects by is withheld: the new pod serves from the start."""
    sandbox.add_nodes("a", "b")
    labels = {"app": "web", "tier": "front"}
    body = replicaset(f"{sandbox.namespace}/web", 2, "100m", labels=labels, template=sandbox.here())
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": sandbox.namespace},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    }
    apply(sandbox.cluster, body, service)
    pods = sandbox.wait_ready("web", 2)
    with ReadyPodWatch(sandbox.cluster, sandbox.namespace) as watcher:
        new = await moved(sandbox, pods[0], other_node(sandbox, pods[0]))
    # The watcher counts by the Service's label: the new pod was there before the old one went.
    assert (watcher.fewest["web"], watcher.most["web"]) == (2, 3)
    assert new["metadata"]["labels"]["tier"] == "front"
    assert len(sandbox.pods("web")) == 2


async def test_a_replication_controllers_pod_is_handed_over(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a", "b")
    labels = {"app": "web", "track": "stable"}
    template = {"metadata": {"labels": labels}, "spec": replication_spec(sandbox)}
    body = {
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "metadata": {"name": "web", "namespace": sandbox.namespace},
        "spec": {"replicas": 2, "selector": labels, "template": template},
    }
    apply(sandbox.cluster, body)
    pods = sandbox.wait_ready("web", 2)
    with ReadyPodWatch(sandbox.cluster, sandbox.namespace) as watcher:
        new = await moved(sandbox, pods[0], other_node(sandbox, pods[0]))
    assert new["metadata"]["ownerReferences"][0]["kind"] == "ReplicationController"
    assert len(sandbox.pods("web")) == 2
    assert watcher.fewest.get("web", 2) >= 1


def replication_spec(sandbox: Sandbox) -> JsonObject:
    return {"containers": [{"name": "app", "image": "x"}], **sandbox.here()}


async def test_the_pods_own_needs_about_nodes_are_kept(sandbox: Sandbox) -> None:
    """The target does not satisfy them: the scheduler refuses the new pod, as it should."""
    sandbox.add_nodes("a", labels={"disk": "fast"})
    needs = {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["fast"]}]},
            {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["faster"]}]},
        ]
    }
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": needs}}
    (old,) = sandbox.deploy("web", 1, {"affinity": affinity})
    (slow,) = sandbox.add_nodes("slow", labels={"disk": "slow"})
    once = msgspec.structs.replace(QUICK_OPTIONS, max_retries=0)
    async with controller_on(sandbox.cluster, once):
        name = sandbox.migrate(old, slow)
        (status,) = await sandbox.finished(name)
        assert status["phase"] == "Failed"
        assert "node affinity" in status["message"]
    (fast,) = sandbox.add_nodes("faster", labels={"disk": "faster"})
    await moved(sandbox, old, fast, name="again")


async def test_a_deletion_cost_that_the_user_gave_is_restored(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a", "b")
    (old,) = sandbox.deploy("web", 1)
    path = sandbox.path("pods", old["metadata"]["name"])
    sandbox.outside.patch(path, {"metadata": {"annotations": {COST: "100"}}})
    seen: list[str] = []
    paused: list[bool] = []

    def pause_after_lowering(point: str, key: str) -> None:
        if point == "after-lower-cost" and not paused:
            paused.append(True)
            seen.append(sandbox.outside.get(path)["metadata"]["annotations"][COST])
            migration = sandbox.path("migrations", key.partition("/")[2])
            sandbox.outside.patch(migration, {"spec": {"paused": True}})
            # The controller must hear of it before it continues: it would be committed.
            sandbox.outside.patch(path, {"metadata": {"annotations": {"note": "changed"}}})
            new = sandbox.outside.get(migration)["status"]["newPod"]
            touched = {"metadata": {"annotations": {"note": "changed"}}}
            sandbox.outside.patch(sandbox.path("pods", new), touched)

    async with controller_on(sandbox.cluster, reached=pause_after_lowering):
        name = sandbox.migrate(old, other_node(sandbox, old))
        await sandbox.until(
            lambda: sandbox.status(name).get("phase") == "Pending" and paused, "it is paused"
        )
    assert seen == ["-2147483647"]
    found = sandbox.pod(old["metadata"]["name"])
    assert found is not None
    assert found["metadata"]["annotations"] == {COST: "100", "note": "changed"}
    assert sandbox.leftovers() == []


async def test_no_new_pod_is_created_while_another_pod_is_not_ready(sandbox: Sandbox) -> None:
    """It could not be handed over: a workload deletes pods that are not Ready first."""
    sandbox.add_nodes("a", "b")
    pods = sandbox.deploy("web", 2)
    sick = pods[1]["metadata"]["name"]
    set_ready(sandbox, sick, "False")
    async with controller_on(sandbox.cluster):
        name = sandbox.migrate(pods[0], other_node(sandbox, pods[0]))
        await sandbox.until(
            lambda: "1 of 2 pods Ready" in sandbox.status(name).get("message", ""), "it waits"
        )
        assert len(sandbox.pods("web")) == 2
        assert not sandbox.status(name).get("attempts")
        set_ready(sandbox, sick, "True")
        (status,) = await sandbox.finished(name)
    assert status["outcome"] == "Landed"
    assert sandbox.pod(sick) is not None


async def test_a_handoff_passes_two_budgets_that_no_eviction_could(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a", "b")
    pods = sandbox.deploy("web", 2)
    key = f"{sandbox.namespace}/web"
    apply(sandbox.cluster, budget(key, min_available=2))
    apply(sandbox.cluster, budget(f"{key}-too", max_unavailable=0, selector={"app": "web"}))
    await moved(sandbox, pods[0], other_node(sandbox, pods[0]))
    assert sum(map(is_ready, sandbox.pods("web"))) == 2
