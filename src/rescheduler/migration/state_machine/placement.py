"""Placement: a gated pod is nominated to its target, then its gate is opened.

The scheduler tries the nominated node before all others, with all its filters, and until then it
keeps the room there free from pods of the same or lower priority. The pod's spec is never changed.
If the target no longer takes the pod when it is scheduled, the scheduler places it elsewhere, or
evicts others for it if it fits nowhere. So the target is checked just before the gate is opened.
"""

from datetime import timedelta
from typing import Any

from rescheduler.labels import CREATED_BY_US
from rescheduler.migration.migration_labels import rfc3339
from rescheduler.migration.moving_pod import MovingPod
from rescheduler.migration.state_machine import status_transitions
from rescheduler.migration.state_machine.actions import Action, Ask, PatchPod, Question, Wait
from rescheduler.migration.state_machine.observation import Observation


def nominate(o: Observation, new: MovingPod) -> Action | None:
    """Mark a gated pod as ours, and reserve the target's room for it; None if that has been done.

    From its gate is opened until it is adopted, only the mark proves that we have created it.
    """
    target = o.migration.spec.target_node
    is_nominated = new.status.nominated_node_name == target
    if not new.is_gated_by_us or (is_nominated and new.is_marked_as_created):
        return None
    return PatchPod(
        "nominate",
        new,
        {"status": {"nominatedNodeName": target, "conditions": [created_by_us(o)]}},
        subresource="status",
        is_strategic=True,
    )


def created_by_us(o: Observation) -> dict[str, Any]:
    """The condition of a pod that this migration has created."""
    return {
        "type": CREATED_BY_US,
        "status": "True",
        "reason": "CreatedByMigration",
        "message": f"Migration {o.migration.metadata.name} has created the pod",
        "lastTransitionTime": rfc3339(o.now),
    }


def give_away(new: MovingPod) -> PatchPod | None:
    """Remove the mark of a pod that stays, so that we never delete it; None if it has none."""
    if not new.is_marked_as_created:
        return None
    patch = {"status": {"conditions": [{"type": CREATED_BY_US, "$patch": "delete"}]}}
    return PatchPod("give-away", new, patch, subresource="status", is_strategic=True)


def open_gate(o: Observation, new: MovingPod) -> Action | None:
    """Let the scheduler place a nominated pod; None if it has been asked to.

    Gates of others are not ours to open. The target's room is reserved while we wait for them,
    unless the scheduler is restarted meanwhile: it does not look at gated pods when it starts.
    """
    if not new.is_gated_by_us:
        return None
    if foreign := new.foreign_gates:
        return wait_or_fail(o, f"new pod has scheduling gates of others: {', '.join(foreign)}")
    answer = o.answers.target
    if answer is None:
        return Ask(Question.TARGET)
    if not answer.is_known:
        # Mostly that takes milliseconds, which are not worth a message.
        return wait_or_fail(o, "no watch shows the new pod and its target", is_reported=False)
    if answer.refusal:
        target = o.migration.spec.target_node
        message = f"new pod does not fit on {target}: {answer.refusal}"
        return status_transitions.new_pod_unschedulable(o, message)
    return PatchPod("open-gate", new, {"spec": {"schedulingGates": None}})


def clear_nomination(o: Observation, new: MovingPod) -> Action | None:
    """Remove what servers before 1.35 leave in the status of a pod that was bound, if it is there.

    It does no harm, but a moved pod should look like any other.
    """
    if not new.node or not new.status.nominated_node_name:
        return None
    patch = {"status": {"nominatedNodeName": None}}
    return PatchPod("clear-nomination", new, patch, subresource="status")


def misplaced(o: Observation, new: MovingPod) -> Action | None:
    """Give up a new pod that was placed on another node than its target; None if it was not.

    If the target would take it all the same, its scheduler does not look at nominations.
    """
    target = o.migration.spec.target_node
    if not new.node or new.node == target:
        return None
    answer = o.answers.target
    if answer is None:
        return Ask(Question.TARGET)
    message = f"new pod {new.metadata.name} was placed on {new.node} instead of {target}"
    if answer.refusal:
        return status_transitions.attempt_failed(o, f"{message}: {answer.refusal}")
    return status_transitions.nomination_ignored(o, message, new.spec.scheduler_name)


def wait_or_fail(o: Observation, reason: str, *, is_reported: bool = True) -> Action:
    """Wait until the reason no longer holds; after the timeout, fail the attempt."""
    left = o.step_deadline - o.now
    if left <= timedelta(0):
        seconds = o.timeout.total_seconds()
        return status_transitions.attempt_failed(o, f"after {seconds:.0f}s {reason}")
    return Wait(left.total_seconds(), f"waiting: {reason}" if is_reported else "")
