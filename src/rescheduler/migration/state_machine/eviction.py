"""Evict: the old pod goes first, and its controller replaces it.

For pods that cannot run twice, and for controllers that adopt nothing. There is no way back once
the pod is evicted; so what follows is only watching where the replacement lands. It is found by
its owner, its time and the version of its template, in a StatefulSet by its part in it.
"""

from datetime import timedelta
from typing import Any

import msgspec

from rescheduler.labels import MIGRATION_ID, MIGRATION_NAME
from rescheduler.migration import pod_marks
from rescheduler.migration.migration_object import Migration, Phase, Step
from rescheduler.migration.moving_pod import MovingPod, PodMeta
from rescheduler.migration.new_pod import SUFFIX_LENGTH, suffix, template_hash
from rescheduler.migration.state_machine import status_transitions
from rescheduler.migration.state_machine.actions import (
    Action,
    Ask,
    CreateBudget,
    DeleteBudget,
    EvictPod,
    PatchPod,
    Question,
    Wait,
)
from rescheduler.migration.state_machine.diagnosis import why_not_ready
from rescheduler.migration.state_machine.mode_selection import reference_to
from rescheduler.migration.state_machine.observation import Observation, is_marked
from rescheduler.model.moves import Mode, Outcome

LEAST_GRACE_SECONDS = 30


def start(o: Observation) -> Action:
    """Begin."""
    assert o.old is not None
    return status_transitions.started(o, Mode.EVICT, Step.EVICTING, reference_to(o.old, o))


def is_past_undoing(o: Observation) -> bool:
    """Whether the old pod has been evicted, or at least is no longer there to stay."""
    step = o.migration.status.step
    return step == Step.LANDING or (step == Step.EVICTING and not o.has_old)


def go_on(o: Observation) -> Action:
    """The next thing to do before the old pod goes."""
    assert o.old is not None
    if not is_marked(o.old, o.migration):
        return PatchPod("mark-old", o.old, pod_marks.marking(o.old, o.migration, o.now))
    return protect(o) or evict(o, o.old)


def protect(o: Observation) -> Action | None:
    """Make a budget for a Deployment that has none; None when there is nothing to wait for.

    Never a second one: the server evicts no pod that two budgets protect.
    """
    wanted = o.options.deployment_coordination and o.workload is not None
    if not wanted or o.budgets or o.workload is None or o.workload.deployment is None:
        return None
    if o.own_budget is None:
        return CreateBudget("create-budget", temporary_budget(o))
    if o.own_budget.status.observed_generation == 0:
        return wait_or_fail(o, "the temporary disruption budget has not been looked at yet")
    return None


def evict(o: Observation, old: MovingPod) -> Action:
    """Ask once more, and evict."""
    answer = o.answers.eviction
    if answer is None:
        return Ask(Question.EVICTION)
    if not answer.is_allowed:
        return start_budget_anew(o, old) or wait_or_fail(o, answer.text)
    return EvictPod("evict", old, grace_of(old))


def start_budget_anew(o: Observation, old: MovingPod) -> Action | None:
    """Delete our own budget if an eviction that was cut off has used it up.

    The server counts a pod as let go before it deletes it. If whoever asked dies in between, the
    pod stays, and a budget forgets it only after two minutes.
    """
    budget = o.own_budget
    if budget is None or old.metadata.name not in budget.status.disrupted_pods:
        return None
    return DeleteBudget("delete-budget", budget.metadata.key, budget.metadata.uid)


def grace_of(pod: MovingPod) -> int:
    """How long the pod has to stop: what it asks for, and never less than 30 seconds."""
    return max(LEAST_GRACE_SECONDS, pod.spec.termination_grace_period_seconds or 0)


def finish(o: Observation) -> Action:
    """The old pod was evicted: find its replacement, and see where it lands."""
    if o.migration.status.step == Step.EVICTING:
        return status_transitions.landing(o)
    if o.old is not None:
        # Its replacement may wait for it, too. It has been promised its time, but not more.
        left = time_to_go(o, o.old)
        if left > timedelta(0):
            return Wait(left.total_seconds())
        return status_transitions.failed(
            o, f"pod {o.old.metadata.name} does not end on {o.old.node}"
        )
    if o.answers.candidates is None:
        return Ask(Question.CANDIDATES)
    new = replacement(o, o.answers.candidates)
    if new is None:
        return none_yet(o)
    if not is_marked(new, o.migration):
        claim = pod_marks.claiming(new, o.migration, o.now)
        return PatchPod("claim", new, claim)
    if not new.is_ready and not new.is_over:
        return not_ready_yet(o, new)
    return tidy_up(o, new) or landed(o, new)


def time_to_go(o: Observation, old: MovingPod) -> timedelta:
    """How long a pod that was asked to go may still take: its grace, and a step's time on top."""
    promised = old.metadata.deletion_timestamp
    return (o.now if promised is None else promised) + o.timeout - o.now


def replacement(o: Observation, candidates: tuple[MovingPod, ...]) -> MovingPod | None:
    """The pod that took the old one's place: the one we claimed, else the likeliest."""
    able = [pod for pod in candidates if may_replace(o, pod)]
    target = o.migration.spec.target_node
    return min(
        able,
        key=lambda pod: (not is_marked(pod, o.migration), pod.node != target, pod.metadata.name),
        default=None,
    )


def may_replace(o: Observation, pod: MovingPod) -> bool:
    """Whether a pod can be the replacement, whatever it is called."""
    since, made = (
        status_transitions.time_of(o.migration, status_transitions.STARTED),
        pod.metadata.creation_timestamp,
    )
    if made is None or since is None or not has_its_part(pod.metadata, o.migration):
        return False
    claimed_by = pod.metadata.labels.get(MIGRATION_ID, o.migration.metadata.uid)
    return (
        pod.uid != o.migration.spec.pod.uid
        and not pod.is_deleting
        # The server keeps whole seconds.
        and made >= since.replace(microsecond=0)
        and claimed_by == o.migration.metadata.uid
    )


def has_its_part(pod: PodMeta, migration: Migration) -> bool:
    """Whether a pod plays the part of the one that is moved, for the same controller.

    Pods of a StatefulSet have a part each, which their name tells; elsewhere all pods of the same
    version do the same.
    """
    whose, owner = migration.status.workload, pod.controller
    if whose is None or owner is None or owner.uid != whose.uid:
        return False
    if is_of_stateful_set(migration):
        return pod.name == migration.spec.pod.name
    return template_hash(pod.labels) == whose.template_hash


def is_of_stateful_set(migration: Migration) -> bool:
    """Whether each pod of the workload has a name and a part of its own."""
    workload = migration.status.workload
    return workload is not None and workload.kind == "StatefulSet"


def none_yet(o: Observation) -> Action:
    """Wait for a replacement, but not for ever."""
    left = o.step_ends - o.now
    if left > timedelta(0):
        return Wait(left.total_seconds())
    if (budget := o.own_budget) is not None:
        return DeleteBudget("delete-budget", budget.metadata.key, budget.metadata.uid)
    seconds = o.timeout.total_seconds()
    return status_transitions.failed(o, f"no replacement within {seconds:.0f}s after the eviction")


def not_ready_yet(o: Observation, new: MovingPod) -> Action:
    """Wait until the replacement is Ready, but not for ever: then leave it to its controller."""
    left = o.step_ends - o.now
    if left > timedelta(0):
        return Wait(left.total_seconds())
    if (tidying := tidy_up(o, new)) is not None:
        return tidying
    seconds = o.timeout.total_seconds()
    name = new.metadata.name
    return status_transitions.failed(
        o, f"replacement {name} not Ready after {seconds:.0f}s: {why_not_ready(new)}"
    )


def tidy_up(o: Observation, new: MovingPod) -> Action | None:
    """End what was temporary; None when nothing is left."""
    if o.own_budget is not None:
        delay = timedelta(seconds=o.options.cleanup_delay_seconds)
        left = (new.ready_since or o.now) + delay - o.now
        if new.is_ready and left > timedelta(0):
            return Wait(left.total_seconds())
        metadata = o.own_budget.metadata
        return DeleteBudget("delete-budget", metadata.key, metadata.uid)
    if pod_marks.is_in_progress(new):
        return PatchPod("complete", new, pod_marks.completing())
    return None


def landed(o: Observation, new: MovingPod) -> Action:
    """Tell where the replacement is."""
    name, target = new.metadata.name, o.migration.spec.target_node
    outcome, message = Outcome.ELSEWHERE, f"{name} landed on {new.node} instead of {target}"
    if new.node == target:
        outcome, message = Outcome.LANDED, f"{name} serves on {new.node}"
    elif new.node == o.migration.status.source_node:
        outcome, message = Outcome.CAME_BACK, f"{name} came back to {new.node} instead of {target}"
    steered = pod_marks.is_steered(new, o.migration)
    if not steered:
        message += ", unsteered"
    return status_transitions.completed(o, outcome, new.node, message, steered)


def wait_or_fail(o: Observation, text: str) -> Action:
    """Wait until the pod may be evicted, but not for ever."""
    left = o.step_ends - o.now
    if left <= timedelta(0):
        seconds = o.timeout.total_seconds()
        message = f"not evicted after {seconds:.0f}s: {text}"
        return status_transitions.undoing(o, message, Phase.PENDING, counts=True)
    return Wait(left.total_seconds(), f"waits: {text}")


def budget_name(migration: Migration) -> str:
    """The name of a migration's temporary budget: the same each time, so there is only one."""
    return f"rescheduler-{suffix(migration.metadata.uid, 0, 2 * SUFFIX_LENGTH)}"


def temporary_budget(o: Observation) -> dict[str, Any]:
    """A budget for the pods of the workload that says whose it is."""
    assert o.workload is not None
    options = o.options.temporary_budget
    limit: dict[str, Any] = {"maxUnavailable": options.max_unavailable}
    if options.min_available is not None:
        limit = {"minAvailable": options.min_available}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {
            "name": budget_name(o.migration),
            "namespace": o.migration.metadata.namespace,
            "labels": {MIGRATION_ID: o.migration.metadata.uid},
            "annotations": {MIGRATION_NAME: o.migration.metadata.name},
        },
        "spec": {"selector": msgspec.to_builtins(o.workload.selector), **limit},
    }
