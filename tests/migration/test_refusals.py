"""What the server refuses for good ends one migration, with the server's words, and no other."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import pytest

from rescheduler.settings.value_types import Seconds, SecondsOrZero
from testcluster import builders
from testcluster.applying import apply
from testcluster.builders import replicaset
from testcluster.client import Client as OutsideClient
from testcluster.client import JsonObject
from tests.migration.admission_policies import WORDS, refused, webhook_down
from tests.migration.support import (
    QUICK_OPTIONS,
    STATUS,
    Sandbox,
    controller_on,
    is_ready,
    node_of,
    other_node,
)

ONE_AT_A_TIME = msgspec.structs.replace(QUICK_OPTIONS, max_in_flight=1, max_retries=1)
COORDINATED = msgspec.structs.replace(ONE_AT_A_TIME, deployment_coordination=True)


def touch(sandbox: Sandbox, pod: JsonObject) -> Callable[[], JsonObject]:
    path = sandbox.path("pods", pod["metadata"]["name"])
    patch = {"metadata": {"annotations": {"note": "touched"}}}
    return lambda: sandbox.outside.patch(path, patch)


async def test_a_refused_patch_fails_its_migration_and_no_other(
    sandbox: Sandbox, other_sandbox: Sandbox
) -> None:
    sandbox.add_nodes("a", "b")
    other_sandbox.add_nodes("a", "b")
    (old,), (free,) = sandbox.deploy("web", 1), other_sandbox.deploy("web", 1)
    with refused(sandbox, "pods", touch(sandbox, old)):
        async with controller_on(sandbox.cluster, ONE_AT_A_TIME) as controller:
            name = sandbox.migrate(old, other_node(sandbox, old))
            (status,) = await sandbox.finished(name)
            other = other_sandbox.migrate(free, other_node(other_sandbox, free))
            (moved,) = await other_sandbox.finished(other)
            await sandbox.until(lambda: controller.in_flight == 0, "no slot is taken")
    assert (status["phase"], status["failures"]) == ("Failed", 2)
    assert WORDS in status["message"]
    assert moved["outcome"] == "Landed"
    assert sandbox.leftovers() == []


async def test_a_workload_that_may_not_adopt_the_new_pod_fails_its_migration_and_no_other(
    sandbox: Sandbox, other_sandbox: Sandbox
) -> None:
    sandbox.add_nodes("a", "b")
    other_sandbox.add_nodes("a", "b")
    (old,), (free,) = sandbox.deploy("web", 1), other_sandbox.deploy("web", 1)
    orphan = builders.pod(f"{sandbox.namespace}/orphan", **sandbox.here())
    del orphan["status"]
    apply(sandbox.cluster, orphan)
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x"}

    def adopt() -> JsonObject:
        patch = {"metadata": {"ownerReferences": [owner]}}
        return sandbox.outside.patch(f"{sandbox.path('pods', 'orphan')}?dryRun=All", patch)

    owners = "metadata.ownerReferences"
    gains_no_owner = f"!has(object.{owners}) || has(oldObject.{owners})"
    with refused(sandbox, "pods", adopt, unless=gains_no_owner):
        patient = msgspec.structs.replace(ONE_AT_A_TIME, timeout_seconds=Seconds(600))
        async with controller_on(sandbox.cluster, patient) as controller:
            name = sandbox.migrate(old, other_node(sandbox, old))
            for failures in (0, 1):
                await sandbox.until(
                    lambda: is_to_be_adopted(sandbox, name, failures),  # noqa: B023
                    "it is to be adopted",
                )
                sandbox.end_step(name)
            (status,) = await sandbox.finished(name)
            other = other_sandbox.migrate(free, other_node(other_sandbox, free))
            (moved,) = await other_sandbox.finished(other)
            await sandbox.until(lambda: controller.in_flight == 0, "no slot is taken")
        (left,) = sandbox.pods("web")
    assert (status["phase"], status["failures"]) == ("Failed", 2), status
    assert status["message"] == "Deployment web does not adopt the new pod"
    assert left["metadata"]["uid"] == old["metadata"]["uid"]
    assert moved["outcome"] == "Landed"
    assert sandbox.leftovers() == []


def is_to_be_adopted(sandbox: Sandbox, migration: str, failures: int) -> bool:
    """Whether the new pod of an attempt has the label that was withheld.

    That of the attempt before may still have it, while it is undone.
    """
    status = sandbox.status(migration)
    if status.get("step") != "HandingOver":
        return False
    new = sandbox.pod(status.get("newPod", "")) if status.get("newPod") else None
    is_labelled = new is not None and "pod-template-hash" in new["metadata"]["labels"]
    return status.get("failures", 0) == failures and is_labelled


async def test_a_refusal_while_undoing_leaves_what_is_cleaned_up_later(
    sandbox: Sandbox, other_sandbox: Sandbox
) -> None:
    """The policy comes when the old pod is labelled, and the new pod cannot start."""
    sandbox.add_nodes("a")
    other_sandbox.add_nodes("a", "b")
    (old,), (free,) = sandbox.deploy("web", 1), other_sandbox.deploy("web", 1)
    (stuck,) = sandbox.add_nodes("stuck", managed=False)
    async with controller_on(sandbox.cluster, ONE_AT_A_TIME):
        name = sandbox.migrate(old, stuck)
        await sandbox.until(
            lambda: any(node_of(pod) == stuck for pod in sandbox.pods("web")), "a pod is there"
        )
        with refused(sandbox, "pods", touch(sandbox, old)):
            cordon = {"spec": {"unschedulable": True}}
            sandbox.outside.patch(f"/api/v1/nodes/{stuck}", cordon)
            (status,) = await sandbox.finished(name)
            other = other_sandbox.migrate(free, other_node(other_sandbox, free))
            (moved,) = await other_sandbox.finished(other)
            assert sandbox.leftovers() == [f"pod {old['metadata']['name']}"]
        await sandbox.until(lambda: not sandbox.leftovers(), "the old pod is restored")
    assert (status["phase"], status["failures"]) == ("Failed", 1), "it is not retried"
    assert "is cordoned; not undone: patch of pod " in status["message"]
    assert WORDS in status["message"]
    assert moved["outcome"] == "Landed"
    (kept,) = filter(is_ready, sandbox.pods("web"))
    assert kept["metadata"]["uid"] == old["metadata"]["uid"]
    assert STATUS not in kept["metadata"]["labels"]


async def test_a_webhook_that_is_down_fails_the_attempt_when_its_time_is_over(
    sandbox: Sandbox, other_sandbox: Sandbox
) -> None:
    sandbox.add_nodes("a", "b")
    other_sandbox.add_nodes("a", "b")
    (old,), (free,) = sandbox.deploy("web", 1), other_sandbox.deploy("web", 1)
    once = msgspec.structs.replace(ONE_AT_A_TIME, max_retries=0)
    with webhook_down(sandbox, "pods", touch(sandbox, old)):
        async with controller_on(sandbox.cluster, once):
            name = sandbox.migrate(old, other_node(sandbox, old), timeoutSeconds=1)
            (status,) = await sandbox.finished(name)
            other = other_sandbox.migrate(free, other_node(other_sandbox, free))
            (moved,) = await other_sandbox.finished(other)
    assert status["phase"] == "Failed"
    assert "failed calling webhook" in status["message"]
    assert moved["outcome"] == "Landed"


async def test_a_quota_that_refuses_the_temporary_budget_fails_the_migration(
    sandbox: Sandbox,
) -> None:
    sandbox.add_nodes("a", "b")
    no_surge = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    pods = sandbox.deploy("web", 2, strategy=no_surge)
    quota = {"hard": {"count/poddisruptionbudgets.policy": "0"}}
    apply(
        sandbox.cluster,
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "no-budgets", "namespace": sandbox.namespace},
            "spec": quota,
        },
    )
    await sandbox.until(
        lambda: sandbox.all("resourcequotas")[0].get("status", {}).get("used"), "it is in force"
    )
    async with controller_on(sandbox.cluster, COORDINATED) as controller:
        (status,) = await sandbox.finished(sandbox.migrate(pods[0], other_node(sandbox, pods[0])))
        await sandbox.until(lambda: controller.in_flight == 0, "no slot is taken")
    assert status["phase"] == "Failed"
    assert "exceeded quota: no-budgets" in status["message"]
    kept = {pod["metadata"]["uid"] for pod in sandbox.pods("web")}
    assert kept == {pod["metadata"]["uid"] for pod in pods}
    assert sandbox.leftovers() == []


async def test_a_status_that_cannot_be_written_holds_up_nobody(
    sandbox: Sandbox, other_sandbox: Sandbox
) -> None:
    sandbox.add_nodes("a", "b")
    other_sandbox.add_nodes("a", "b")
    (old,), (free,) = sandbox.deploy("web", 1), other_sandbox.deploy("web", 1)
    paused = sandbox.migrate(old, other_node(sandbox, old), "paused", paused=True)
    path = sandbox.path("migrations", paused) + "/status"

    def write_status() -> JsonObject:
        return sandbox.outside.patch(path, {"status": {"message": "touched"}})

    async with controller_on(sandbox.cluster, ONE_AT_A_TIME) as controller:
        with refused(sandbox, "migrations/status", write_status, "rescheduler.dev"):
            name = sandbox.migrate(old, other_node(sandbox, old))
            other = other_sandbox.migrate(free, other_node(other_sandbox, free))
            (moved,) = await other_sandbox.finished(other)
            await sandbox.until(lambda: controller.in_flight == 0, "no slot is taken")
            assert sandbox.status(name)["phase"] == "Pending"
        (status,) = await sandbox.finished(name)
    assert moved["outcome"] == "Landed"
    assert status["outcome"] == "Landed", "it was tried again"


async def test_a_handler_that_raises_fails_its_migration_and_no_other(
    sandbox: Sandbox, other_sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    sandbox.add_nodes("a", "b")
    other_sandbox.add_nodes("a", "b")
    (old,), (free,) = sandbox.deploy("web", 1), other_sandbox.deploy("web", 1)

    def fail(point: str, key: str) -> None:
        if point.startswith("before-create") and key.startswith(f"{sandbox.namespace}/"):
            raise KeyError("a word nobody expected")

    caplog.set_level(logging.ERROR, "rescheduler.controller")
    async with controller_on(sandbox.cluster, ONE_AT_A_TIME, fail) as controller:
        name = sandbox.migrate(old, other_node(sandbox, old))
        (status,) = await sandbox.finished(name)
        other = other_sandbox.migrate(free, other_node(other_sandbox, free))
        (moved,) = await other_sandbox.finished(other)
        await sandbox.until(lambda: controller.in_flight == 0, "no slot is taken")
    assert status["phase"] == "Failed"
    assert "a word nobody expected" in status["message"]
    assert moved["outcome"] == "Landed"
    assert sandbox.leftovers() == []
    assert any(record.exc_info for record in caplog.records), "the traceback is in the log"


async def test_what_the_controller_may_not_read_is_in_the_status(sandbox: Sandbox) -> None:
    """The state machine asks for Services before it creates a plain ReplicaSet's new pod."""
    sandbox.add_nodes("a", "b")
    apply(
        sandbox.cluster,
        replicaset(f"{sandbox.namespace}/web", 1, "100m", template=sandbox.here()),
    )
    (old,) = sandbox.wait_ready("web", 1)
    # Otherwise the controller would not even start without that right.
    options = msgspec.structs.replace(ONE_AT_A_TIME, leave_services_seconds=SecondsOrZero(0))
    with account_without(sandbox, "services") as token:
        async with controller_on(sandbox.cluster, options, token=token) as controller:
            (status,) = await sandbox.finished(sandbox.migrate(old, other_node(sandbox, old)))
            await sandbox.until(lambda: controller.in_flight == 0, "no slot is taken")
    assert status["phase"] == "Failed"
    assert 'cannot list resource "services"' in status["message"]
    assert sandbox.leftovers() == []


@contextmanager
def account_without(sandbox: Sandbox, resource: str) -> Iterator[str]:
    """The token of a service account that may do all that is needed except with one resource."""
    outside: OutsideClient = sandbox.outside
    name = f"without-{resource}-{sandbox.namespace}"
    rbac, roles = "rbac.authorization.k8s.io", "/apis/rbac.authorization.k8s.io/v1"
    account = {"metadata": {"name": name, "namespace": sandbox.namespace}}
    outside.create(f"/api/v1/namespaces/{sandbox.namespace}/serviceaccounts", account)
    core = ["pods", "pods/eviction", "pods/status", "nodes", "namespaces", "events"]
    core += ["persistentvolumeclaims", "persistentvolumes", "replicationcontrollers"]
    groups = {"": core} | {
        group: ["*"]
        for group in (
            "apps",
            "batch",
            "policy",
            "storage.k8s.io",
            "scheduling.k8s.io",
            "rescheduler.dev",
            "networking.k8s.io",
        )
    }
    rules = [
        {"apiGroups": [group], "resources": resources, "verbs": ["*"]}
        for group, resources in groups.items()
    ]
    outside.create(f"{roles}/clusterroles", {"metadata": {"name": name}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": sandbox.namespace}
    outside.create(
        f"{roles}/clusterrolebindings",
        {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
            "subjects": [subject],
        },
    )
    path = f"/api/v1/namespaces/{sandbox.namespace}/serviceaccounts/{name}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    yield outside.create(path, request)["status"]["token"]
    outside.delete(f"{roles}/clusterrolebindings/{name}")
    outside.delete(f"{roles}/clusterroles/{name}")
