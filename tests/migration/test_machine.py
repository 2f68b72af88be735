"""The state machine decides from plain values: no cluster, no clock."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from rescheduler.controller.drain.drain_outcomes import is_held_up
from rescheduler.labels import (
    CREATED_BY_US,
    DELETION_COST,
    HANDOFF,
    MIRROR_POD,
    PLACING_GATE,
    PREVIOUS_DELETION_COST,
)
from rescheduler.migration import migration_labels
from rescheduler.migration.crd import WAITING_TO_START
from rescheduler.migration.migration_object import (
    OLD_POD_ENDED,
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
    EvictPod,
    PatchPod,
    Question,
    UpdateStatus,
    Wait,
)
from rescheduler.migration.state_machine.machine import decide
from rescheduler.migration.state_machine.observation import (
    EvictionAnswer,
    Observation,
    PodId,
    QuestionAnswers,
    Refusal,
    ReplicaCounts,
    TargetAnswer,
    WorkloadPods,
)
from rescheduler.migration.workload_objects import (
    ObservedWorkload,
    RawPodTemplate,
    TemplateMeta,
)
from rescheduler.model.moves import Mode, Outcome
from rescheduler.model.objects import (
    Condition,
    Identity,
    LabelSelector,
    Node,
    ObjectMeta,
    OwnerReference,
    ReplicaSet,
)
from rescheduler.model.objects.nodes import NodeStatus
from rescheduler.model.objects.pods import SchedulingGate
from rescheduler.model.objects.workloads import BudgetStatus, PodDisruptionBudget
from rescheduler.settings import MigrationOptions

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OPTIONS = MigrationOptions()
WHOLE = WorkloadPods(active=1)
SICK = PodId("x", "db-1")
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


def test_siblings_and_budgets_are_asked_before_anything_is_changed() -> None:
    assert decide(observed(migration())) == Ask(Question.SIBLINGS)
    whole = QuestionAnswers(siblings=WHOLE)
    assert decide(observed(migration(), answers=whole)) == Ask(Question.EVICTION)
    refused = QuestionAnswers(
        siblings=WHOLE, eviction=EvictionAnswer(False, by_budget=True, text="budget db")
    )
    assert decide(observed(migration(), answers=refused)) == Wait(message="waiting: budget db")


def test_nothing_is_evicted_while_the_workload_lacks_a_ready_pod() -> None:
    by_status = decide(observed(migration(), replicas=ReplicaCounts(desired=3, ready=2)))
    assert isinstance(by_status, Wait)
    assert by_status.message == "waiting: StatefulSet db has 2 of 3 pods Ready"
    counts = ReplicaCounts(desired=3, ready=3)
    for siblings, reason in (
        (WorkloadPods(2), "StatefulSet db has 2 pods of 3"),
        (
            WorkloadPods(3, not_ready=(PodId("x", "db-1"),)),
            "pod db-1 of StatefulSet db is not Ready",
        ),
    ):
        answers = QuestionAnswers(siblings=siblings, eviction=EvictionAnswer(True))
        for of in (migration(), in_progress(step=Step.EVICTING)):
            labels = migration_labels.pod_labels(of, migration_labels.IN_PROGRESS)
            action = decide(observed(of, old=pod(labels=labels), replicas=counts, answers=answers))
            assert isinstance(action, Wait)
            assert action.message == f"waiting: {reason}"


def test_a_pod_is_not_evicted_once_its_controller_would_not_replace_it() -> None:
    ending = "StatefulSet db is being deleted"
    allowed = QuestionAnswers(siblings=WHOLE, eviction=EvictionAnswer(True))
    pending = decide(observed(migration(), workload_ending=ending, answers=allowed))
    assert isinstance(pending, Wait)
    assert pending.message == f"waiting: {ending}"
    evicting = migration(phase=Phase.IN_PROGRESS, mode=Mode.EVICT, step=Step.EVICTING)
    undoing = decide(observed(evicting, workload_ending=ending, answers=allowed))
    assert isinstance(undoing, UpdateStatus)
    assert (undoing.name, undoing.status.message) == ("undo", ending)
    # What is evicted already is followed to its end.
    landing = migration(phase=Phase.IN_PROGRESS, mode=Mode.EVICT, step=Step.LANDING)
    followed = decide(observed(landing, old=None, workload_ending=ending))
    assert isinstance(followed, UpdateStatus)
    assert followed.name == "old-ended"


def test_a_workload_of_unknown_kind_is_not_taken_for_whole_when_pods_were_lost() -> None:
    for siblings, unreplaced_from, reason in (
        (WorkloadPods(0), 0, "no pod of StatefulSet db was found, not even this one"),
        (WorkloadPods(2, terminating=1), 0, "a pod of StatefulSet db is being deleted"),
        (WorkloadPods(3), 4, "StatefulSet db has 3 of 4 pods: one was not replaced"),
    ):
        answers = QuestionAnswers(siblings=siblings, eviction=EvictionAnswer(True))
        action = decide(observed(migration(), unreplaced_from=unreplaced_from, answers=answers))
        assert isinstance(action, Wait)
        assert reason in action.message
    replaced = QuestionAnswers(siblings=WorkloadPods(4), eviction=EvictionAnswer(True))
    action = decide(observed(migration(), unreplaced_from=4, answers=replaced))
    assert isinstance(action, UpdateStatus)
    assert action.status.workload is not None
    assert action.status.workload.replicas == 4


def test_a_pod_that_is_not_ready_itself_may_be_evicted_if_all_others_are() -> None:
    sick = msgspec.structs.replace(pod(), status=MovingPodStatus("Running"))
    siblings = WorkloadPods(3, not_ready=(PodId("old", "db-0"),))
    answers = QuestionAnswers(siblings=siblings, eviction=EvictionAnswer(True))
    counts = ReplicaCounts(desired=3, ready=2)
    action = decide(observed(migration(), old=sick, replicas=counts, answers=answers))
    assert isinstance(action, UpdateStatus)
    assert action.status.step == Step.EVICTING


def test_an_attempt_is_recorded_before_anything_is_changed() -> None:
    allowed = QuestionAnswers(siblings=WHOLE, eviction=EvictionAnswer(True))
    action = decide(observed(migration(), answers=allowed))
    assert isinstance(action, UpdateStatus)
    assert (action.status.phase, action.status.step) == (Phase.IN_PROGRESS, Step.EVICTING)
    assert (action.status.attempts, action.status.source_node) == (1, "a")


def test_the_same_observation_gives_the_same_decision() -> None:
    o = observed(migration(), answers=QuestionAnswers(WHOLE, EvictionAnswer(True)))
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


@pytest.mark.parametrize(
    ("message", "failures", "expected"),
    [
        (WAITING_TO_START, 0, WAITING_TO_START),
        ("waiting: Deployment web is rolling out another version", 0, WAITING_TO_START),
        ("waiting: Deployment web is rolling out another version", 1, WAITING_TO_START),
        ("paused", 0, WAITING_TO_START),
        ("the new pod was not Ready within 60s", 1, ""),
    ],
)
def test_a_migration_that_waits_for_a_slot_does_not_say_that_something_else_holds_it_up(
    message: str, failures: int, expected: str
) -> None:
    queued = migration(message=message, failures=failures)
    action = decide(observed(queued, reached_limit="20 of 20"))
    assert action == Wait(message=expected)
    shown = msgspec.structs.replace(queued.status, message=expected or message)
    assert not is_held_up(msgspec.structs.replace(queued, status=shown))


def test_a_pod_that_is_on_no_node_yet_is_waited_for() -> None:
    action = decide(observed(migration(), old=pod(node="")))
    assert action == Wait(message="waiting: pod db-0 is on no node yet")


def test_no_pod_is_evicted_while_another_one_may_still_be_by_a_move_that_was_cancelled() -> None:
    of = in_progress(step=Step.EVICTING)
    old = pod(labels=migration_labels.pod_labels(of, migration_labels.IN_PROGRESS))
    allowed = QuestionAnswers(siblings=WHOLE, eviction=EvictionAnswer(True))
    assert isinstance(decide(observed(of, old=old, answers=allowed)), EvictPod)
    unrestored = replace(WHOLE, unrestored=(PodId("other", "db-1"),))
    answers = replace(allowed, siblings=unrestored)
    action = decide(observed(of, old=old, answers=answers))
    assert isinstance(action, Wait)
    assert "pod db-1 is not yet restored" in action.message


def test_a_pod_that_another_migration_moves_is_waited_for() -> None:
    other = migration_labels.pod_labels(migration(), migration_labels.IN_PROGRESS) | {
        "scheduler.alpha.kubernetes.io/migration-id": "other"
    }
    action = decide(observed(migration(), old=pod(labels=other)))
    assert isinstance(action, Wait)
    assert "is moving the pod" in action.message


def test_a_migration_shortens_the_timeout_of_the_policy_and_never_extends_it() -> None:
    for requested, seconds in ((None, 120), (5, 5), (86_400, 120)):
        spec = msgspec.structs.replace(migration().spec, timeout_seconds=requested)
        o = observed(msgspec.structs.replace(migration(), spec=spec))
        assert o.timeout == timedelta(seconds=seconds)


def in_progress(**more: object) -> Migration:
    status = {
        "phase": Phase.IN_PROGRESS,
        "mode": Mode.EVICT,
        "attempts": 1,
        "workload": WorkloadReference("StatefulSet", "db", "sts"),
        "step_started_at": NOW,
    }
    return migration(**status | more)


def handed_off(new: MovingPod, **more: object) -> Observation:
    """A handoff under way whose new pod is there, and whose old pod is labelled."""
    of = in_progress(step=Step.STARTING)
    status = msgspec.structs.replace(of.status, mode=Mode.HANDOFF, new_pod="db-1")
    of = msgspec.structs.replace(of, status=status)
    labels = migration_labels.pod_labels(of, migration_labels.IN_PROGRESS)
    new = msgspec.structs.replace(
        new, metadata=PodMeta(name="db-1", namespace="shop", uid="new", labels=labels)
    )
    owner = ReplicaSet(Identity(name="db"))
    workload = ObservedWorkload(
        "ReplicaSet", owner, LabelSelector(match_labels={"app": "db"}), RawPodTemplate()
    )
    return observed(of, old=pod(labels=labels), new=new, workload=workload, **more)


def waiting_pod(*gates: str, nominated: str = "", node: str = "") -> MovingPod:
    found = pod(node=node)
    marks = (PodCondition(CREATED_BY_US, "True"),) if nominated else ()
    return msgspec.structs.replace(
        found,
        spec=MovingPodSpec(node, scheduling_gates=tuple(map(SchedulingGate, gates))),
        status=MovingPodStatus("Pending", nominated_node_name=nominated, conditions=marks),
    )


def test_a_gated_pod_is_nominated_again_when_the_scheduler_has_removed_its_nomination() -> None:
    for lost in ("", "c"):
        action = decide(handed_off(waiting_pod(PLACING_GATE, nominated=lost)))
        assert isinstance(action, PatchPod)
        assert (action.name, action.subresource) == ("nominate", "status")
        assert action.patch["status"]["nominatedNodeName"] == "b"


def test_a_gate_is_opened_only_while_the_target_takes_the_pod() -> None:
    nominated = waiting_pod(PLACING_GATE, nominated="b")
    assert decide(handed_off(nominated)) == Ask(Question.TARGET)
    for answer, name in ((TargetAnswer(True), "open-gate"), (TargetAnswer(True, "full"), "undo")):
        action = decide(handed_off(nominated, answers=QuestionAnswers(target=answer)))
        assert isinstance(action, PatchPod | UpdateStatus)
        assert action.name == name
    unknown = QuestionAnswers(target=TargetAnswer(is_known=False))
    assert isinstance(decide(handed_off(nominated, answers=unknown)), Wait)


def test_gates_of_others_keep_ours_closed() -> None:
    both = waiting_pod("queue", PLACING_GATE, nominated="b")
    action = decide(handed_off(both, answers=QuestionAnswers(target=TargetAnswer(True))))
    assert isinstance(action, Wait)
    assert "queue" in action.message


def test_a_nomination_that_an_older_server_leaves_on_a_bound_pod_is_removed() -> None:
    action = decide(handed_off(waiting_pod(nominated="b", node="b")))
    assert isinstance(action, PatchPod)
    assert (action.name, action.subresource) == ("clear-nomination", "status")
    assert isinstance(decide(handed_off(waiting_pod(node="b"))), Wait)


def test_a_new_pod_that_lost_our_gate_before_it_was_nominated_is_given_up() -> None:
    o = handed_off(waiting_pod(node="c"))
    assert o.old is not None
    unlabelled = msgspec.structs.replace(o.old, metadata=pod().metadata)
    action = decide(replace(o, old=unlabelled))
    assert isinstance(action, UpdateStatus)
    assert "our scheduling gate was removed" in action.status.message


def ready_new_pod(since: datetime) -> MovingPod:
    ready = PodCondition("Ready", "True", last_transition_time=since)
    found = waiting_pod(node="b")
    status = MovingPodStatus("Running", conditions=(ready,))
    return msgspec.structs.replace(found, status=status)


def test_a_node_whose_clock_is_ahead_holds_up_no_handover() -> None:
    ahead = ready_new_pod(NOW + timedelta(minutes=5))
    assert decide(handed_off(ahead)) == Ask(Question.SIBLINGS)


def priced(uid: str, cost: str, *, saved: bool = False) -> MovingPod:
    """A Ready pod with a deletion cost."""
    annotations = {DELETION_COST: cost} | ({PREVIOUS_DELETION_COST: ""} if saved else {})
    found = pod(uid)
    metadata = msgspec.structs.replace(found.metadata, name=uid, annotations=annotations)
    return msgspec.structs.replace(found, metadata=metadata)


@pytest.mark.parametrize("cost", ["-2147483648", "-2147483647"])
def test_a_pod_that_its_owner_wants_deleted_first_is_not_deleted_for_the_old_one(cost: str) -> None:
    siblings = WorkloadPods().with_page([priced("other", cost)])
    answers = QuestionAnswers(siblings=siblings, eviction=EvictionAnswer(True))
    action = decide(handed_off(ready_new_pod(NOW - timedelta(minutes=1)), answers=answers))
    assert isinstance(action, Wait)
    assert action.message == (
        "waiting: pod other of ReplicaSet db would be deleted: its cost is as low"
    )


def test_a_saved_deletion_cost_alone_does_not_say_that_the_cost_was_lowered() -> None:
    """It may be in the pod template, copied from a pod that was being moved."""
    o = handed_off(ready_new_pod(NOW - timedelta(minutes=1)))
    assert o.old is not None
    annotations = {PREVIOUS_DELETION_COST: "5", DELETION_COST: "5"}
    metadata = msgspec.structs.replace(o.old.metadata, annotations=annotations)
    old = msgspec.structs.replace(o.old, metadata=metadata)
    answers = QuestionAnswers(
        siblings=WorkloadPods().with_page([priced("other", "5", saved=True)]),
        eviction=EvictionAnswer(True),
    )
    action = decide(replace(o, old=old, answers=answers))
    assert isinstance(action, PatchPod)
    assert action.name == "lower-cost"


def given_to_workload(step: Step, started: datetime) -> Observation:
    """A handoff whose new pod has the label of its workload, but is not adopted."""
    o = handed_off(ready_new_pod(NOW))
    assert o.new is not None
    assert o.workload is not None
    labels = {**o.new.metadata.labels, "app": "db"}
    metadata = msgspec.structs.replace(o.new.metadata, labels=labels)
    status = msgspec.structs.replace(o.migration.status, step=step, step_started_at=started)
    template = RawPodTemplate(TemplateMeta(labels={"app": "db"}))
    return replace(
        o,
        new=msgspec.structs.replace(o.new, metadata=metadata),
        migration=msgspec.structs.replace(o.migration, status=status),
        workload=replace(o.workload, template=template),
    )


def test_a_new_pod_that_its_workload_does_not_adopt_is_taken_back_when_its_time_is_over() -> None:
    assert isinstance(decide(given_to_workload(Step.HANDING_OVER, NOW)), Wait)
    action = decide(given_to_workload(Step.HANDING_OVER, NOW - timedelta(hours=1)))
    assert isinstance(action, UpdateStatus)
    assert action.status.step == Step.UNDOING
    assert "does not adopt the new pod" in action.status.message
    action = decide(given_to_workload(Step.UNDOING, NOW))
    assert isinstance(action, PatchPod)
    assert action.patch["metadata"]["labels"]["app"] is None


def test_room_is_released_when_the_new_pod_cannot_be_deleted() -> None:
    o = handed_off(waiting_pod(PLACING_GATE, nominated="b"))
    status = msgspec.structs.replace(o.migration.status, step=Step.UNDOING)
    o = replace(o, migration=msgspec.structs.replace(o.migration, status=status))
    assert isinstance(decide(o), DeletePod)
    refused = Refusal("new", "nobody deletes this")
    action = decide(replace(o, refusals=(refused,)))
    assert isinstance(action, PatchPod)
    assert (action.name, action.subresource) == ("clear-nomination", "status")
    action = decide(replace(o, refusals=(refused, refused)))
    assert isinstance(action, PatchPod)
    assert action.name == "restore-old"


def test_an_evicted_pod_that_has_finished_is_not_waited_for_unless_its_name_is_needed() -> None:
    ended = msgspec.structs.replace(
        pod(),
        metadata=msgspec.structs.replace(pod().metadata, deletion_timestamp=NOW),
        status=MovingPodStatus("Failed"),
    )
    of = in_progress(step=Step.LANDING)
    assert isinstance(decide(observed(of, old=ended)), Wait)
    workload = WorkloadReference("ReplicaSet", "db", "sts")
    of = msgspec.structs.replace(of, status=msgspec.structs.replace(of.status, workload=workload))
    action = decide(observed(of, old=ended))
    assert isinstance(action, UpdateStatus)
    assert action.name == "old-ended"


def test_an_evicted_pod_that_finished_without_being_deleted_ends_the_migration() -> None:
    finished = msgspec.structs.replace(pod(), status=MovingPodStatus("Succeeded"))
    for step in (Step.EVICTING, Step.LANDING):
        action = decide(observed(in_progress(step=step), old=finished))
        assert isinstance(action, UpdateStatus)
        assert (action.status.step, action.status.after_undoing) == (Step.UNDOING, Phase.CANCELLED)


def test_the_time_for_a_replacement_starts_when_the_old_pod_has_ended() -> None:
    long_ago = NOW - timedelta(hours=1)
    of = msgspec.structs.replace(
        in_progress(step=Step.LANDING),
        status=msgspec.structs.replace(
            in_progress(step=Step.LANDING).status, step_started_at=long_ago
        ),
    )
    action = decide(observed(of, old=None))
    assert isinstance(action, UpdateStatus)
    assert (action.status.step, action.status.step_started_at) == (Step.LANDING, NOW)
    of = msgspec.structs.replace(of, status=action.status)
    waiting = decide(observed(of, old=None, answers=QuestionAnswers(candidates=())))
    assert isinstance(waiting, Wait)


def test_a_replacement_that_failed_is_replaced_itself_or_named_as_the_reason() -> None:
    """Its kubelet did not admit it, or has evicted it: the object stays."""
    landing = in_progress(step=Step.LANDING).status
    ended = (MigrationCondition(OLD_POD_ENDED, "True"),)
    of = migration(**{**msgspec.structs.asdict(landing), "conditions": ended})
    rejected = msgspec.structs.replace(
        pod("rejected", "b"),
        status=MovingPodStatus("Failed", reason="OutOfcpu", message="Pod was rejected"),
    )
    failed = observed(of, old=None, answers=QuestionAnswers(candidates=(rejected,)))
    assert isinstance(decide(failed), Wait)
    late = decide(replace(failed, now=NOW + timedelta(hours=1)))
    assert isinstance(late, UpdateStatus)
    assert late.status.phase == Phase.FAILED
    assert "db-0 failed on b: OutOfcpu: Pod was rejected" in late.status.message
    both = QuestionAnswers(candidates=(rejected, pod("next", "b")))
    action = decide(replace(failed, answers=both))
    assert isinstance(action, PatchPod)
    assert (action.name, action.pod.uid) == ("claim", "next")


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
    refused = QuestionAnswers(
        siblings=WHOLE, eviction=EvictionAnswer(False, by_budget=True, text="budget db")
    )
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


def test_a_sibling_as_young_as_the_migration_does_not_pass_for_the_replacement() -> None:
    owner = OwnerReference(kind="CloneSet", name="web", uid="clones", controller=True)
    reference = WorkloadReference("CloneSet", "web", "clones")
    of = in_progress(step=Step.EVICTING, workload=reference)
    of = msgspec.structs.replace(
        of, metadata=msgspec.structs.replace(of.metadata, creation_timestamp=NOW)
    )
    labels = migration_labels.pod_labels(of, migration_labels.IN_PROGRESS)
    old = msgspec.structs.replace(
        pod(labels=labels), metadata=replaced_metadata(pod(labels=labels), (owner,))
    )
    young = QuestionAnswers(siblings=WorkloadPods(2, newest=NOW), eviction=EvictionAnswer(True))
    remembered = decide(observed(of, old=old, answers=young))
    assert isinstance(remembered, UpdateStatus)
    assert remembered.status.newest_sibling_at == NOW
    of = msgspec.structs.replace(of, status=remembered.status)
    soon = observed(of, old=old, answers=young)
    assert isinstance(decide(soon), Wait)
    assert isinstance(decide(replace(soon, now=NOW + timedelta(seconds=3))), EvictPod)
    sibling = pod(uid="sibling")
    sibling = msgspec.structs.replace(sibling, metadata=replaced_metadata(sibling, (owner,)))
    landing = msgspec.structs.replace(
        of,
        status=msgspec.structs.replace(
            of.status,
            step=Step.LANDING,
            step_started_at=NOW,
            conditions=(MigrationCondition(OLD_POD_ENDED, "True"),),
        ),
    )
    found = QuestionAnswers(candidates=(sibling,))
    assert isinstance(decide(observed(landing, old=None, answers=found)), Wait)
    later = msgspec.structs.replace(
        sibling,
        metadata=msgspec.structs.replace(
            sibling.metadata, creation_timestamp=NOW + timedelta(seconds=1)
        ),
    )
    found = QuestionAnswers(candidates=(sibling, later))
    claimed = decide(observed(landing, old=None, answers=found))
    assert isinstance(claimed, PatchPod)
    assert claimed.pod == later


def replaced_metadata(of: MovingPod, owners: tuple[OwnerReference, ...]) -> PodMeta:
    return msgspec.structs.replace(of.metadata, owner_references=owners)
