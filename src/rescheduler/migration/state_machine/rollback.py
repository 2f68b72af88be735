"""Put everything back as it was, whatever way was begun: one thing at a time."""

from rescheduler.migration import pod_marks
from rescheduler.migration.moving_pod import MovingPod
from rescheduler.migration.state_machine.actions import Action, DeleteBudget, DeletePod, PatchPod
from rescheduler.migration.state_machine.observation import Observation, is_marked
from rescheduler.migration.state_machine.status_transitions import undone
from rescheduler.model.moves import Mode


def undo(o: Observation) -> Action:
    """The next thing to put back; when nothing is left, the attempt is over.

    The new pod goes first: while it exists, another controller could still hand over to it. But a
    copy goes last: what is written on the original shows that it is there, and makes sure that no
    eviction which is still on its way takes it.
    """
    is_copy = o.migration.status.mode == Mode.RECREATE
    return (is_copy and restore(o)) or delete_new(o) or restore(o) or delete_budget(o) or undone(o)


def delete_new(o: Observation) -> Action | None:
    """Delete the pod that was made, if it is still ours."""
    if o.new is not None and o.is_ours and is_ours_to_delete(o.new):
        return DeletePod("delete-new", o.new)
    return None


def restore(o: Observation) -> Action | None:
    """Take off what was written on the old pod."""
    if o.old is not None and is_marked(o.old, o.migration) and not o.old.is_deleting:
        return PatchPod("restore-old", o.old, pod_marks.restoring(o.old))
    return None


def delete_budget(o: Observation) -> Action | None:
    """Delete the temporary budget."""
    if o.own_budget is not None:
        metadata = o.own_budget.metadata
        return DeleteBudget("delete-budget", metadata.key, metadata.uid)
    return None


def is_ours_to_delete(pod: MovingPod) -> bool:
    """Whether it is a pod that we made and nobody has taken over yet."""
    return not pod.is_deleting and pod.metadata.controller is None and pod_marks.is_in_progress(pod)
