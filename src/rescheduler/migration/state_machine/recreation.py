"""Recreate: a pod without a controller is copied to its target, then the original is evicted.

Nobody else would bring such a pod back. So the copy is only ever deleted while the original is
there, and once the original has been evicted the copy stays, whatever happens.
"""

from datetime import timedelta

from rescheduler.migration import pod_marks
from rescheduler.migration.migration_object import Phase, Step
from rescheduler.migration.moving_pod import MovingPod
from rescheduler.migration.state_machine import status_transitions
from rescheduler.migration.state_machine.actions import (
    Action,
    Ask,
    CreatePod,
    EvictPod,
    PatchPod,
    Question,
    Wait,
)
from rescheduler.migration.state_machine.eviction import grace_of, time_to_go
from rescheduler.migration.state_machine.handoff import (
    ask_budgets,
    fail,
    landed,
    until_ready,
    wait_or_fail,
)
from rescheduler.migration.state_machine.observation import Observation, is_marked
from rescheduler.model.moves import Mode


def start(o: Observation) -> Action:
    """Begin."""
    return status_transitions.started(o, Mode.RECREATE, Step.STARTING, None)


def is_past_undoing(o: Observation) -> bool:
    """Whether the original was evicted. One that went before we asked was somebody's wish.

    That it goes may show only when the undoing has begun.
    """
    status = o.migration.status
    was_asked_to_go = status.step in (Step.HANDING_OVER, Step.UNDOING) and bool(status.new_node)
    return was_asked_to_go and not o.has_old


def finish(o: Observation) -> Action:
    """The original is going: the copy has taken its place."""
    if o.new is None or not o.is_ours:
        return status_transitions.failed(
            o, f"copy {o.migration.status.new_pod} was deleted by someone"
        )
    if pod_marks.is_in_progress(o.new):
        return PatchPod("complete", o.new, pod_marks.completing())
    left = time_to_go(o, o.old) if o.old is not None else timedelta(0)
    return Wait(left.total_seconds()) if left > timedelta(0) else landed(o, o.new)


def go_on(o: Observation) -> Action:
    """The next thing to do before the original goes."""
    if not o.has_old:
        gone = f"pod {o.migration.spec.pod.name} went by itself"
        return status_transitions.undoing(o, gone, Phase.CANCELLED)
    assert o.old is not None
    if not is_marked(o.old, o.migration):
        return PatchPod("mark-old", o.old, pod_marks.marking(o.old, o.migration, o.now))
    if o.new is None:
        return create(o, o.old)
    if not o.is_ours:
        return fail(o, f"a pod named {o.new.metadata.name} was there already")
    if not o.migration.status.new_pod:
        return status_transitions.new_pod_made(o)
    return until_ready(o, o.new) or retire(o, o.old)


def create(o: Observation, old: MovingPod) -> Action:
    """Make the copy; if it had been made, someone has removed it."""
    if o.migration.status.new_pod:
        return fail(o, f"copy {o.migration.status.new_pod} was deleted by someone")
    return CreatePod("create-copy", {}, copy_of=old)


def retire(o: Observation, old: MovingPod) -> Action:
    """The copy is Ready: evict the original, if its budgets agree."""
    if o.migration.status.step == Step.STARTING:
        return ask_budgets(o) or status_transitions.handing_over(o)
    answer = o.answers.eviction
    if answer is None:
        return Ask(Question.EVICTION)
    if not answer.is_allowed:
        return wait_or_fail(o, answer.text)
    return EvictPod("evict", old, grace_of(old), only_as_seen=True)
