"""The copy of a pod without a controller is only deleted while the original is certainly there."""

from datetime import UTC, datetime

from msgspec.structs import replace

from rescheduler.migration import migration_labels
from rescheduler.migration.migration_object import (
    Migration,
    MigrationMeta,
    MigrationSpec,
    MigrationStatus,
    Phase,
    PodReference,
    Step,
)
from rescheduler.migration.moving_pod import (
    MovingPod,
    MovingPodSpec,
    MovingPodStatus,
    PodCondition,
    PodMeta,
)
from rescheduler.migration.state_machine.actions import (
    DeletePod,
    PatchPod,
    UpdateStatus,
)
from rescheduler.migration.state_machine.machine import decide
from rescheduler.migration.state_machine.observation import (
    EvictionAnswer,
    Observation,
    QuestionAnswers,
    Refusal,
)
from rescheduler.model.moves import Mode
from rescheduler.model.objects import Condition, Node, ObjectMeta
from rescheduler.model.objects.nodes import NodeStatus
from rescheduler.settings import MigrationOptions

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def migration(step: Step, new_node: str = "b") -> Migration:
    status = MigrationStatus(
        phase=Phase.IN_PROGRESS,
        step=step,
        mode=Mode.RECREATE,
        attempts=1,
        source_node="a",
        new_pod="copy",
        new_node=new_node,
        after_undoing=Phase.PENDING,
        step_started_at=NOW,
    )
    metadata = MigrationMeta(name="m", namespace="shop", uid="mig", resource_version="1")
    return Migration(metadata, MigrationSpec(PodReference("alone", "old"), "b"), status)


def pod(name: str, node: str) -> MovingPod:
    labels = migration_labels.pod_labels(migration(Step.STARTING), migration_labels.IN_PROGRESS)
    ready = PodCondition("Ready", "True")
    return MovingPod(
        PodMeta(name=name, namespace="shop", uid="old" if name == "alone" else name, labels=labels),
        MovingPodSpec(node_name=node),
        MovingPodStatus("Running", conditions=(ready,)),
    )


ORIGINAL, COPY = pod("alone", "a"), pod("copy", "b")
GOING = replace(ORIGINAL, metadata=replace(ORIGINAL.metadata, deletion_timestamp=NOW))
UNMARKED = replace(ORIGINAL, metadata=replace(ORIGINAL.metadata, labels={}))


def action(of: Migration, original: MovingPod | None, refusals: tuple[Refusal, ...] = ()) -> object:
    target = Node(ObjectMeta(name="b"), status=NodeStatus(conditions=(Condition("Ready", "True"),)))
    allowed = QuestionAnswers(eviction=EvictionAnswer(True))
    options = MigrationOptions()
    return decide(
        Observation(
            NOW,
            of,
            options,
            allow_bare_pods=True,
            old=original,
            new=COPY,
            target=target,
            answers=allowed,
            refusals=refusals,
        )
    )


def test_the_original_is_written_on_before_its_copy_is_deleted() -> None:
    first = action(migration(Step.UNDOING), ORIGINAL)
    assert isinstance(first, PatchPod)
    assert first.name == "restore-old"
    assert isinstance(action(migration(Step.UNDOING), UNMARKED), DeletePod)


def test_the_copy_stays_if_the_original_goes_after_all() -> None:
    for original in (GOING, None):
        found = action(migration(Step.UNDOING), original)
        assert isinstance(found, PatchPod)
        assert (found.name, found.pod) == ("complete", COPY)


def test_the_copy_goes_if_the_original_went_before_anyone_had_asked_it_to() -> None:
    found = action(migration(Step.UNDOING, new_node=""), None)
    assert isinstance(found, DeletePod)
    assert found.pod == COPY


def test_the_copy_stays_if_the_server_refuses_to_restore_the_original() -> None:
    refusals = (Refusal("old", "patch of pod alone: no"),)
    found = action(migration(Step.UNDOING), ORIGINAL, refusals)
    assert isinstance(found, UpdateStatus)
    assert found.status.phase == Phase.FAILED
    assert found.status.message.endswith("; not undone: patch of pod alone: no")


def test_the_rest_is_undone_if_the_server_refuses_one_write() -> None:
    refusals = (Refusal("copy", "deletion of pod copy: no"),)
    found = action(migration(Step.UNDOING), ORIGINAL, refusals)
    assert isinstance(found, PatchPod)
    assert found.name == "restore-old"
    ended = action(migration(Step.UNDOING), UNMARKED, refusals)
    assert isinstance(ended, UpdateStatus)
    assert ended.status.phase == Phase.FAILED
