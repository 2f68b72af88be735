"""A watch that lags behind does not mislead a migration about its own pod."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from rescheduler.kube.api_server import object_path
from rescheduler.kube.live_store import LiveStore
from rescheduler.migration.migration_labels import label_old_pod_patch
from rescheduler.migration.migration_object import MIGRATION, Migration
from rescheduler.migration.migration_watches import MigrationWatches
from rescheduler.migration.moving_pod import MovingPod
from rescheduler.migration.observer import Observer
from rescheduler.migration.state_machine.actions import Ask, Question, UpdateStatus
from rescheduler.migration.state_machine.machine import decide
from rescheduler.model.kinds import POD
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.settings import Policy
from testcluster.applying import apply
from testcluster.builders import pod
from tests.migration.support import Sandbox, client_for, node_of, set_running

OWNER = {"apiVersion": "example.com/v1", "kind": "CloneSet"}


@pytest.mark.parametrize("grace_seconds", [30, 0])
async def test_a_pod_that_was_evicted_is_not_taken_for_one_that_still_waits(
    sandbox: Sandbox, grace_seconds: int
) -> None:
    """The time of the step is over, so the move would be given up if the pod were still there."""
    # Nobody plays the node: a pod with a grace period stays and is terminating.
    source, target = sandbox.add_nodes("a", "b", managed=False)
    name = create_pod(sandbox)
    await sandbox.until(lambda: node_of(sandbox.pod(name) or {"spec": {}}), "it is bound")
    old = sandbox.pod(name)
    assert old is not None
    set_running(sandbox, old)
    migration_name = sandbox.migrate(old, target)
    an_hour_ago = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
    sandbox.outside.patch(
        f"{sandbox.path('migrations', migration_name)}/status",
        {"status": evicting_since(an_hour_ago, source)},
    )
    async with client_for(sandbox.cluster) as client:
        tables = ClusterTables()
        store = LiveStore(client, tables)
        await store.list_once()
        key = f"{sandbox.namespace}/{migration_name}"
        migration = await client.get(object_path(MIGRATION, key), Migration)
        path = object_path(POD, f"{sandbox.namespace}/{name}")
        labels = label_old_pod_patch(await client.get(path, MovingPod), migration, an_hour_ago)
        labelled = await client.patch(path, labels)
        # These watches never start, so all that is known of the pod is what is recorded here.
        watches = MigrationWatches(client, store, tables)
        watches.pods.record(labelled.decode(MovingPod))
        observer = Observer(client, watches)
        sandbox.outside.delete(f"{sandbox.path('pods', name)}?gracePeriodSeconds={grace_seconds}")

        o = await observer.observe(migration, Policy())
        assert o.is_old_running
        assert decide(o) == Ask(Question.SIBLINGS)
        o = await observer.answer(Question.SIBLINGS, o)

    assert not o.is_old_running
    action = decide(o)
    assert isinstance(action, UpdateStatus)
    assert action.name == "landing"


def create_pod(sandbox: Sandbox) -> str:
    owner = {**OWNER, "metadata": {"name": "clone", "uid": f"uid-of-clone-in-{sandbox.namespace}"}}
    labels = {"app": "clone"}
    body = pod(
        f"{sandbox.namespace}/clone-0", cpu="100m", labels=labels, owner=owner, **sandbox.here()
    )
    del body["status"]
    apply(sandbox.cluster, body)
    return "clone-0"


def evicting_since(started: datetime, source: str) -> dict[str, object]:
    return {
        "phase": "InProgress",
        "mode": "Evict",
        "step": "Evicting",
        "attempts": 1,
        "sourceNode": source,
        "stepStartedAt": msgspec.to_builtins(started),
    }
