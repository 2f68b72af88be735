"""Recreate: a pod without a controller is copied to its target, then the original is evicted.

Nobody else would replace such a pod. So the copy is only ever deleted while the original exists,
and once the original has been evicted the copy stays, whatever happens.
"""

from datetime import timedelta

from rescheduler.migration import migration_labels
from rescheduler.migration.migration_labels import is_labelled_for
from rescheduler.migration.migration_object import Phase, Step
from rescheduler.migration.moving_pod import MovingPod
from rescheduler.migration.state_machine import (
    handoff,
    placement,
    service_departure,
    status_transitions,
)
from rescheduler.migration.state_machine.actions import (
    Action,
    Ask,
    CreatePod,
    EvictPod,
    PatchPod,
    Question,
    Wait,
)
from rescheduler.migration.state_machine.eviction import grace_seconds_of, termination_time_left
from rescheduler.migration.state_machine.observation import Observation
from rescheduler.model.moves import Mode


def start(o: Observation) -> Action:
    """Record that an attempt starts."""
    return status_transitions.started(o, Mode.RECREATE, Step.STARTING, None)


def is_committed(o: Observation) -> bool:
    """Whether we evicted the original. If it was deleted earlier, somebody else did that.

    `Undoing` counts: that the original is terminating may show only after a rollback has started.
    """
    status = o.migration.status
    may_be_evicted = status.step in (Step.HANDING_OVER, Step.UNDOING) and bool(status.new_node)
    return may_be_evicted and not o.is_old_running


def finish(o: Observation) -> Action:
    """The original is terminating: the copy has replaced it."""
    if o.new is None or not o.is_new_ours:
        return status_transitions.failed(
            o, f"copy {o.migration.status.new_pod} was deleted by somebody else"
        )
    if migration_labels.is_in_progress(o.new):
        return PatchPod("complete", o.new, migration_labels.completed_patch())
    if action := placement.give_away(o.new):
        return action
    left = termination_time_left(o, o.old) if o.old is not None else timedelta(0)
    return Wait(left.total_seconds()) if left > timedelta(0) else handoff.complete(o, o.new)


def advance(o: Observation) -> Action:
    """The next action before the original is evicted."""
    if not o.is_old_running:
        reason = f"pod {o.migration.spec.pod.name} was deleted or has finished"
        return status_transitions.rollback_started(o, reason, Phase.CANCELLED)
    assert o.old is not None
    if o.new is None:
        return create(o, o.old)
    return (
        handoff.prepare(o, o.old, o.new)
        or handoff.rejoin_unless_replaced(o, o.old, o.new)
        or handoff.wait_until_ready(o, o.new)
        or evict_original(o, o.old)
    )


def create(o: Observation, old: MovingPod) -> Action:
    """Create the copy, unless it was created before and somebody has deleted it."""
    if is_labelled_for(old, o.migration):
        return status_transitions.attempt_failed(
            o, f"copy {o.migration.status.new_pod} was deleted by somebody else"
        )
    return CreatePod("create-copy", {}, copy_of=old)


def evict_original(o: Observation, old: MovingPod) -> Action:
    """The copy is Ready: evict the original, if its disruption budgets allow it."""
    if o.migration.status.step == Step.STARTING:
        return (
            (old.is_ready and handoff.check_budgets(o))
            or service_departure.leave_services(o, old, handoff.wait_or_fail)
            or status_transitions.handing_over(o)
        )
    if action := service_departure.leave_services(o, old, handoff.wait_or_fail):
        return action
    answer = o.answers.eviction
    if answer is None:
        return Ask(Question.EVICTION)
    if not answer.is_allowed:
        return handoff.postpone(o, old, answer.text)
    return EvictPod("evict", old, grace_seconds_of(old))
