"""How a Migration's status changes: each function is one step of its life."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from rescheduler.migration.migration_object import (
    Migration,
    MigrationCondition,
    MigrationStatus,
    Phase,
    Step,
    WorkloadReference,
)
from rescheduler.migration.state_machine.actions import Record
from rescheduler.migration.state_machine.observation import Observation
from rescheduler.model.moves import Mode, Outcome

STARTED, NEW_POD_READY, RETIRING, FINISHED = "Started", "NewPodReady", "Retiring", "Finished"
FITS_BESIDE = "FitsBesideOldPod"
LONGEST_DOUBLING = 10
LONGEST_TEXT = 1000


def started(o: Observation, mode: Mode, step: Step, workload: WorkloadReference | None) -> Record:
    """It begins, or begins again. From here on it takes up a place in flight."""
    assert o.old is not None
    attempt = o.migration.status.attempts + 1
    status = replace(
        o.migration.status,
        phase=Phase.IN_PROGRESS,
        mode=mode,
        attempts=attempt,
        source_node=o.old.node,
        new_pod="",
        new_node="",
        workload=workload,
        retry_at=None,
    )
    message = f"moving by {mode.lower()}" + (f", attempt {attempt}" if attempt > 1 else "")
    return at_step(o, "start", status, step, STARTED, "MigrationStarted", message)


def new_pod_made(o: Observation) -> Record:
    """The new pod is there, and has to become Ready."""
    assert o.new is not None
    name = o.new.metadata.name
    status = replace(
        o.migration.status, new_pod=name, message=f"waits until new pod {name} is Ready"
    )
    return Record("new-pod", status, "NewPodCreated")


def handing_over(o: Observation) -> Record:
    """The new pod is Ready; the old one will be retired."""
    assert o.new is not None
    status = replace(o.migration.status, new_node=o.new.node)
    message = f"new pod {o.new.metadata.name} is Ready on {o.new.node}; retiring the old one"
    return at_step(o, "hand-over", status, Step.HANDING_OVER, NEW_POD_READY, "NewPodReady", message)


def landing(o: Observation) -> Record:
    """The old pod goes, and its controller will replace it."""
    message = "the old pod was evicted; waits for its replacement"
    status = o.migration.status
    return at_step(o, "landing", status, Step.LANDING, RETIRING, "PodEvicted", message)


def undoing(o: Observation, message: str, then: Phase, *, counts: bool = False) -> Record:
    """It cannot go on. `counts` says that it failed, and is tried again as often as allowed."""
    status = o.migration.status
    failures = status.failures + counts
    if counts and failures > o.options.max_retries:
        then = Phase.FAILED
    if status.phase == Phase.PENDING:
        return ended(o, replace(status, failures=failures), message, then)
    return Record(
        "undo",
        replace(
            status,
            step=Step.UNDOING,
            failures=failures,
            after_undoing=then,
            message=message,
            step_started_at=o.now,
        ),
        "MigrationUndoing",
    )


def undone(o: Observation) -> Record:
    """Everything is as it was."""
    status = o.migration.status
    then = status.after_undoing or Phase.FAILED
    return ended(o, replace(status, after_undoing=None), status.message, then)


def completed(
    o: Observation, outcome: Outcome, node: str, message: str, steered: bool | None = None
) -> Record:
    """The old pod is gone and another one serves in its place."""
    status = replace(o.migration.status, outcome=outcome, new_node=node, steered=steered)
    return finished(o, status, Phase.COMPLETED, message)


def failed(o: Observation, message: str) -> Record:
    """It cannot be done, or was done otherwise, and there is nothing to put back."""
    status = replace(o.migration.status, outcome=Outcome.FAILED)
    return finished(o, status, Phase.FAILED, message)


def cancelled(o: Observation, message: str) -> Record:
    """It is no longer wanted, and there is nothing to put back."""
    return finished(o, o.migration.status, Phase.CANCELLED, message)


def ended(o: Observation, status: MigrationStatus, message: str, phase: Phase) -> Record:
    """An attempt is over: it waits for the next, or there is none."""
    if phase == Phase.PENDING:
        return waiting_again(o, status, message)
    if phase == Phase.FAILED:
        status = replace(status, outcome=Outcome.FAILED)
    return finished(o, status, phase, message)


def waiting_again(o: Observation, status: MigrationStatus, message: str) -> Record:
    """It will be tried again, later each time."""
    doublings = min(max(status.failures - 1, 0), LONGEST_DOUBLING)
    delay = timedelta(seconds=o.options.retry_delay_seconds * 2**doublings)
    status = replace(
        status,
        phase=Phase.PENDING,
        step=Step.NONE,
        message=message,
        step_started_at=None,
        retry_at=o.now + delay if status.failures else None,
    )
    return Record("retry", status, "MigrationRetrying")


def finished(o: Observation, status: MigrationStatus, phase: Phase, message: str) -> Record:
    """The end."""
    status = replace(
        status,
        phase=phase,
        step=Step.NONE,
        message=message,
        finished_at=o.now,
        step_started_at=None,
        retry_at=None,
        conditions=with_condition(status, FINISHED, o.now, str(phase), message),
    )
    return Record("finish", status, f"Migration{phase}")


def does_not_fit(o: Observation, message: str) -> Record:
    """The new pod found no room beside the old one."""
    record = undoing(o, message, Phase.PENDING, counts=True)
    conditions = with_condition(
        record.status, FITS_BESIDE, o.now, "Unschedulable", message, holds=False
    )
    return Record(record.name, replace(record.status, conditions=conditions), record.event)


def at_step(
    o: Observation,
    name: str,
    status: MigrationStatus,
    step: Step,
    condition: str,
    event: str,
    message: str,
) -> Record:
    """A new step begins, and its time with it."""
    conditions = with_condition(status, condition, o.now, event, message)
    status = replace(
        status, step=step, message=message, step_started_at=o.now, conditions=conditions
    )
    return Record(name, status, event)


def with_condition(
    status: MigrationStatus, type: str, now: datetime, reason: str, message: str, holds: bool = True
) -> tuple[MigrationCondition, ...]:
    """The conditions with one of them new."""
    others = tuple(each for each in status.conditions if each.type != type)
    stands = "True" if holds else "False"
    return (*others, MigrationCondition(type, stands, reason, message, now))


def time_of(migration: Migration, condition: str) -> datetime | None:
    """When something happened, if it did."""
    for each in migration.status.conditions:
        if each.type == condition:
            return each.last_transition_time
    return None


def shortened(text: str) -> str:
    """As much of a text as the server takes; schedulers and webhooks can be wordy."""
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"


def status_patch(migration: Migration, status: MigrationStatus) -> dict[str, Any]:
    """A merge patch that makes a Migration's status this one, if nobody was faster."""
    names = [field.encode_name for field in msgspec.structs.fields(MigrationStatus)]
    shorter = [replace(each, message=shortened(each.message)) for each in status.conditions]
    status = replace(status, message=shortened(status.message), conditions=tuple(shorter))
    content: dict[str, Any] = dict.fromkeys(names)
    content |= msgspec.to_builtins(status)
    content |= {"phase": str(status.phase)}
    return {
        "metadata": {"resourceVersion": migration.metadata.resource_version},
        "status": content,
    }
