"""Put everything back as it was, whatever way was begun: one thing at a time."""

from rescheduler.migration import marks, progress
from rescheduler.migration.actions import Action, DeleteBudget, DeletePod, PatchPod
from rescheduler.migration.observation import Observation, is_marked
from rescheduler.migration.pods import MovingPod


def undo(o: Observation) -> Action:
    """The next thing to put back; when nothing is left, the attempt is over.

    The new pod goes first: while it exists, another controller could still hand over to it.
    """
    if o.new is not None and o.is_ours and is_ours_to_delete(o.new):
        return DeletePod("delete-new", o.new)
    if o.old is not None and is_marked(o.old, o.migration) and not o.old.is_deleting:
        return PatchPod("restore-old", o.old, marks.restoring(o.old))
    if o.own_budget is not None:
        metadata = o.own_budget.metadata
        return DeleteBudget("delete-budget", metadata.key, metadata.uid)
    return progress.undone(o)


def is_ours_to_delete(pod: MovingPod) -> bool:
    """Whether it is a pod that we made and nobody has taken over yet."""
    return not pod.is_deleting and pod.metadata.controller is None and marks.is_in_progress(pod)
