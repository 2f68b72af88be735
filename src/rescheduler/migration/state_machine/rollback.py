"""Rolls an attempt back, whatever its mode, one write at a time. The step's name is `Undoing`."""

from rescheduler.migration import migration_labels
from rescheduler.migration.migration_labels import is_labelled_for
from rescheduler.migration.moving_pod import MovingPod
from rescheduler.migration.state_machine.actions import Action, DeleteBudget, DeletePod, PatchPod
from rescheduler.migration.state_machine.observation import Observation
from rescheduler.migration.state_machine.status_transitions import rollback_finished
from rescheduler.model.moves import Mode


def roll_back(o: Observation) -> Action:
    """The next write of a rollback; when nothing is left, the attempt has ended.

    The new pod is deleted first: while it exists, another controller could still hand over to it.
    But a copy is deleted last. The patch that restores the original proves that the original
    exists, and gives it a new version, so that an eviction still on its way is rejected.
    """
    is_copy = o.migration.status.mode == Mode.RECREATE
    return (
        (is_copy and restore_old_pod(o))
        or delete_new_pod(o)
        or restore_old_pod(o)
        or delete_budget(o)
        or rollback_finished(o)
    )


def delete_new_pod(o: Observation) -> Action | None:
    """Delete the new pod, if this migration has created it and no workload has adopted it."""
    if o.new is not None and o.is_new_ours and may_be_deleted(o.new):
        return DeletePod("delete-new", o.new)
    return None


def restore_old_pod(o: Observation) -> Action | None:
    """Restore the labels and annotations of the old pod."""
    if o.old is not None and is_labelled_for(o.old, o.migration) and not o.old.is_deleting:
        return PatchPod("restore-old", o.old, migration_labels.restore_patch(o.old))
    return None


def delete_budget(o: Observation) -> Action | None:
    """Delete the temporary disruption budget."""
    if o.own_budget is not None:
        metadata = o.own_budget.metadata
        return DeleteBudget("delete-budget", metadata.key, metadata.uid)
    return None


def may_be_deleted(pod: MovingPod) -> bool:
    """Whether a pod that a migration has created is not adopted, committed or terminating yet."""
    return (
        not pod.is_deleting
        and pod.metadata.controller is None
        and migration_labels.is_in_progress(pod)
    )
