"""Whatever happens to a pod while it is being moved is noticed, and nothing is left behind.

The target is a node without a kubelet: a new pod is bound to it and never becomes Ready, so the
migration stays where a test wants it.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pytest

from rescheduler.settings.value_types import Seconds
from testcluster.applying import apply
from testcluster.builders import deployment
from testcluster.builders import pod as pod_object
from testcluster.client import ApiError, JsonObject
from testcluster.waiting import wait_until
from tests.migration.support import (
    COST,
    ID,
    QUICK_OPTIONS,
    Sandbox,
    controller_on,
    is_ready,
    node_of,
    other_node,
    set_ready,
    set_running,
)

ONCE = msgspec.structs.replace(QUICK_OPTIONS, max_retries=0)
PATIENT = msgspec.structs.replace(QUICK_OPTIONS, max_retries=3)

GATED: JsonObject = {"spec": {"schedulingGates": []}}


class Moving:
    """A pod in the middle of a handoff: its successor is on the target and not Ready yet."""

    def __init__(self, sandbox: Sandbox, replicas: int = 2, **template: Any) -> None:
        self.sandbox = sandbox
        sandbox.add_nodes("a", "b")
        pods = deployed(sandbox, replicas, template)
        (self.target,) = sandbox.add_nodes("target", managed=False, cpu="1")
        path = sandbox.path("pods", pods[0]["metadata"]["name"])
        notes = {"metadata": {"annotations": {COST: "42", "note": "mine"}}}
        self.old = sandbox.outside.patch(path, notes)
        self.replicas = replicas
        self.migration = ""

    async def start(self, **spec: Any) -> None:
        """Ask for the move, and wait until the new pod is there and the scheduler may place it."""
        self.migration = self.sandbox.migrate(self.old, self.target, **spec)
        await self.sandbox.until(
            lambda: "schedulingGates" not in (self.new() or GATED)["spec"],
            "the new pod's gate is open",
        )

    async def bound(self) -> None:
        """Wait until the new pod is on the target."""
        await self.sandbox.until(
            lambda: node_of(self.new() or self.old) == self.target, "the new pod is bound"
        )

    def new(self) -> JsonObject | None:
        """The new pod, if there is one that lives."""
        name = self.status().get("newPod", "")
        found = self.sandbox.pod(name) if name else None
        is_alive = found is not None and "deletionTimestamp" not in found["metadata"]
        return found if is_alive else None

    def status(self) -> JsonObject:
        return self.sandbox.status(self.migration)

    def patch_new(self, status: JsonObject) -> None:
        new = self.new()
        assert new is not None
        path = self.sandbox.path("pods", new["metadata"]["name"])
        self.sandbox.outside.patch(f"{path}/status", {"status": status})

    def the_old_pod_is_as_it_was(self) -> bool:
        found = self.sandbox.pod(self.old["metadata"]["name"])
        return found is not None and written_on(found) == written_on(self.old)

    async def ended(self, phase: str, message: str) -> None:
        """Wait until it is over; everything is as it was, and the message says what happened."""
        (status,) = await self.sandbox.finished(self.migration)
        assert status["phase"] == phase, status
        assert message in status["message"]
        await self.sandbox.until(lambda: not self.sandbox.leftovers(), "nothing is left behind")
        assert self.new() is None


def deployed(sandbox: Sandbox, replicas: int, template: dict[str, Any]) -> list[JsonObject]:
    """The pods of a Deployment; those of an unknown scheduler are bound by hand."""
    if "schedulerName" not in template:
        return sandbox.deploy("web", replicas, template)
    body = deployment(f"{sandbox.namespace}/web", replicas, template=sandbox.here(**template))
    apply(sandbox.cluster, body)
    for pod in wait_until(lambda: sandbox.pods("web"), what="pods were created"):
        bind(sandbox, pod, sandbox.nodes[0])
    return sandbox.wait_ready("web", replicas)


def written_on(pod: JsonObject) -> tuple[Any, Any, str]:
    metadata = pod["metadata"]
    return metadata["labels"], metadata.get("annotations", {}), metadata["uid"]


@pytest.fixture
def moving(sandbox: Sandbox) -> Moving:
    return Moving(sandbox)


@pytest.fixture
async def impatient(moving: Moving) -> AsyncIterator[Moving]:
    """A controller that gives up after the first failure."""
    async with controller_on(moving.sandbox.cluster, ONCE):
        yield moving


async def test_a_pod_that_is_deleted_cancels_its_migration(impatient: Moving) -> None:
    await impatient.start()
    impatient.sandbox.outside.delete(
        impatient.sandbox.path("pods", impatient.old["metadata"]["name"])
    )
    await impatient.ended("Cancelled", "was deleted or has finished")
    impatient.sandbox.wait_ready("web", 2)


async def test_a_rollout_cancels_the_migration(impatient: Moving) -> None:
    """Pods of the next version do not get Ready: so it is not the end of the old pod that does."""
    await impatient.start()
    template = {"spec": {"schedulerName": "nobody"}}
    path = impatient.sandbox.path("deployments", "web")
    impatient.sandbox.outside.patch(path, {"spec": {"template": template}})
    await impatient.ended("Cancelled", "Deployment web")


async def test_a_scale_down_cancels_the_migration(sandbox: Sandbox) -> None:
    moving = Moving(sandbox, replicas=3)
    async with controller_on(sandbox.cluster, ONCE):
        await moving.start()
        sandbox.outside.patch(sandbox.path("deployments", "web"), {"spec": {"replicas": 2}})
        await moving.ended("Cancelled", "Deployment web")
    sandbox.wait_ready("web", 2)


async def test_a_scale_up_does_not_disturb_the_migration(sandbox: Sandbox) -> None:
    moving = Moving(sandbox)
    async with controller_on(sandbox.cluster, ONCE):
        await moving.start()
        await moving.bound()
        sandbox.outside.patch(sandbox.path("deployments", "web"), {"spec": {"replicas": 3}})
        await sandbox.until(
            lambda: len([pod for pod in sandbox.pods("web") if node_of(pod)]) == 4, "one pod more"
        )
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for pod in sandbox.pods("web"):
            if node_of(pod) == moving.target:
                path = sandbox.path("pods", pod["metadata"]["name"])
                status = {"phase": "Running", "conditions": [ready]}
                sandbox.outside.patch(f"{path}/status", {"status": status})
        (ended,) = await sandbox.finished(moving.migration)
    assert ended["outcome"] == "Landed", ended


async def test_a_deleted_workload_cancels_the_migration(impatient: Moving) -> None:
    await impatient.start()
    impatient.sandbox.outside.delete(impatient.sandbox.path("deployments", "web"))
    (status,) = await impatient.sandbox.finished(impatient.migration)
    assert status["phase"] == "Cancelled", status
    await impatient.sandbox.until(lambda: not impatient.new(), "the new pod is deleted")


async def test_a_pod_of_a_replicaset_that_is_being_deleted_is_neither_evicted_nor_handed_over(
    sandbox: Sandbox,
) -> None:
    """It creates and adopts no pods any more: the pod would be lost."""
    sandbox.add_nodes("a", "b")
    old, other = sandbox.deploy("web", 2)
    path = sandbox.path("replicasets", sandbox.replica_set()["metadata"]["name"])
    sandbox.outside.patch(path, {"metadata": {"finalizers": ["example.com/hold"]}})
    sandbox.outside.delete(sandbox.path("deployments", "web"))
    await sandbox.until(lambda: "deletionTimestamp" in sandbox.replica_set()["metadata"])
    async with controller_on(sandbox.cluster, ONCE):
        by_handoff = sandbox.migrate(old, other_node(sandbox, old))
        by_eviction = sandbox.migrate(other, other_node(sandbox, other), mode="Evict")
        both = (by_handoff, by_eviction)
        await sandbox.until(
            lambda: all("no longer exists" in sandbox.status(name)["message"] for name in both)
        )
        assert not any(sandbox.status(name).get("attempts", 0) for name in both)
        assert {pod["metadata"]["uid"] for pod in sandbox.pods() if is_ready(pod)} == {
            pod["metadata"]["uid"] for pod in (old, other)
        }
        sandbox.outside.patch(path, {"metadata": {"finalizers": None}})
        ended = await sandbox.finished(*both)
    assert [status["phase"] for status in ended] == ["Cancelled", "Cancelled"]


async def test_pods_of_a_replicaset_that_its_deployment_left_behind_are_handed_over(
    sandbox: Sandbox,
) -> None:
    sandbox.add_nodes("a", "b")
    old, _ = sandbox.deploy("web", 2)
    sandbox.outside.delete(f"{sandbox.path('deployments', 'web')}?propagationPolicy=Orphan")
    await sandbox.until(lambda: "ownerReferences" not in sandbox.replica_set()["metadata"])
    async with controller_on(sandbox.cluster, ONCE):
        name = sandbox.migrate(old, other_node(sandbox, old))
        (status,) = await sandbox.finished(name)
    assert (status["mode"], status["outcome"]) == ("Handoff", "Landed"), status
    moved = sandbox.pod(status["newPod"])
    assert moved is not None
    assert moved["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet"


async def test_a_cordoned_target_is_given_up(impatient: Moving) -> None:
    await impatient.start()
    path = f"/api/v1/nodes/{impatient.target}"
    impatient.sandbox.outside.patch(path, {"spec": {"unschedulable": True}})
    await impatient.ended("Failed", "is cordoned")
    assert impatient.the_old_pod_is_as_it_was()


async def test_a_target_that_is_not_ready_is_given_up(impatient: Moving) -> None:
    await impatient.start()
    node = impatient.sandbox.outside.get(f"/api/v1/nodes/{impatient.target}")
    for condition in node["status"]["conditions"]:
        condition["status"] = "False"
    impatient.sandbox.outside.patch(
        f"/api/v1/nodes/{impatient.target}/status",
        {"status": {"conditions": node["status"]["conditions"]}},
    )
    await impatient.ended("Failed", "is not Ready")
    assert impatient.the_old_pod_is_as_it_was()


async def test_a_target_that_is_deleted_is_given_up(impatient: Moving) -> None:
    await impatient.start()
    impatient.sandbox.outside.delete(f"/api/v1/nodes/{impatient.target}")
    await impatient.ended("Failed", "does not exist")
    assert impatient.the_old_pod_is_as_it_was()


async def test_a_new_pod_that_does_not_fit_is_removed_with_the_reason(
    sandbox: Sandbox,
) -> None:
    moving = Moving(sandbox)
    (moving.target,) = sandbox.add_nodes("tiny", cpu="50m")
    async with controller_on(sandbox.cluster, ONCE):
        moving.migration = sandbox.migrate(moving.old, moving.target)
        await moving.ended("Failed", f"does not fit on {moving.target}: not enough cpu")
    assert moving.the_old_pod_is_as_it_was()


async def test_a_new_pod_that_is_preempted_is_given_up(impatient: Moving) -> None:
    sandbox = impatient.sandbox
    await impatient.start()
    await impatient.bound()
    name = f"{sandbox.namespace}-important"
    apply(
        sandbox.cluster,
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": 1000,
        },
    )
    rival = pod_object(
        f"{sandbox.namespace}/rival",
        cpu="1",
        priorityClassName=name,
        nodeSelector={"kubernetes.io/hostname": impatient.target},
    )
    del rival["status"]
    apply(sandbox.cluster, rival)
    await impatient.ended("Failed", "preempted by a pod of higher priority")
    assert impatient.the_old_pod_is_as_it_was()
    sandbox.outside.delete(f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}")


def waiting(reason: str, restarts: int = 0) -> JsonObject:
    state = {"waiting": {"reason": reason, "message": "from a test"}}
    container = {"name": "app", "image": "x", "imageID": "", "ready": False, "state": state}
    return {"containerStatuses": [{**container, "restartCount": restarts}]}


async def test_a_new_pod_that_keeps_crashing_is_given_up_at_once(impatient: Moving) -> None:
    await impatient.start()
    await impatient.bound()
    impatient.patch_new(waiting("CrashLoopBackOff", 4))
    await impatient.ended("Failed", "keeps crashing: container app has been restarted 4 times")
    assert impatient.the_old_pod_is_as_it_was()


@pytest.mark.parametrize(
    ("status", "message"),
    [
        pytest.param(
            {"reason": "OutOfcpu", "message": "Pod was rejected: Node didn't have enough resource"},
            "failed on {}: OutOfcpu: Pod was rejected: Node didn't have enough resource",
            id="not admitted",
        ),
        pytest.param(
            {
                "reason": "Evicted",
                "message": "The node was low on resource: memory.",
                "conditions": [
                    {
                        "type": "DisruptionTarget",
                        "status": "True",
                        "reason": "TerminationByKubelet",
                    }
                ],
            },
            "failed on {}: Evicted: The node was low on resource: memory.",
            id="evicted",
        ),
    ],
)
async def test_a_new_pod_that_the_targets_kubelet_does_not_keep_is_given_up_with_the_reason(
    impatient: Moving, status: JsonObject, message: str
) -> None:
    await impatient.start()
    await impatient.bound()
    impatient.patch_new({"phase": "Failed", **status})
    await impatient.ended("Failed", message.format(impatient.target))
    assert impatient.the_old_pod_is_as_it_was()


async def test_an_old_pod_that_its_kubelet_evicts_cancels_the_migration(sandbox: Sandbox) -> None:
    """Its object stays; the workload replaces it."""
    moving = Moving(sandbox)
    async with controller_on(sandbox.cluster, ONCE):
        await moving.start()
        path = sandbox.path("pods", moving.old["metadata"]["name"])
        evicted = {"phase": "Failed", "reason": "Evicted", "conditions": []}
        sandbox.outside.patch(f"{path}/status", {"status": evicted})
        await moving.ended("Cancelled", "was deleted or has finished")


async def test_a_pod_whose_node_goes_away_meanwhile_is_handed_over_all_the_same(
    sandbox: Sandbox,
) -> None:
    moving = Moving(sandbox, replicas=1)
    async with controller_on(sandbox.cluster, ONCE):
        await moving.start()
        await moving.bound()
        sandbox.outside.delete(f"/api/v1/nodes/{node_of(moving.old)}")
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        moving.patch_new({"phase": "Running", "conditions": [ready]})
        (status,) = await sandbox.finished(moving.migration)
    assert (status["phase"], status["outcome"]) == ("Completed", "Landed"), status
    assert sandbox.leftovers() == []


async def test_a_pod_whose_node_stops_reporting_is_handed_over_all_the_same(
    sandbox: Sandbox,
) -> None:
    """Its pods are marked as not Ready, and those that are deleted never end."""
    (first,) = sandbox.add_nodes("a", managed=False)
    apply(sandbox.cluster, deployment(f"{sandbox.namespace}/web", 1, template=sandbox.here()))
    (old,) = wait_until(lambda: [pod for pod in sandbox.pods("web") if node_of(pod)])
    set_running(sandbox, old)
    (target,) = sandbox.add_nodes("target", managed=False)
    async with controller_on(sandbox.cluster, ONCE):
        name = sandbox.migrate(old, target)
        await sandbox.until(lambda: on_node(sandbox, target), "the new pod is bound")
        stop_reporting(sandbox, first)
        set_ready(sandbox, old["metadata"]["name"], "False")
        (new,) = on_node(sandbox, target)
        set_running(sandbox, new)
        (status,) = await sandbox.finished(name)
    assert (status["phase"], status["outcome"]) == ("Completed", "Landed"), status
    (stuck,) = on_node(sandbox, first)
    assert "deletionTimestamp" in stuck["metadata"]
    assert sandbox.leftovers() == []


def on_node(sandbox: Sandbox, node: str) -> list[JsonObject]:
    return [pod for pod in sandbox.pods() if node_of(pod) == node]


def stop_reporting(sandbox: Sandbox, node: str) -> None:
    """What the node controller writes when a kubelet has not been heard of for long."""
    path = f"/api/v1/nodes/{node}"
    conditions = sandbox.outside.get(path)["status"]["conditions"]
    for condition in conditions:
        condition |= {"status": "Unknown", "reason": "NodeStatusUnknown"}
    sandbox.outside.patch(f"{path}/status", {"status": {"conditions": conditions}})


async def test_a_new_pod_that_does_not_become_ready_is_given_up_with_the_reason(
    sandbox: Sandbox,
) -> None:
    moving = Moving(sandbox)
    patient = msgspec.structs.replace(ONCE, timeout_seconds=Seconds(600))
    async with controller_on(sandbox.cluster, patient):
        await moving.start()
        await moving.bound()
        moving.patch_new(waiting("ImagePullBackOff"))
        sandbox.end_step(moving.migration)
        expected = f"new pod not Ready after 600s: ImagePullBackOff on {moving.target}"
        await moving.ended("Failed", expected)
    assert moving.the_old_pod_is_as_it_was()


async def test_a_new_pod_that_is_placed_elsewhere_is_removed(sandbox: Sandbox) -> None:
    moving = Moving(sandbox, replicas=1, schedulerName="somebodys-own")
    async with controller_on(sandbox.cluster, ONCE):
        await moving.start()
        # A scheduler that does not care what pods need.
        bind(sandbox, moving.new(), node_of(moving.old))
        await moving.ended("Failed", f"was placed on {node_of(moving.old)} instead of")
    assert moving.the_old_pod_is_as_it_was()


def bind(sandbox: Sandbox, pod: JsonObject | None, node: str) -> None:
    assert pod is not None
    path = sandbox.path("pods", pod["metadata"]["name"])
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    binding = {"metadata": {"name": pod["metadata"]["name"]}, "target": target}
    sandbox.outside.create(f"{path}/binding", binding)


async def test_a_workload_that_is_deleted_at_the_handover_takes_the_new_pod_along(
    sandbox: Sandbox,
) -> None:
    """The new pod has its label by then, but nobody who would adopt it."""
    sandbox.add_nodes("a", "b")
    (old,) = sandbox.deploy("web", 1)

    def delete_workload(point: str, key: str) -> None:
        if point == "before-adopt":
            sandbox.outside.delete(sandbox.path("deployments", "web"))
            wait_until(lambda: not sandbox.all("replicasets"), what="the ReplicaSet is deleted")

    async with controller_on(sandbox.cluster, reached=delete_workload):
        name = sandbox.migrate(old, other_node(sandbox, old))
        (status,) = await sandbox.finished(name)
        await sandbox.until(lambda: not sandbox.pods(), "no pod is left")
    assert status["phase"] == "Cancelled", status


async def test_a_quota_that_rejects_the_new_pod_is_reported(impatient: Moving) -> None:
    sandbox = impatient.sandbox
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few", "namespace": sandbox.namespace},
        "spec": {"hard": {"pods": "2"}},
    }
    sandbox.outside.create(sandbox.path("resourcequotas"), quota)
    await sandbox.until(
        lambda: (sandbox.get("resourcequotas", "few") or {}).get("status", {}).get("used"),
        "the quota is counted",
    )
    impatient.migration = sandbox.migrate(impatient.old, impatient.target)
    await impatient.ended("Failed", "exceeded quota: few")
    assert impatient.the_old_pod_is_as_it_was()


@pytest.fixture
def refusing(sandbox: Sandbox) -> Iterator[str]:
    """A policy that lets no pod of a migration into the namespace; its message."""
    message = "no strangers here"
    base = "/apis/admissionregistration.k8s.io/v1"
    labels = "object.metadata.labels"
    name = f"{sandbox.namespace}-strangers"
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
    }
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [
            {
                "expression": f"!has({labels}) || !('{ID}' in {labels})",
                "message": message,
            }
        ],
    }
    meta = {"name": name}
    client = sandbox.outside
    client.create(
        f"{base}/validatingadmissionpolicies",
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": meta,
            "spec": spec,
        },
    )
    here = {"matchLabels": {"kubernetes.io/metadata.name": sandbox.namespace}}
    binding = {
        "policyName": name,
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": here},
    }
    client.create(
        f"{base}/validatingadmissionpolicybindings",
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": meta,
            "spec": binding,
        },
    )

    def is_at_work() -> bool:
        stranger = pod_object(f"{sandbox.namespace}/stranger", labels={ID: "x"})
        try:
            client.create(sandbox.path("pods") + "?dryRun=All", stranger)
        except ApiError as error:
            return message in str(error)
        return False

    wait_until(is_at_work, what="the policy is at work")
    yield message
    client.delete(f"{base}/validatingadmissionpolicybindings/{name}")
    client.delete(f"{base}/validatingadmissionpolicies/{name}")


async def test_an_admission_policy_that_rejects_the_new_pod_is_reported(
    moving: Moving, refusing: str
) -> None:
    async with controller_on(moving.sandbox.cluster, ONCE):
        moving.migration = moving.sandbox.migrate(moving.old, moving.target)
        await moving.ended("Failed", refusing)
    assert moving.the_old_pod_is_as_it_was()


async def test_a_migration_that_a_person_deletes_is_rolled_back(impatient: Moving) -> None:
    sandbox = impatient.sandbox
    await impatient.start()
    new = impatient.new()
    assert new is not None
    sandbox.outside.delete(sandbox.path("migrations", impatient.migration))
    await sandbox.until(lambda: not sandbox.leftovers(), "all is rolled back")
    await sandbox.until(lambda: impatient.the_old_pod_is_as_it_was(), "the old pod is as it was")
    left = sandbox.pod(new["metadata"]["name"])
    assert left is None or "deletionTimestamp" in left["metadata"]


async def test_a_paused_migration_is_rolled_back_and_continues_when_it_is_resumed(
    impatient: Moving,
) -> None:
    sandbox = impatient.sandbox
    await impatient.start()
    path = sandbox.path("migrations", impatient.migration)
    sandbox.outside.patch(path, {"spec": {"paused": True}})
    await sandbox.until(
        lambda: impatient.status()["phase"] == "Pending" and not sandbox.leftovers(), "it is paused"
    )
    assert impatient.the_old_pod_is_as_it_was()
    assert impatient.status()["message"] == "paused"
    sandbox.outside.patch(path, {"spec": {"paused": False}})
    await sandbox.until(lambda: impatient.new(), "it continues")
    assert impatient.status()["attempts"] == 2


async def test_a_failure_is_retried_with_a_new_pod_until_it_works(sandbox: Sandbox) -> None:
    moving = Moving(sandbox)
    async with controller_on(sandbox.cluster, PATIENT):
        await moving.start()
        await moving.bound()
        first = moving.new()
        assert first is not None
        moving.patch_new(waiting("CrashLoopBackOff", 4))
        await sandbox.until(lambda: moving.status().get("attempts") == 2, "it is tried again")
        await sandbox.until(lambda: moving.new(), "there is another new pod")
        await moving.bound()
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        moving.patch_new({"phase": "Running", "conditions": [ready]})
        (status,) = await sandbox.finished(moving.migration)
    assert (status["phase"], status["outcome"]) == ("Completed", "Landed"), status
    assert status["newPod"] != first["metadata"]["name"]
    await sandbox.until(lambda: sum(map(is_ready, sandbox.pods("web"))) == 2, "two are Ready")
