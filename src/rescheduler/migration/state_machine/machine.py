"""The state machine: what was observed in, the next action out.

    Pending ──start──> InProgress ─────────────────────────────> Completed
       ^                   │  Handoff, Recreate: Starting, HandingOver
       │                   │  Evict: Evicting, Landing
       │                   v
       └──retry──────── Undoing ──────> Failed, Cancelled

It holds no state and reads no clock. Ask it again after every action, and after every change of
the cluster: from the same observation it decides the same, and it trusts no earlier decision,
only what is there. So it may be stopped between any two actions and asked by another process.

The order of writes keeps two promises. Nothing is touched before the status says that the
migration is in progress, so what has been touched is always looked after. And nothing is put back
before the status says `Undoing` and why, so that an undoing which is interrupted is finished.
"""

from datetime import timedelta
from types import ModuleType

from rescheduler.labels import MIGRATION_NAME
from rescheduler.migration import pod_marks
from rescheduler.migration.migration_object import Phase, Step
from rescheduler.migration.state_machine import eviction, handoff, recreation, status_transitions
from rescheduler.migration.state_machine.actions import Action, Ask, Forget, Question, Record, Wait
from rescheduler.migration.state_machine.diagnosis import rollout, target_trouble, workload_change
from rescheduler.migration.state_machine.mode_selection import CannotMove, select_mode
from rescheduler.migration.state_machine.observation import Observation, is_marked
from rescheduler.migration.state_machine.rollback import undo
from rescheduler.model.moves import Mode

WAYS: dict[Mode, ModuleType] = {
    Mode.HANDOFF: handoff,
    Mode.EVICT: eviction,
    Mode.RECREATE: recreation,
}


def decide(o: Observation) -> Action:
    """The next thing to do for this migration."""
    migration = o.migration
    if migration.is_finished:
        return keep_for_a_while(o)
    if migration.status.phase == Phase.PENDING:
        return begin(o)
    way = WAYS[migration.status.mode or Mode.EVICT]
    if way.is_past_undoing(o):
        return way.finish(o)  # type: ignore[no-any-return]
    if migration.status.step == Step.UNDOING:
        return undo(o)
    return why_stop(o) or way.go_on(o)


def keep_for_a_while(o: Observation) -> Action:
    """A finished Migration is kept for people and for the planner's memory, then deleted."""
    ttl = o.migration.spec.ttl_seconds_after_finished
    seconds = o.options.keep_seconds if ttl is None else ttl
    finished_at = o.migration.status.finished_at or o.now
    left = finished_at + timedelta(seconds=seconds) - o.now
    return Forget() if left <= timedelta(0) else Wait(left.total_seconds())


def begin(o: Observation) -> Action:
    """Start it, or say why it does not start: nothing has been touched yet."""
    if o.migration.spec.paused:
        return Wait(message="paused")
    if (gone := why_nothing_to_move(o)) is not None:
        return status_transitions.cancelled(o, gone)
    if o.migration.status.retry_at is not None and o.migration.status.retry_at > o.now:
        return Wait((o.migration.status.retry_at - o.now).total_seconds())
    if o.no_place:
        return Wait()
    if other := other_migration(o):
        return Wait(message=f"waits: Migration {other} is moving the pod")
    try:
        mode = select_mode(o)
    except CannotMove as problem:
        return status_transitions.failed(o, str(problem))
    if trouble := target_trouble(o):
        return status_transitions.undoing(o, trouble, Phase.PENDING, counts=True)
    if o.workload is not None and (change := workload_change(o.workload)):
        return Wait(message=f"waits: {change}")
    return ask_budgets(o, mode) or WAYS[mode].start(o)


def why_nothing_to_move(o: Observation) -> str | None:
    """What has become of the pod, if it is not there to be moved."""
    name = o.migration.spec.pod.name
    if o.old is None:
        return f"pod {name} (uid {o.migration.spec.pod.uid}) is gone"
    if o.old.is_deleting:
        return f"pod {name} is being deleted"
    if o.old.is_over:
        return f"pod {name} has ended"
    if o.old.node == o.migration.spec.target_node:
        return f"pod {name} is on {o.old.node} already"
    return None


def ask_budgets(o: Observation, mode: Mode) -> Action | None:
    """What the disruption budgets say before anything is begun; None if they agree.

    A pod that is not Ready, and a workload that has fewer healthy pods than its budget wants, is
    no case for us. A budget that allows no disruption is: a handoff adds a pod before it takes
    one away.
    """
    assert o.old is not None
    if mode != Mode.EVICT and not o.old.is_ready:
        return Wait(message=f"waits: pod {o.old.metadata.name} is not Ready")
    for budget in o.budgets:
        if budget.status.current_healthy < budget.status.desired_healthy:
            name = budget.metadata.name
            return Wait(message=f"waits: disruption budget {name} is short of healthy pods")
    answer = o.answers.eviction
    if answer is None:
        return Ask(Question.EVICTION)
    if answer.is_allowed or (answer.by_budget and mode != Mode.EVICT):
        return None
    if answer.by_budget:
        return Wait(message=f"waits: {answer.text}")
    return status_transitions.undoing(o, answer.text, Phase.PENDING, counts=True)


def why_stop(o: Observation) -> Action | None:
    """What ends an attempt whatever its way; None if nothing does."""
    if o.migration.spec.paused:
        return status_transitions.undoing(o, "paused", Phase.PENDING)
    if other := other_migration(o):
        return status_transitions.undoing(
            o, f"Migration {other} is moving the pod", Phase.CANCELLED
        )
    if o.workload is None and o.migration.status.mode == Mode.HANDOFF:
        return status_transitions.undoing(o, "its workload is gone", Phase.CANCELLED)
    if o.workload is not None and (change := why_leave_alone(o)):
        return status_transitions.undoing(o, change, Phase.CANCELLED)
    if trouble := target_trouble(o):
        return status_transitions.undoing(o, trouble, Phase.PENDING, counts=True)
    return None


def other_migration(o: Observation) -> str:
    """The name of another Migration that has begun to move the same pod, or nothing."""
    if o.old is None or not pod_marks.is_in_progress(o.old) or is_marked(o.old, o.migration):
        return ""
    return o.old.metadata.annotations.get(MIGRATION_NAME, "that is gone")


def refused(o: Observation, text: str) -> Record:
    """The server does not accept the new pod: quota, a webhook, a policy. Its text says why."""
    return status_transitions.undoing(o, f"new pod refused: {text}", Phase.PENDING, counts=True)


def why_leave_alone(o: Observation) -> str:
    """What the workload's owner has begun to do with it, or nothing."""
    assert o.workload is not None
    began_with = o.migration.status.workload
    if o.workload.is_going:
        return f"{o.workload.name} is being deleted"
    if began_with is not None and o.workload.replicas < (began_with.replicas or 0):
        return f"{o.workload.name} was scaled from {began_with.replicas} to {o.workload.replicas}"
    return rollout(o.workload)
