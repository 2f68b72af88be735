"""Which migration waits for which new pod: plain values in, no cluster."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from rescheduler.extender.waiting_migrations import WaitingMigrations
from rescheduler.extender.webhook.admission import Admission
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


class Shown:
    """What watches show, and a clock."""

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
def shown() -> Shown:
    return Shown()


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
    name: str = "", uid: str = "", made: datetime | None = None, labels: Labels | None = None
) -> PodMeta:
    owner = OwnerReference(kind="ReplicaSet", name="web", uid="owner", controller=True)
    return PodMeta(
        name=name,
        namespace="shop",
        uid=uid,
        creation_timestamp=made,
        labels={HASH: "v1", **(labels or {})},
        owner_references=(owner,),
    )


def test_two_migrations_of_one_workload_get_a_pod_each(shown: Shown) -> None:
    shown.migration(evicting("one"))
    shown.migration(evicting("two"))
    assert {shown.found_for(new_pod()), shown.found_for(new_pod())} == {"one", "two"}
    assert shown.found_for(new_pod()) is None


def test_a_replacement_that_was_refused_and_is_made_later_is_steered_again(shown: Shown) -> None:
    shown.migration(evicting("one"))
    assert shown.found_for(new_pod()) == "one"
    assert shown.found_for(new_pod()) is None
    shown.time += 3.5
    assert shown.found_for(new_pod()) == "one"


def test_one_that_was_found_before_a_restart_is_not_replaced_by_another(shown: Shown) -> None:
    shown.pod(new_pod("web-new", "7", labels={MIGRATION_ID: "uid-of-one"}))
    shown.migration(evicting("one", step=Step.LANDING))
    assert shown.found_for(new_pod()) is None


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
    shown: Shown, over: dict[str, Any]
) -> None:
    shown.migration(evicting("one"))
    shown.migration(evicting("one", **over))
    assert shown.found_for(new_pod()) is None


def test_in_a_stateful_set_only_the_pod_of_that_name_is_steered(shown: Shown) -> None:
    shown.migration(evicting("one", "StatefulSet", "web-1"))
    assert shown.found_for(new_pod("web-10")) is None
    assert shown.found_for(new_pod("web-1")) == "one"


def test_a_pod_of_another_version_is_no_replacement(shown: Shown) -> None:
    shown.migration(evicting("one"))
    assert shown.found_for(new_pod(labels={HASH: "v2"})) is None


def test_a_pod_that_has_waited_for_a_place_since_before_is_no_replacement(shown: Shown) -> None:
    """It would be marked, and the real replacement would go where it likes."""
    shown.migration(evicting("one"))
    before = new_pod("web-pending", "1", NOW - timedelta(minutes=5))
    assert shown.waiting.target_of(before) is None
    assert shown.waiting.target_of(new_pod("web-new", "2", NOW.replace(microsecond=0))) == "b"
    assert shown.marked == ["web-new"]


def review(pod: dict[str, Any], **request: Any) -> bytes:
    asked = {"uid": "7", "kind": {"kind": "Pod"}, "operation": "CREATE", "object": pod, **request}
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "request": asked})


def has_patch(admission: Admission, body: bytes) -> bool:
    return "patch" in msgspec.json.decode(admission.review(body))["response"]


POD = {"metadata": msgspec.to_builtins(new_pod()), "spec": {"affinity": None}}


def test_a_dry_run_gets_the_same_answer_and_changes_nothing(
    shown: Shown, caplog: pytest.LogCaptureFixture
) -> None:
    shown.migration(evicting("one"))
    admission = Admission(shown.waiting, lambda: NOW, lambda: "")
    with caplog.at_level("INFO"):
        assert has_patch(admission, review(POD, dryRun=True))
        assert has_patch(admission, review(POD, dryRun=True))
        assert "Steered" not in caplog.text
        assert has_patch(admission, review(POD))
        assert "Steered" in caplog.text
    assert not has_patch(admission, review(POD))


def test_while_too_little_is_known_pods_are_let_pass(shown: Shown) -> None:
    shown.migration(evicting("one"))
    why = "what is known of the cluster is 200s old"
    admission = Admission(shown.waiting, lambda: NOW, lambda: why)
    assert not has_patch(admission, review(POD))
    why = ""
    assert has_patch(admission, review(POD))
