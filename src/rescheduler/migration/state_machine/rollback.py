"""Rolls an attempt back, whatever its mode, one write at a time. The step's name is `Undoing`."""

from rescheduler.migration import migration_labels
from rescheduler.migration.migration_labels import is_labelled_for
from rescheduler.migration.moving_pod import MovingPod
from rescheduler.migration.state_machine import service_departure
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
        service_departure.rejoin_services(own_old_pod(o), o.now)
        or (is_copy and restore_old_pod(o))
        or delete_new_pod(o)
        or restore_old_pod(o)
        or delete_budget(o)
        or rollback_finished(o)
    )


def delete_new_pod(o: Observation) -> Action | None:
    """Delete the new pod, if this migration has created it and no workload has adopted it.

    A pod that was given to its workload is deleted if the workload no longer exists: nobody would.
    """
    if o.new is None or not o.is_new_ours or o.new.is_deleting:
        return None
    is_orphan = o.workload is None and o.migration.status.mode == Mode.HANDOFF
    is_unadopted = o.new.metadata.controller is None
    if is_unadopted and (is_orphan or migration_labels.is_in_progress(o.new)):
        return service_departure.leave_in_rollback(o, o.new) or DeletePod("delete-new", o.new)
    return None


def restore_old_pod(o: Observation) -> Action | None:
    """Restore the status, the labels and the annotations of the old pod."""
    old = own_old_pod(o)
    if old is None:
        return None
    return service_departure.rejoin_services(old, o.now) or PatchPod(
        "restore-old", old, migration_labels.restore_patch(old)
    )


def own_old_pod(o: Observation) -> MovingPod | None:
    """The old pod, if this migration has labelled it and it is not being deleted."""
    if o.old is None or o.old.is_deleting or not is_labelled_for(o.old, o.migration):
        return None
    return o.old


def delete_budget(o: Observation) -> Action | None:
    """Delete the temporary disruption budget."""
    if o.own_budget is not None:
        metadata = o.own_budget.metadata
        return DeleteBudget("delete-budget", metadata.key, metadata.uid)
    return None
