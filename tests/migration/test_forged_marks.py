"""Whoever may patch objects cannot make the controller delete them."""

import logging
import signal

import pytest

from rescheduler.labels import (
    MIGRATION_ID,
    MIGRATION_NAME,
    MIGRATION_STATUS,
    ORIGINAL_POD,
    ORIGINAL_POD_NAME,
)
from rescheduler.migration.leftover_cleanup import UNPROVEN
from testcluster.applying import apply
from testcluster.builders import budget, pod
from testcluster.client import JsonObject
from tests.migration.killed_controllers import controller
from tests.migration.support import Sandbox, controller_on, is_ready, node_of, other_node


def forged_marks(migration: str = "never-was", uid: str = "any") -> JsonObject:
    """What a migration writes on its new pod, as far as a patch of the pod can write it."""
    return {
        "labels": {MIGRATION_ID: uid, MIGRATION_STATUS: "in-progress"},
        "annotations": {
            MIGRATION_NAME: migration,
            ORIGINAL_POD: "some-uid",
            ORIGINAL_POD_NAME: "other",
        },
    }


def bare_pod(sandbox: Sandbox, name: str) -> JsonObject:
    body = pod(f"{sandbox.namespace}/{name}", cpu="100m", labels={"app": name}, **sandbox.here())
    del body["status"]
    apply(sandbox.cluster, body)
    (found,) = sandbox.wait_ready(name, 1)
    return found


async def test_a_pod_is_not_deleted_because_of_labels_and_annotations(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a")
    victim = bare_pod(sandbox, "victim")
    sandbox.outside.patch(sandbox.path("pods", "victim"), {"metadata": forged_marks()})
    async with controller_on(sandbox.cluster):
        await sandbox.until(lambda: not sandbox.leftovers(), "the forged labels are removed")
    (left,) = sandbox.pods()
    assert left["metadata"]["uid"] == victim["metadata"]["uid"]
    assert "deletionTimestamp" not in left["metadata"]


@pytest.mark.parametrize("gone", [True, False], ids=["migration-gone", "migration-kept"])
async def test_a_pod_that_was_moved_is_not_ours_any_more(sandbox: Sandbox, gone: bool) -> None:
    """Somebody orphans it, and labels it as if its migration had never ended."""
    sandbox.add_nodes("a", "b")
    (old,) = sandbox.deploy("web", 1)
    async with controller_on(sandbox.cluster):
        name = sandbox.migrate(old, other_node(sandbox, old), mode="Handoff")
        (status,) = await sandbox.finished(name)
        moved = sandbox.pod(status["newPod"])
        assert moved is not None
        uid = moved["metadata"]["labels"][MIGRATION_ID]
        if gone:
            sandbox.outside.delete(sandbox.path("migrations", name))
        orphaned = {**forged_marks(name, uid), "ownerReferences": None}
        orphaned["labels"]["pod-template-hash"] = None
        sandbox.outside.patch(sandbox.path("pods", status["newPod"]), {"metadata": orphaned})
        await sandbox.until(lambda: not sandbox.leftovers(), "the forged labels are removed")
    left = sandbox.pod(status["newPod"])
    assert left is not None
    assert left["metadata"]["uid"] == moved["metadata"]["uid"]
    assert "deletionTimestamp" not in left["metadata"]


async def test_a_budget_is_not_deleted_because_of_a_label(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    body = budget(f"{sandbox.namespace}/shop", max_unavailable=0)
    body["metadata"]["labels"] = {MIGRATION_ID: "any"}
    apply(sandbox.cluster, body)

    def is_left_alone() -> bool:
        key = f"{sandbox.namespace}/shop"
        return any(
            (record.__dict__.get("budget"), record.__dict__.get("why")) == (key, UNPROVEN)
            for record in caplog.records
        )

    with caplog.at_level(logging.WARNING):
        async with controller_on(sandbox.cluster):
            await sandbox.until(is_left_alone, "it is looked at")
    assert len(sandbox.all("poddisruptionbudgets")) == 1


@pytest.mark.parametrize("point", ["after-create-new", "after-open-gate", "after-lower-cost"])
async def test_a_new_pod_is_deleted_although_its_migration_was_while_no_controller_ran(
    sandbox: Sandbox, point: str
) -> None:
    sandbox.add_nodes("a", "b")
    (old,) = sandbox.deploy("web", 1)
    name = sandbox.migrate(old, other_node(sandbox, old), mode="Handoff")
    killed = controller(sandbox.cluster, point, f"{sandbox.namespace}/{name}")
    assert killed.wait(timeout=120) == -signal.SIGKILL
    killed.communicate()
    assert len(sandbox.pods()) == 2
    sandbox.outside.delete(sandbox.path("migrations", name))
    async with controller_on(sandbox.cluster):
        await sandbox.until(
            lambda: (
                [each["metadata"]["uid"] for each in sandbox.pods()] == [old["metadata"]["uid"]]
            ),
            "only the old pod is left",
        )
        await sandbox.until(lambda: not sandbox.leftovers(), "it is restored")
    (left,) = sandbox.pods()
    assert is_ready(left)
    assert node_of(left) == node_of(old)
