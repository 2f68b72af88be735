"""The state machine decides from plain values: no cluster, no clock."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from rescheduler.labels import HANDOFF, MIRROR_POD
from rescheduler.migration import migration_labels
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
from rescheduler.migration.moving_pod import (
    MovingPod,
    MovingPodSpec,
    MovingPodStatus,
    PodCondition,
    PodMeta,
)
from rescheduler.migration.state_machine.actions import (
    Ask,
    DeleteBudget,
    DeleteMigration,
    DeletePod,
    PatchPod,
    UpdateStatus,
    Wait,
)
from rescheduler.migration.state_machine.machine import decide
from rescheduler.migration.state_machine.observation import (
    EvictionAnswer,
    Observation,
    QuestionAnswers,
)
from rescheduler.model.moves import Mode, Outcome
from rescheduler.model.objects import Condition, Node, ObjectMeta, OwnerReference
from rescheduler.model.objects.nodes import NodeStatus
from rescheduler.model.objects.workloads import BudgetStatus, PodDisruptionBudget
from rescheduler.settings import MigrationOptions

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OPTIONS = MigrationOptions()
STATEFUL = OwnerReference(kind="StatefulSet", name="db", uid="sts", controller=True)


def migration(**status: object) -> Migration:
    return Migration(
        MigrationMeta(name="m", namespace="shop", uid="mig", resource_version="1"),
        MigrationSpec(PodReference("db-0", "old"), "b"),
        MigrationStatus(**status),  # type: ignore[arg-type]
    )


def pod(uid: str = "old", node: str = "a", labels: dict[str, str] | None = None) -> MovingPod:
    return MovingPod(
        PodMeta(
            name="db-0",
            namespace="shop",
            uid=uid,
            labels=labels or {},
            owner_references=(STATEFUL,),
            creation_timestamp=NOW,
        ),
        MovingPodSpec(node_name=node),
        MovingPodStatus("Running", conditions=(PodCondition("Ready", "True"),)),
    )


def node(name: str = "b") -> Node:
    ready = Condition("Ready", "True")
    return Node(ObjectMeta(name=name), status=NodeStatus(conditions=(ready,)))


def observed(of: Migration, **more: object) -> Observation:
    given = {"old": pod(), "target": node(), **more}
    return Observation(NOW, of, OPTIONS, **given)  # type: ignore[arg-type]


def test_budgets_are_asked_before_anything_is_changed() -> None:
    assert decide(observed(migration())) == Ask("eviction")  # type: ignore[arg-type]
    refused = QuestionAnswers(eviction=EvictionAnswer(False, by_budget=True, text="budget db"))
    assert decide(observed(migration(), answers=refused)) == Wait(message="waiting: budget db")


def test_an_attempt_is_recorded_before_anything_is_changed() -> None:
    allowed = QuestionAnswers(eviction=EvictionAnswer(True))
    action = decide(observed(migration(), answers=allowed))
    assert isinstance(action, UpdateStatus)
    assert (action.status.phase, action.status.step) == (Phase.IN_PROGRESS, Step.EVICTING)
    assert (action.status.attempts, action.status.source_node) == (1, "a")


def test_the_same_observation_gives_the_same_decision() -> None:
    o = observed(migration(), answers=QuestionAnswers(eviction=EvictionAnswer(True)))
    assert decide(o) == decide(o)


def test_another_pod_of_the_same_name_is_not_moved() -> None:
    action = decide(observed(migration(), old=None))
    assert isinstance(action, UpdateStatus)
    assert action.status.phase == Phase.CANCELLED
    assert "uid old" in action.status.message


@pytest.mark.parametrize(
    ("annotations", "restart_policy", "reason"),
    [
        ({HANDOFF: "never"}, "Always", f"cannot be copied: its annotation {HANDOFF} is never"),
        ({}, "Never", "runs to completion: a copy would do its work twice"),
        ({}, "OnFailure", "runs to completion: a copy would do its work twice"),
        ({MIRROR_POD: ""}, "Always", "is a static pod: its node runs it from a file"),
    ],
)
def test_a_bare_pod_that_must_not_run_twice_is_not_copied(
    annotations: dict[str, str], restart_policy: str, reason: str
) -> None:
    bare = MovingPod(
        PodMeta(name="db-0", namespace="shop", uid="old", annotations=annotations),
        MovingPodSpec(node_name="a", restart_policy=restart_policy),
        MovingPodStatus("Running", conditions=(PodCondition("Ready", "True"),)),
    )
    action = decide(observed(migration(), old=bare, allow_bare_pods=True))
    assert isinstance(action, UpdateStatus)
    assert action.status.phase == Phase.FAILED
    assert action.status.message == f"pod db-0 {reason}"


def test_a_migration_waits_and_changes_nothing_while_a_limit_is_reached() -> None:
    assert decide(observed(migration(), reached_limit="20 of 20")) == Wait()


def test_a_pod_that_another_migration_moves_is_waited_for() -> None:
    other = migration_labels.pod_labels(migration(), migration_labels.IN_PROGRESS) | {
        "scheduler.alpha.kubernetes.io/migration-id": "other"
    }
    action = decide(observed(migration(), old=pod(labels=other)))
    assert isinstance(action, Wait)
    assert "is moving the pod" in action.message


def in_progress(**more: object) -> Migration:
    workload = WorkloadReference("StatefulSet", "db", "sts")
    return migration(
        phase=Phase.IN_PROGRESS,
        mode=Mode.EVICT,
        attempts=1,
        workload=workload,
        step_started_at=NOW,
        **more,
    )


def test_a_rollback_restores_the_pod_before_it_ends() -> None:
    of = in_progress(step=Step.UNDOING, after_undoing=Phase.FAILED, message="because")
    labelled = pod(labels=migration_labels.pod_labels(of, migration_labels.IN_PROGRESS))
    action = decide(observed(of, old=labelled))
    assert isinstance(action, PatchPod)
    assert action.name == "restore-old"
    action = decide(observed(of))
    assert isinstance(action, UpdateStatus)
    assert (action.status.phase, action.status.message) == (Phase.FAILED, "because")


def test_a_temporary_budget_that_an_interrupted_eviction_used_up_is_deleted() -> None:
    of = in_progress(step=Step.EVICTING)
    labelled = pod(labels=migration_labels.pod_labels(of, migration_labels.IN_PROGRESS))
    refused = QuestionAnswers(eviction=EvictionAnswer(False, by_budget=True, text="budget db"))
    own = PodDisruptionBudget(
        ObjectMeta(name="own", namespace="shop", uid="b"),
        status=BudgetStatus(observed_generation=1, disrupted_pods={"db-0": "2026-01-01T00:00:00Z"}),
    )
    action = decide(observed(of, old=labelled, own_budget=own, answers=refused))
    assert action == DeleteBudget("delete-budget", "shop/own", "b")
    used_by_another = msgspec.structs.replace(own, status=BudgetStatus(observed_generation=1))
    action = decide(observed(of, old=labelled, own_budget=used_by_another, answers=refused))
    assert isinstance(action, Wait)


def test_a_rollback_never_deletes_a_pod_that_has_a_controller() -> None:
    of = in_progress(step=Step.UNDOING, after_undoing=Phase.FAILED)
    adopted = pod("new", "b", migration_labels.pod_labels(of, migration_labels.IN_PROGRESS))
    assert not isinstance(decide(observed(of, new=adopted)), DeletePod)


def test_failures_are_retried_with_growing_delays_and_not_for_ever() -> None:
    for failures, expected in ((0, 10), (1, 20), (2, 40)):
        of = in_progress(
            step=Step.UNDOING, after_undoing=Phase.PENDING, failures=failures + 1, message="x"
        )
        action = decide(observed(of))
        assert isinstance(action, UpdateStatus)
        assert action.status.retry_at == NOW + timedelta(seconds=expected)
    broken = msgspec.structs.replace(node(), status=NodeStatus())
    action = decide(observed(in_progress(step=Step.EVICTING, failures=3), target=broken))
    assert isinstance(action, UpdateStatus)
    assert action.status.after_undoing == Phase.FAILED


def test_a_finished_migration_is_kept_for_a_while() -> None:
    finished = {"phase": Phase.COMPLETED, "outcome": Outcome.LANDED}
    assert decide(observed(migration(**finished, finished_at=NOW))) == Wait(3600)
    assert (
        decide(observed(migration(**finished, finished_at=NOW - timedelta(hours=1))))
        == DeleteMigration()
    )
