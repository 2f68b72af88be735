"""Which migration waits for which new pod: plain values in, no cluster."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from rescheduler.extender.scheduling_request import scheduling_request
from rescheduler.extender.waiting_migrations import WaitingMigrations
from rescheduler.extender.webhook.admission import AdmissionHandler, request_in
from rescheduler.labels import MIGRATION_ID
from rescheduler.migration.migration_object import (
    Migration,
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
from rescheduler.model.objects import Labels, OwnerReference, Pod
from rescheduler.model.tables.cluster_tables import ClusterTables
from testcluster.builders import pod
from tests.extender.extender_requests import with_names

NOW = datetime(2026, 1, 1, 12, 0, 0, 700_000, tzinfo=UTC)
HASH = "pod-template-hash"


class Watches:
    """Stands in for the watches; a test says what they show, and what time it is."""

    def __init__(self) -> None:
        self.time = 0.0
        self.marked: list[str] = []
        self.tables = ClusterTables()
        self.waiting = WaitingMigrations(
            self.tables,
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
        **status,
    }
    return Migration(
        MigrationMeta(
            name=name,
            namespace="shop",
            uid=f"uid-of-{name}",
            creation_timestamp=NOW.replace(microsecond=0),
        ),
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


def test_a_replacement_is_steered_on_though_the_scheduler_has_not_seen_its_mark(
    watches: Watches,
) -> None:
    """Between filter and prioritize, the mark is written, and our watch shows it."""
    watches.migration(evicting("one"))
    seen_by_scheduler = new_pod("web-new", "7", NOW)
    assert watches.waiting.target_of(seen_by_scheduler) == "b"
    watches.pod(new_pod("web-new", "7", NOW, labels={MIGRATION_ID: "uid-of-one"}))
    assert watches.waiting.target_of(seen_by_scheduler) == "b"
    assert watches.marked == ["web-new"]
    assert watches.waiting.target_of(new_pod("web-other", "8", NOW)) is None


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


def test_pods_of_other_namespaces_have_no_part_in_a_migration(watches: Watches) -> None:
    """Anyone may write the uid of somebody else's migration or ReplicaSet into pods of theirs."""
    watches.migration(evicting("one"))
    mark = {MIGRATION_ID: "uid-of-one"}
    watches.pod(replace(new_pod("strange", "1", labels=mark), namespace="elsewhere"))
    assert watches.found_for(replace(new_pod(), namespace="elsewhere")) is None
    for labels in ({}, mark):
        strange = replace(new_pod("strange", "1", labels=labels), namespace="elsewhere")
        assert watches.waiting.target_of(strange) is None
    assert watches.found_for(new_pod()) == "one"


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


def test_a_pod_that_was_created_before_the_eviction_is_no_replacement(watches: Watches) -> None:
    evicted_at = NOW.replace(microsecond=0) + timedelta(minutes=5)
    watches.migration(evicting("one", step=Step.LANDING, evicted_at=evicted_at))
    assert watches.found_for(new_pod("web-early", "1", NOW + timedelta(minutes=4))) is None
    assert watches.found_for(new_pod("web-new", "2", evicted_at)) == "one"


def review(pod: dict[str, Any], **request: Any) -> bytes:
    content = {
        "uid": "7",
        "kind": {"kind": "Pod"},
        "namespace": "shop",
        "operation": "CREATE",
        "object": pod,
        **request,
    }
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "request": content})


def has_patch(admission: AdmissionHandler, body: bytes, **who: bool) -> bool:
    return "patch" in msgspec.json.decode(admission.review(request_in(body), **who))["response"]


POD: dict[str, Any] = {"metadata": msgspec.to_builtins(new_pod()), "spec": {"affinity": None}}


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


def test_a_review_of_a_stranger_keeps_no_migration_from_its_pod(watches: Watches) -> None:
    watches.migration(evicting("one"))
    admission = AdmissionHandler(watches.waiting, lambda: NOW, lambda: "")
    for _ in range(3):
        assert has_patch(admission, review(POD), is_from_api_server=False)
    assert has_patch(admission, review(POD), is_from_api_server=True)
    assert not has_patch(admission, review(POD), is_from_api_server=False), "now it is reserved"


def test_without_reserving_a_target_is_found_and_nothing_is_marked(watches: Watches) -> None:
    watches.migration(evicting("one"))
    assert watches.waiting.target_of(new_pod("strange", "1"), reserve=False) == "b"
    assert watches.waiting.target_of(new_pod("web-new", "2")) == "b"
    assert watches.marked == ["web-new"]


def test_only_the_controller_of_a_pod_is_looked_at() -> None:
    """Anyone may send a pod with a hundred thousand owners."""
    owners = [{"uid": str(number)} for number in range(1_000)]
    body = {**POD, "metadata": {**POD["metadata"], "ownerReferences": owners}}
    reviewed, asked = request_in(review(body)).object, scheduling_request(with_names(body, []), 0)
    assert reviewed is not None
    assert reviewed.metadata.owner_references == asked.pod.owner_references == ()
    controlled = {**POD["metadata"], "ownerReferences": [*owners, {"uid": "c", "controller": True}]}
    body = {**POD, "metadata": {**controlled, "name": "web-new"}}
    reviewed, asked = request_in(review(body)).object, scheduling_request(with_names(body, []), 0)
    assert reviewed is not None
    for meta in (reviewed.metadata, asked.pod):
        assert [owner.uid for owner in meta.owner_references] == ["c"]


def test_while_the_view_is_too_old_pods_pass_unchanged(watches: Watches) -> None:
    watches.migration(evicting("one"))
    why = "the view of the cluster is 200s old"
    admission = AdmissionHandler(watches.waiting, lambda: NOW, lambda: why)
    assert not has_patch(admission, review(POD))
    why = ""
    assert has_patch(admission, review(POD))


def test_the_scheduler_keeps_the_room_of_a_new_pod_that_is_nominated(watches: Watches) -> None:
    old = pod("shop/web-old", on="a", cpu="1")
    watches.tables.pods.put(msgspec.convert(old, Pod))
    watches.migration(evicting("one", mode=Mode.HANDOFF, step=Step.STARTING))
    labels = {MIGRATION_ID: "uid-of-one"}
    watches.pod(new_pod("web-new", "7", labels=labels))
    stranger = new_pod("stranger", "9")
    (promise,) = watches.waiting.promises_to_others(stranger)
    assert (promise.node, promise.amounts["cpu"]) == ("b", 1000)
    assert not promise.kept_by_scheduler
    gated = pod("shop/web-new", cpu="1", labels=labels)
    gated["status"]["nominatedNodeName"] = "b"
    watches.tables.pods.put(msgspec.convert(gated, Pod))
    (promise,) = watches.waiting.promises_to_others(stranger)
    assert promise.kept_by_scheduler
