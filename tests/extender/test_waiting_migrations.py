"""Which migration waits for which new pod: plain values in, no cluster."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from rescheduler.extender.waiting_migrations import WaitingMigrations
from rescheduler.extender.webhook.admission import AdmissionHandler
from rescheduler.labels import MIGRATION_ID
from rescheduler.migration.migration_object import (
    Migration,
    MigrationCondition,
    MigrationMeta,
    MigrationSpec,
    MigrationStatus,
    Phase,
    PodReference,
    Step,
    WorkloadReference,
)
from rescheduler.migration.moving_pod import MovingPod, PodMeta
from rescheduler.model.moves import Mode
from rescheduler.model.objects import Labels, OwnerReference
from rescheduler.model.tables.cluster_tables import ClusterTables

NOW = datetime(2026, 1, 1, 12, 0, 0, 700_000, tzinfo=UTC)
HASH = "pod-template-hash"


class Watches:
    """Stands in for the watches; a test says what they show, and what time it is."""

    def __init__(self) -> None:
        self.time = 0.0
        self.marked: list[str] = []
        self.waiting = WaitingMigrations(
            ClusterTables(),
            self,  # type: ignore[arg-type]
            lambda pod, migration: self.marked.append(pod.name),
            lambda: self.time,
        )

    def follow(self, migrations: Callable[..., None], pods: Callable[..., None]) -> None:
        self._migrations, self._pods = migrations, pods

    def migration(self, migration: Migration) -> None:
        self._migrations(migration.key, migration)

    def pod(self, meta: PodMeta) -> None:
        self._pods(meta.key, MovingPod(meta))

    def found_for(self, meta: PodMeta) -> str | None:
        """The migration that gets a new pod."""
        found = self.waiting.migration_for(meta)
        return None if found is None else found.metadata.name


@pytest.fixture
def watches() -> Watches:
    return Watches()


def evicting(name: str, kind: str = "ReplicaSet", pod: str = "web-old", **status: Any) -> Migration:
    given = {
        "phase": Phase.IN_PROGRESS,
        "step": Step.EVICTING,
        "mode": Mode.EVICT,
        "source_node": "a",
        "workload": WorkloadReference(kind, "web", "owner", template_hash="v1"),
        "conditions": (MigrationCondition("Started", "True", last_transition_time=NOW),),
        **status,
    }
    return Migration(
        MigrationMeta(name=name, namespace="shop", uid=f"uid-of-{name}"),
        MigrationSpec(PodReference(pod, f"old-of-{name}"), "b"),
        MigrationStatus(**given),
    )


def new_pod(
    name: str = "", uid: str = "", created: datetime | None = None, labels: Labels | None = None
) -> PodMeta:
    owner = OwnerReference(kind="ReplicaSet", name="web", uid="owner", controller=True)
    return PodMeta(
        name=name,
        namespace="shop",
        uid=uid,
        creation_timestamp=created,
        labels={HASH: "v1", **(labels or {})},
        owner_references=(owner,),
    )


def test_two_migrations_of_one_workload_get_a_pod_each(watches: Watches) -> None:
    watches.migration(evicting("one"))
    watches.migration(evicting("two"))
    assert {watches.found_for(new_pod()), watches.found_for(new_pod())} == {"one", "two"}
    assert watches.found_for(new_pod()) is None


def test_a_replacement_that_was_refused_and_is_created_later_is_steered_again(
    watches: Watches,
) -> None:
    watches.migration(evicting("one"))
    assert watches.found_for(new_pod()) == "one"
    assert watches.found_for(new_pod()) is None
    watches.time += 3.5
    assert watches.found_for(new_pod()) == "one"


def test_one_that_was_found_before_a_restart_is_not_replaced_by_another(watches: Watches) -> None:
    watches.pod(new_pod("web-new", "7", labels={MIGRATION_ID: "uid-of-one"}))
    watches.migration(evicting("one", step=Step.LANDING))
    assert watches.found_for(new_pod()) is None


@pytest.mark.parametrize(
    "over",
    [
        {"phase": Phase.COMPLETED, "step": Step.NONE},
        {"phase": Phase.PENDING, "step": Step.NONE},
        {"step": Step.UNDOING},
        {"mode": Mode.HANDOFF},
    ],
)
def test_nothing_is_steered_for_a_migration_that_waits_for_nothing(
    watches: Watches, over: dict[str, Any]
) -> None:
    watches.migration(evicting("one"))
    watches.migration(evicting("one", **over))
    assert watches.found_for(new_pod()) is None


def test_in_a_stateful_set_only_the_pod_of_that_name_is_steered(watches: Watches) -> None:
    watches.migration(evicting("one", "StatefulSet", "web-1"))
    assert watches.found_for(new_pod("web-10")) is None
    assert watches.found_for(new_pod("web-1")) == "one"


def test_a_pod_of_another_version_is_no_replacement(watches: Watches) -> None:
    watches.migration(evicting("one"))
    assert watches.found_for(new_pod(labels={HASH: "v2"})) is None


def test_a_pod_that_was_pending_before_is_no_replacement(watches: Watches) -> None:
    """It would be marked, and the real replacement would not be steered."""
    watches.migration(evicting("one"))
    before = new_pod("web-pending", "1", NOW - timedelta(minutes=5))
    assert watches.waiting.target_of(before) is None
    assert watches.waiting.target_of(new_pod("web-new", "2", NOW.replace(microsecond=0))) == "b"
    assert watches.marked == ["web-new"]


def review(pod: dict[str, Any], **request: Any) -> bytes:
    content = {"uid": "7", "kind": {"kind": "Pod"}, "operation": "CREATE", "object": pod, **request}
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "request": content})


def has_patch(admission: AdmissionHandler, body: bytes) -> bool:
    return "patch" in msgspec.json.decode(admission.review(body))["response"]


POD = {"metadata": msgspec.to_builtins(new_pod()), "spec": {"affinity": None}}


def test_a_dry_run_gets_the_same_response_and_changes_nothing(
    watches: Watches, caplog: pytest.LogCaptureFixture
) -> None:
    watches.migration(evicting("one"))
    admission = AdmissionHandler(watches.waiting, lambda: NOW, lambda: "")
    with caplog.at_level("INFO"):
        assert has_patch(admission, review(POD, dryRun=True))
        assert has_patch(admission, review(POD, dryRun=True))
        assert "Steered" not in caplog.text
        assert has_patch(admission, review(POD))
        assert "Steered" in caplog.text
    assert not has_patch(admission, review(POD))


def test_while_the_view_is_too_old_pods_pass_unchanged(watches: Watches) -> None:
    watches.migration(evicting("one"))
    why = "the view of the cluster is 200s old"
    admission = AdmissionHandler(watches.waiting, lambda: NOW, lambda: why)
    assert not has_patch(admission, review(POD))
    why = ""
    assert has_patch(admission, review(POD))
