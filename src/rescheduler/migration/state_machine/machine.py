"""The state machine: an observation goes in, the next action comes out.

    Pending ──start──> InProgress ─────────────────────────────> Completed
       ^                   │  Handoff, Recreate: Starting, HandingOver
       │                   │  Evict: Evicting, Landing
       │                   v
       └──retry──────── Undoing ──────> Failed, Cancelled

It holds no state and reads no clock. Ask it again after every action, and after every change of
the cluster: the same observation gives the same decision. It relies on no earlier decision, only
on what is observed. So it may be stopped between any two actions, and another process continues.

The order of writes keeps two promises. Nothing is changed before the status says that the
migration is in progress, so every change is accounted for. And nothing is restored before the
status says `Undoing` and why, so an interrupted rollback is finished by the next process.
"""

from datetime import timedelta
from typing import Protocol

from rescheduler.labels import MIGRATION_NAME
from rescheduler.migration import migration_labels
from rescheduler.migration.crd import WAITING, WAITING_TO_START
from rescheduler.migration.migration_labels import is_labelled_for
from rescheduler.migration.migration_object import MigrationStatus, Phase, Step
from rescheduler.migration.state_machine import eviction, handoff, recreation, status_transitions
from rescheduler.migration.state_machine.actions import (
    Action,
    Ask,
    DeleteMigration,
    Question,
    UpdateStatus,
    Wait,
)
from rescheduler.migration.state_machine.diagnosis import (
    incomplete_reason,
    reported_as_incomplete,
    rollout_in_progress,
    target_problem,
    workload_change,
)
from rescheduler.migration.state_machine.mode_selection import (
    CannotMove,
    must_know_policies,
    select_mode,
)
from rescheduler.migration.state_machine.observation import Observation
from rescheduler.migration.state_machine.refusals import release_room, without_refused
from rescheduler.migration.state_machine.rollback import roll_back
from rescheduler.model.moves import Mode


class ModeModule(Protocol):
    """The functions that the module of each mode has."""

    def start(self, o: Observation) -> Action:
        """Record that an attempt starts."""

    def advance(self, o: Observation) -> Action:
        """The next action while the attempt can be rolled back."""

    def is_committed(self, o: Observation) -> bool:
        """Whether the attempt can no longer be rolled back."""

    def finish(self, o: Observation) -> Action:
        """The next action of a committed attempt."""


# Pods of a workload other than the one to move are not watched for a migration that waits.
LOOK_AT_SIBLINGS_SECONDS = 10.0

MODES: dict[Mode, ModeModule] = {
    Mode.HANDOFF: handoff,
    Mode.EVICT: eviction,
    Mode.RECREATE: recreation,
}


def decide(o: Observation) -> Action:
    """The next action for this migration."""
    migration = o.migration
    if migration.is_finished:
        return decide_finished(o)
    if migration.status.phase == Phase.PENDING:
        return decide_pending(o)
    mode = MODES[migration.status.mode or Mode.EVICT]
    if is_committed(o):
        return mode.finish(o)
    if migration.status.step == Step.UNDOING:
        return release_room(o) or roll_back(without_refused(o))
    return abort(o) or mode.advance(o)


def is_committed(o: Observation) -> bool:
    """Whether the attempt can no longer be rolled back."""
    return MODES[o.migration.status.mode or Mode.EVICT].is_committed(o)


def is_start(action: Action, o: Observation) -> bool:
    """Whether the migration counts as in flight once this action has been carried out."""
    return (
        o.migration.status.phase == Phase.PENDING
        and isinstance(action, UpdateStatus)
        and action.status.phase == Phase.IN_PROGRESS
    )


def decide_finished(o: Observation) -> Action:
    """Keep a finished Migration for people and for the planner's history, then delete it."""
    ttl = o.migration.spec.ttl_seconds_after_finished
    seconds = o.options.keep_seconds if ttl is None else ttl
    finished_at = o.migration.status.finished_at or o.now
    left = finished_at + timedelta(seconds=seconds) - o.now
    return DeleteMigration() if left <= timedelta(0) else Wait(left.total_seconds())


def decide_pending(o: Observation) -> Action:
    """Start a pending migration, or wait, or give it up. Nothing has been changed yet."""
    if o.migration.spec.paused:
        return Wait(message="paused")
    if reason := reason_to_cancel(o):
        return status_transitions.cancelled(o, reason)
    if o.migration.status.retry_at is not None and o.migration.status.retry_at > o.now:
        return Wait((o.migration.status.retry_at - o.now).total_seconds())
    if o.reached_limit:
        return Wait(message=message_in_queue(o.migration.status))
    if other := other_migration(o):
        return Wait(message=f"waiting: Migration {other} is moving the pod")
    if o.old is not None and not o.old.node:
        return Wait(message=f"waiting: pod {o.old.metadata.name} is on no node yet")
    if o.workload_ending:
        # Nobody would replace the pod. It is deleted soon, or left without a controller.
        return Wait(LOOK_AT_SIBLINGS_SECONDS, f"waiting: {o.workload_ending}")
    try:
        mode = select_mode(o)
        if mode == Mode.HANDOFF and must_know_policies(o) and o.answers.policies is None:
            return Ask(Question.POLICIES)
    except CannotMove as error:
        return status_transitions.failed(o, str(error))
    if problem := target_problem(o):
        return status_transitions.rollback_started(o, problem, Phase.PENDING, is_failure=True)
    if o.workload is not None and (change := workload_change(o.workload)):
        return Wait(message=f"waiting: {change}")
    return (
        check_workload_before_start(o)
        or check_budgets_before_start(o, mode)
        or MODES[mode].start(o)
    )


def message_in_queue(status: MigrationStatus) -> str:
    """The message of a migration that a limit keeps from starting; empty to leave it as it is.

    What it waited for before is not known to hold it up any more. Why it has failed stays. The
    limit is not named: it may be another one at every look, and each would be a write.
    """
    is_of_failure = status.failures > 0 and not status.message.startswith(WAITING)
    return "" if is_of_failure else WAITING_TO_START


def reason_to_cancel(o: Observation) -> str:
    """Why there is no pod to move any more, or an empty string."""
    name = o.migration.spec.pod.name
    if o.old is None:
        return f"pod {name} (uid {o.migration.spec.pod.uid}) does not exist"
    if o.old.is_deleting:
        return f"pod {name} is being deleted"
    if o.old.is_finished:
        return f"pod {name} has finished"
    if o.old.node == o.migration.spec.target_node:
        return f"pod {name} is already on {o.old.node}"
    return ""


def check_workload_before_start(o: Observation) -> Action | None:
    """Wait while the workload lacks a Ready pod; None if it is whole or has none to lack.

    A handoff could not be finished, and an eviction would take one more.
    """
    if not eviction.is_part_of_a_whole(o):
        return None
    reason = reported_as_incomplete(o)
    if not reason and o.answers.siblings is None:
        return Ask(Question.SIBLINGS)
    if not reason and o.answers.siblings is not None:
        reason = incomplete_reason(o, o.answers.siblings)
    if not reason:
        return None
    return Wait(LOOK_AT_SIBLINGS_SECONDS, f"waiting: {reason}")


def check_budgets_before_start(o: Observation, mode: Mode) -> Action | None:
    """Ask the disruption budgets before anything is changed; None if the migration may start.

    A pod that is not Ready is not handed over, and a workload with fewer healthy pods than its
    budget requires is not disturbed. A budget that merely allows no disruption is no obstacle to a
    handoff, which adds a pod before it removes one.
    """
    assert o.old is not None
    if mode != Mode.EVICT and not o.old.is_ready:
        return Wait(message=f"waiting: pod {o.old.metadata.name} is not Ready")
    for budget in o.budgets:
        if budget.status.current_healthy < budget.status.desired_healthy:
            name = budget.metadata.name
            return Wait(message=f"waiting: disruption budget {name} has too few healthy pods")
    answer = o.answers.eviction
    if answer is None:
        return Ask(Question.EVICTION)
    if answer.is_allowed or (answer.by_budget and mode != Mode.EVICT):
        return None
    if answer.by_budget:
        return Wait(message=f"waiting: {answer.text}")
    return status_transitions.rollback_started(o, answer.text, Phase.PENDING, is_failure=True)


def abort(o: Observation) -> Action | None:
    """Start a rollback if the attempt must not continue, whatever its mode; else None."""
    if o.migration.spec.paused:
        return status_transitions.rollback_started(o, "paused", Phase.PENDING)
    if other := other_migration(o):
        return status_transitions.rollback_started(
            o, f"Migration {other} is moving the pod", Phase.CANCELLED
        )
    if o.workload is None and o.migration.status.mode == Mode.HANDOFF:
        is_orphaned = o.is_old_running and o.old is not None and o.old.metadata.controller is None
        reason = "the pod no longer belongs to it" if is_orphaned else "it no longer exists"
        return status_transitions.rollback_started(
            o, f"its workload is lost: {reason}", Phase.CANCELLED
        )
    if o.workload_ending:
        return status_transitions.rollback_started(o, o.workload_ending, Phase.CANCELLED)
    if o.workload is not None and (change := workload_interference(o)):
        return status_transitions.rollback_started(o, change, Phase.CANCELLED)
    if problem := target_problem(o):
        return status_transitions.rollback_started(o, problem, Phase.PENDING, is_failure=True)
    return None


def other_migration(o: Observation) -> str:
    """The name of another Migration that is moving the same pod, or an empty string."""
    if o.old is None or not migration_labels.is_in_progress(o.old):
        return ""
    if is_labelled_for(o.old, o.migration):
        return ""
    return o.old.metadata.annotations.get(MIGRATION_NAME, "(unknown)")


def workload_interference(o: Observation) -> str:
    """The scale-down or rollout of the workload that ends the attempt; else empty."""
    assert o.workload is not None
    at_start = o.migration.status.workload
    if text := rollout_in_progress(o.workload):
        return text
    if at_start is not None and o.workload.replicas < (at_start.replicas or 0):
        return f"{o.workload.name} was scaled from {at_start.replicas} to {o.workload.replicas}"
    return ""
