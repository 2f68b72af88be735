"""New pods whose Migration was deleted stay only where nobody would bring them back."""

import logging
from datetime import UTC, datetime

import pytest

from rescheduler.labels import MIGRATION_ID, MIGRATION_NAME, MIGRATION_STATUS, ORIGINAL_POD
from rescheduler.log_context import MigrationFields
from rescheduler.migration.leftover_cleanup import cleanup_action
from rescheduler.migration.moving_pod import MovingPod, MovingPodSpec, PodMeta
from rescheduler.migration.state_machine.eviction import budget_name
from rescheduler.model.objects import SchedulingGate
from testcluster.applying import apply
from testcluster.builders import budget, pod
from testcluster.client import JsonObject
from tests.kube.faultproxy import FaultProxy, answer_with
from tests.migration.support import Sandbox, controller_on, is_ready, other_node

FAILED = "Failed to reconcile an object"
CLEANED_UP = "Cleaned up a leftover disruption budget"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
ORIGINAL = MovingPod(PodMeta(name="solo", uid="old"))
GOING = MovingPod(PodMeta(name="solo", uid="old", deletion_timestamp=NOW))


def new_pod(node: str = "", generate_name: str = "", gates: tuple[str, ...] = ()) -> MovingPod:
    metadata = PodMeta(
        name="rescheduled-solo-1",
        generate_name=generate_name,
        labels={MIGRATION_ID: "gone", MIGRATION_STATUS: "in-progress"},
        annotations={ORIGINAL_POD: "old"},
    )
    return MovingPod(
        metadata, MovingPodSpec(node, scheduling_gates=tuple(map(SchedulingGate, gates)))
    )


def test_only_a_copy_that_has_a_node_and_no_original_is_kept() -> None:
    for original in (None, GOING):
        assert cleanup_action(new_pod("a"), original, NOW).name == "keep-leftover"
        assert cleanup_action(new_pod(), original, NOW).name == "delete-leftover"
        assert cleanup_action(new_pod(gates=("queue",)), original, NOW).name == "delete-leftover"
    assert cleanup_action(new_pod("a"), ORIGINAL, NOW).name == "delete-leftover"


def test_a_replica_with_the_name_of_a_copy_is_not_kept() -> None:
    replica = new_pod("a", generate_name="rescheduled-solo-")
    assert cleanup_action(replica, None, NOW).name == "delete-leftover"


async def interrupt_move(sandbox: Sandbox, old: JsonObject, interruption: str) -> None:
    """Delete the Migration and the old pod after one write, and wait until the new pod is gone."""
    deleted: list[str] = []

    def delete(point: str, key: str) -> None:
        if point == interruption and not deleted:
            migration = key.partition("/")[2]
            deleted.append(sandbox.status(migration)["newPod"])
            sandbox.outside.delete(sandbox.path("migrations", migration))
            sandbox.outside.delete(sandbox.path("pods", old["metadata"]["name"]))

    async with controller_on(sandbox.cluster, reached=delete, allow_bare_pods=True):
        sandbox.migrate(old, other_node(sandbox, old))
        await sandbox.until(lambda: deleted, "it is interrupted")
        await sandbox.until(lambda: sandbox.pod(deleted[0]) is None, "the new pod is deleted")


@pytest.mark.parametrize("interruption", ["after-create-copy", "after-nominate"])
async def test_a_copy_that_was_never_placed_goes_with_its_original(
    sandbox: Sandbox, interruption: str
) -> None:
    sandbox.add_nodes("a", "b")
    body = pod(f"{sandbox.namespace}/solo", cpu="100m", labels={"app": "solo"}, **sandbox.here())
    del body["status"]
    apply(sandbox.cluster, body)
    (old,) = sandbox.wait_ready("solo", 1)
    await interrupt_move(sandbox, old, interruption)
    await sandbox.until(lambda: not sandbox.pods(), "none is left")


@pytest.mark.parametrize("interruption", ["after-create-new", "after-nominate"])
async def test_a_new_replica_goes_whatever_its_deployment_is_called(
    sandbox: Sandbox, interruption: str
) -> None:
    sandbox.add_nodes("a", "b")
    (old,) = sandbox.deploy("rescheduled-web", 1)
    await interrupt_move(sandbox, old, interruption)
    await sandbox.until(
        lambda: [is_ready(found) for found in sandbox.pods()] == [True], "it is replaced"
    )
    (replacement,) = sandbox.pods()
    assert replacement["metadata"]["ownerReferences"] == old["metadata"]["ownerReferences"]
    assert sandbox.leftovers() == []


async def test_lines_about_a_leftover_budget_name_its_migration(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    name = budget_name("gone")
    key = f"{sandbox.namespace}/{name}"
    left = budget(key, max_unavailable=1)
    left["metadata"]["labels"] = {MIGRATION_ID: "gone", MIGRATION_STATUS: "in-progress"}
    left["metadata"]["annotations"] = {MIGRATION_NAME: "old-move"}
    apply(sandbox.cluster, left)
    path = sandbox.path("poddisruptionbudgets", name)
    cluster = sandbox.cluster
    async with FaultProxy(cluster.server, str(cluster.ca_file)) as proxy:
        proxy.next(
            lambda request: (request.method, request.path) == ("DELETE", path), answer_with(403)
        )
        with caplog.filtering(MigrationFields()), caplog.at_level(logging.INFO):
            async with controller_on(cluster, server=proxy.url):
                await sandbox.until(lambda: not sandbox.leftovers(), "the budget is deleted")
                await sandbox.until(lambda: CLEANED_UP in caplog.messages, "it is logged")
    lines = [
        (record.message, record.__dict__.get("migration"), record.__dict__.get("migration_uid"))
        for record in caplog.records
        if key in (record.__dict__.get("key"), record.__dict__.get("budget"))
    ]
    own = f"{sandbox.namespace}/old-move", "gone"
    assert lines == [(FAILED, *own), (CLEANED_UP, *own)]
