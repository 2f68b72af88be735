"""How an attempt ends when the server refuses a call for good, or a handler fails again and again.

The server's words become the migration's message. An attempt that can be rolled back is rolled
back. A refusal during the rollback itself is skipped, and the rest is still undone: the migration
then fails and is not retried, and what is left behind is cleaned up when the server allows it.
"""

from dataclasses import replace

from rescheduler.migration.migration_object import Phase, Step
from rescheduler.migration.state_machine import status_transitions
from rescheduler.migration.state_machine.actions import (
    CreateBudget,
    CreatePod,
    DeleteBudget,
    DeleteMigration,
    DeletePod,
    EvictPod,
    PatchPod,
    UpdateStatus,
    Write,
)
from rescheduler.migration.state_machine.observation import Observation, Refusal
from rescheduler.model.moves import Mode

NOT_FINISHED = "it can no longer be rolled back, and cannot be finished"


def refusal_of(action: Write, text: str) -> Refusal | None:
    """The refusal of a write; None if it is one of the Migration itself, which nothing can end."""
    match action:
        case CreatePod():
            return Refusal("", f"new pod rejected: {text}")
        case PatchPod():
            return Refusal(action.pod.uid, f"patch of pod {action.pod.metadata.name}: {text}")
        case DeletePod():
            return Refusal(action.pod.uid, f"deletion of pod {action.pod.metadata.name}: {text}")
        case EvictPod():
            return Refusal(action.pod.uid, f"eviction of pod {action.pod.metadata.name}: {text}")
        case CreateBudget():
            return Refusal("", f"temporary disruption budget rejected: {text}")
        case DeleteBudget():
            return Refusal(action.uid, f"deletion of disruption budget {action.key}: {text}")
        case UpdateStatus() | DeleteMigration():
            return None


def write_refused(o: Observation, refusal: Refusal, *, is_committed: bool) -> UpdateStatus:
    """End the attempt whose write was refused. One that is committed cannot be rolled back."""
    if is_committed:
        return status_transitions.failed(o, f"{NOT_FINISHED}: {refusal.text}")
    return status_transitions.rollback_started(o, refusal.text, Phase.PENDING, is_failure=True)


def read_refused(o: Observation, text: str) -> UpdateStatus:
    """End the attempt for which an object could not be read: nothing more can be decided."""
    return cannot_continue(o, text) or status_transitions.rollback_started(
        o, text, Phase.PENDING, is_failure=True
    )


def handler_failed(o: Observation, text: str) -> UpdateStatus:
    """Give up a migration whose handling fails again and again, by an error of the program."""
    message = f"unexpected error: {text}"
    return cannot_continue(o, message) or status_transitions.rollback_started(
        o, message, Phase.FAILED
    )


def cannot_continue(o: Observation, text: str) -> UpdateStatus | None:
    """Fail a migration whose rollback or whose last step is impossible; None before that."""
    status = o.migration.status
    if status.step == Step.UNDOING:
        return status_transitions.failed(o, f"{status.message}; not undone: {text}")
    if status.step == Step.LANDING:
        return status_transitions.failed(o, f"{NOT_FINISHED}: {text}")
    return None


def release_room(o: Observation) -> PatchPod | None:
    """Give the target's room free if the new pod must stay: the server refuses its deletion.

    If that is refused as well, the room stays reserved until the pod is cleaned up.
    """
    if o.new is None or o.new.node or not o.new.status.nominated_node_name:
        return None
    if [refusal.uid for refusal in o.refusals].count(o.new.uid) != 1:
        return None
    patch = {"status": {"nominatedNodeName": None}}
    return PatchPod("clear-nomination", o.new, patch, subresource="status")


def without_refused(o: Observation) -> Observation:
    """What is left to undo, without the objects whose changes the server refuses to take back.

    A copy is not deleted if its original could not be restored: that write would have proven that
    the original exists.
    """
    refused = {refusal.uid for refusal in o.refusals}
    is_old_refused = o.old is not None and o.old.uid in refused
    is_new_refused = o.new is not None and o.new.uid in refused
    is_copy_kept = is_old_refused and o.migration.status.mode == Mode.RECREATE
    is_budget_refused = o.own_budget is not None and o.own_budget.metadata.uid in refused
    return replace(
        o,
        old=None if is_old_refused else o.old,
        new=None if is_new_refused or is_copy_kept else o.new,
        own_budget=None if is_budget_refused else o.own_budget,
    )
