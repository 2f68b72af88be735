"""Every change of a Migration's status: one function for each."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from rescheduler.migration.migration_object import (
    FINISHED_CONDITION,
    FITS_BESIDE_OLD_POD,
    NEW_POD_READY,
    NOMINATION_IGNORED,
    OLD_POD_ENDED,
    PLACED_AS_NOMINATED,
    PUT_BACK_BY_KUBELET,
    RETIRING,
    STARTED,
    Migration,
    MigrationCondition,
    MigrationStatus,
    Phase,
    Step,
    WorkloadReference,
)
from rescheduler.migration.new_pod import new_pod_name
from rescheduler.migration.state_machine.actions import MigrationEvent, UpdateStatus
from rescheduler.migration.state_machine.observation import KubeletRhythm, Observation
from rescheduler.model.moves import Mode, Outcome

MAX_DOUBLINGS = 10
MAX_MESSAGE_LENGTH = 1000


def started(
    o: Observation, mode: Mode, step: Step, workload: WorkloadReference | None
) -> UpdateStatus:
    """An attempt starts. From here on the migration counts as in flight."""
    assert o.old is not None
    attempt = o.migration.status.attempts + 1
    status = replace(
        o.migration.status,
        phase=Phase.IN_PROGRESS,
        mode=mode,
        attempts=attempt,
        source_node=o.old.node,
        new_node="",
        workload=workload,
        evicted_at=None,
        newest_sibling_at=None,
        retry_at=None,
    )
    # Known in advance, so that its creation needs no further update of the status.
    new_pod = new_pod_name(replace(o.migration, status=status))
    message = f"moving by {mode.lower()}" + (f", attempt {attempt}" if attempt > 1 else "")
    if new_pod:
        message += f": waiting until new pod {new_pod} is Ready"
    return step_entered(
        o,
        replace(status, new_pod=new_pod, message=message),
        step,
        name="start",
        condition=STARTED,
        event=MigrationEvent.STARTED,
    )


def handing_over(o: Observation) -> UpdateStatus:
    """The new pod is Ready, and the old one is to be deleted."""
    assert o.new is not None
    message = f"new pod {o.new.metadata.name} is Ready on {o.new.node}; deleting the old pod"
    return step_entered(
        o,
        replace(o.migration.status, new_node=o.new.node, message=message),
        Step.HANDING_OVER,
        name="hand-over",
        condition=NEW_POD_READY,
        event=MigrationEvent.NEW_POD_READY,
    )


def kubelet_learned(o: Observation, rhythm: KubeletRhythm) -> UpdateStatus:
    """It was seen when the kubelet of the old pod puts back its status, or that it does not."""
    at, status = rhythm.put_back_at or o.now, o.migration.status
    reason, message = "PutBack", "the kubelet has put back the status of the pod at this time"
    if rhythm.is_silent:
        reason, message = "NotPutBack", "the kubelet does not put back the status of its pods"
    conditions = with_condition(
        status, PUT_BACK_BY_KUBELET, at, reason, message, holds=not rhythm.is_silent
    )
    return UpdateStatus("learn-kubelet", replace(status, conditions=conditions))


def sibling_remembered(o: Observation, created_at: datetime) -> UpdateStatus:
    """A sibling is so young that it could be taken for the replacement."""
    return UpdateStatus("sibling", replace(o.migration.status, newest_sibling_at=created_at))


def landing(o: Observation) -> UpdateStatus:
    """The old pod was evicted, and its controller creates a replacement."""
    message = "the old pod was evicted; waiting for its replacement"
    evicted_at = o.old.deleted_at if o.old is not None else None
    return step_entered(
        o,
        replace(o.migration.status, message=message, evicted_at=evicted_at),
        Step.LANDING,
        name="landing",
        condition=RETIRING,
        event=MigrationEvent.EVICTED,
    )


def old_pod_ended(o: Observation) -> UpdateStatus:
    """The evicted pod has ended. Only from now on the time for its replacement is counted."""
    status = replace(o.migration.status, message="the old pod has ended; waiting for a replacement")
    return step_entered(
        o, status, Step.LANDING, name="old-ended", condition=OLD_POD_ENDED, event=None
    )


def rollback_started(
    o: Observation, message: str, then: Phase, *, is_failure: bool = False
) -> UpdateStatus:
    """The attempt cannot continue. A failure counts towards the retries; after the last: `Failed`.

    A migration that is still pending has changed nothing, so its attempt ends at once.
    """
    status = o.migration.status
    failures = status.failures + is_failure
    if is_failure and failures > o.options.max_retries:
        then = Phase.FAILED
    if status.phase == Phase.PENDING:
        return attempt_ended(o, replace(status, failures=failures), message, then)
    return UpdateStatus(
        "undo",
        replace(
            status,
            step=Step.UNDOING,
            failures=failures,
            after_undoing=then,
            message=message,
            step_started_at=o.now,
        ),
        MigrationEvent.UNDOING,
    )


def attempt_failed(o: Observation, reason: str) -> UpdateStatus:
    """The attempt is rolled back, and retried later."""
    return rollback_started(o, reason, Phase.PENDING, is_failure=True)


def rollback_finished(o: Observation) -> UpdateStatus:
    """Everything that the attempt has changed is restored, as far as the server allows it."""
    status = o.migration.status
    if o.refusals:
        refused = "; ".join(refusal.text for refusal in o.refusals)
        return failed(o, f"{status.message}; not undone: {refused}")
    then = status.after_undoing or Phase.FAILED
    return attempt_ended(o, replace(status, after_undoing=None), status.message, then)


def completed(
    o: Observation, outcome: Outcome, node: str, message: str, steered: bool | None = None
) -> UpdateStatus:
    """Another pod does the work of the old one."""
    status = replace(o.migration.status, outcome=outcome, new_node=node, steered=steered)
    return finished(o, status, Phase.COMPLETED, message)


def failed(o: Observation, message: str) -> UpdateStatus:
    """The move is impossible or ended otherwise, and there is nothing to roll back."""
    status = replace(o.migration.status, outcome=Outcome.FAILED)
    return finished(o, status, Phase.FAILED, message)


def cancelled(o: Observation, message: str) -> UpdateStatus:
    """The move is no longer needed, and there is nothing to roll back."""
    return finished(o, o.migration.status, Phase.CANCELLED, message)


def attempt_ended(
    o: Observation, status: MigrationStatus, message: str, phase: Phase
) -> UpdateStatus:
    """An attempt has ended: the next one is scheduled, or the migration is finished."""
    if phase == Phase.PENDING:
        return retry_scheduled(o, status, message)
    if phase == Phase.FAILED:
        status = replace(status, outcome=Outcome.FAILED)
    return finished(o, status, phase, message)


def retry_scheduled(o: Observation, status: MigrationStatus, message: str) -> UpdateStatus:
    """The migration is tried again; the delay doubles with every failure."""
    doublings = min(max(status.failures - 1, 0), MAX_DOUBLINGS)
    delay = timedelta(seconds=o.options.retry_delay_seconds * 2**doublings)
    status = replace(
        status,
        phase=Phase.PENDING,
        step=Step.NONE,
        message=message,
        step_started_at=None,
        retry_at=o.now + delay if status.failures else None,
    )
    return UpdateStatus("retry", status, MigrationEvent.RETRYING)


def finished(o: Observation, status: MigrationStatus, phase: Phase, message: str) -> UpdateStatus:
    """The migration has reached a final phase."""
    status = replace(
        status,
        phase=phase,
        step=Step.NONE,
        message=message,
        finished_at=o.now,
        step_started_at=None,
        retry_at=None,
        conditions=with_condition(status, FINISHED_CONDITION, o.now, str(phase), message),
    )
    return UpdateStatus("finish", status, MigrationEvent(f"Migration{phase}"))


def new_pod_unschedulable(o: Observation, message: str) -> UpdateStatus:
    """The new pod does not fit beside the old one; a condition remembers that for the next try."""
    return attempt_failed_with(o, message, FITS_BESIDE_OLD_POD, "Unschedulable")


def nomination_ignored(o: Observation, message: str, scheduler: str) -> UpdateStatus:
    """The new pod was placed elsewhere although its target would take it.

    Once may be a coincidence. At the second time the workload is remembered for it: see
    `mode_selection`.
    """
    earlier = o.migration.condition(PLACED_AS_NOMINATED)
    if earlier is None:
        return attempt_failed_with(o, message, PLACED_AS_NOMINATED, "PlacedElsewhere")
    message += f": scheduler {scheduler or '(unnamed)'} does not look at nominated nodes"
    return attempt_failed_with(o, message, PLACED_AS_NOMINATED, NOMINATION_IGNORED)


def attempt_failed_with(o: Observation, message: str, type: str, reason: str) -> UpdateStatus:
    """A failed attempt after which the condition of this type is false: the next try sees it."""
    update = attempt_failed(o, message)
    conditions = with_condition(update.status, type, o.now, reason, message, holds=False)
    return UpdateStatus(update.name, replace(update.status, conditions=conditions), update.event)


def step_entered(
    o: Observation,
    status: MigrationStatus,
    step: Step,
    *,
    name: str,
    condition: str,
    event: MigrationEvent | None,
) -> UpdateStatus:
    """A new step starts, and with it the step's timeout. The condition has the status's message."""
    conditions = with_condition(status, condition, o.now, str(event or condition), status.message)
    status = replace(status, step=step, step_started_at=o.now, conditions=conditions)
    return UpdateStatus(name, status, event)


def with_condition(
    status: MigrationStatus, type: str, now: datetime, reason: str, message: str, holds: bool = True
) -> tuple[MigrationCondition, ...]:
    """The conditions, with the one of this type set."""
    others = tuple(condition for condition in status.conditions if condition.type != type)
    return (
        *others,
        MigrationCondition(type, "True" if holds else "False", reason, message, now),
    )


def truncated(text: str) -> str:
    """The text, cut to a length that the server accepts; schedulers and webhooks can be wordy."""
    return text if len(text) <= MAX_MESSAGE_LENGTH else text[: MAX_MESSAGE_LENGTH - 1] + "…"


def status_patch(migration: Migration, status: MigrationStatus) -> dict[str, Any]:
    """A merge patch that sets a Migration's status, if nobody has changed the Migration since."""
    names = [field.encode_name for field in msgspec.structs.fields(MigrationStatus)]
    conditions = [
        replace(condition, message=truncated(condition.message)) for condition in status.conditions
    ]
    status = replace(status, message=truncated(status.message), conditions=tuple(conditions))
    content: dict[str, Any] = dict.fromkeys(names)
    content |= msgspec.to_builtins(status)
    content |= {"phase": str(status.phase)}
    return {
        "metadata": {"resourceVersion": migration.metadata.resource_version},
        "status": content,
    }
