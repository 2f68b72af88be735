"""Evict: the old pod is evicted first, and its controller replaces it.

For pods that must not run twice, and for controllers that adopt no pods. An eviction cannot be
rolled back. After it, the replacement is found (`migration/replacement.py`) and followed to the
node where it lands.
"""

from datetime import timedelta
from typing import Any

import msgspec

from rescheduler.labels import MIGRATION_ID, MIGRATION_NAME
from rescheduler.migration import migration_labels
from rescheduler.migration.migration_labels import is_labelled_for
from rescheduler.migration.migration_object import OLD_POD_ENDED, Phase, Step
from rescheduler.migration.moving_pod import MovingPod
from rescheduler.migration.new_pod import SUFFIX_LENGTH, suffix
from rescheduler.migration.replacement import (
    existed_before,
    has_same_role,
    is_of_stateful_set,
)
from rescheduler.migration.state_machine import service_departure, status_transitions
from rescheduler.migration.state_machine.actions import (
    Action,
    Ask,
    CreateBudget,
    EvictPod,
    PatchPod,
    Question,
    Wait,
)
from rescheduler.migration.state_machine.diagnosis import (
    incomplete_reason,
    not_ready_reason,
    termination_reason,
)
from rescheduler.migration.state_machine.mode_selection import workload_reference
from rescheduler.migration.state_machine.observation import Observation, PodId, WorkloadPods
from rescheduler.migration.state_machine.rollback import delete_budget
from rescheduler.migration.state_machine.service_departure import soon
from rescheduler.model.moves import Mode, Outcome
from rescheduler.model.rules.immovable_pods import is_job

MIN_GRACE_SECONDS = 30
# A second for the precision of creation times, two for the difference of the clocks.
SIBLING_AGE = timedelta(seconds=3)


def start(o: Observation) -> Action:
    """Record that an attempt starts."""
    assert o.old is not None
    return status_transitions.started(o, Mode.EVICT, Step.EVICTING, workload_reference(o.old, o))


def is_committed(o: Observation) -> bool:
    """Whether the old pod has been evicted, or is terminating anyway."""
    step = o.migration.status.step
    if o.old is not None and o.old.is_finished and not o.old.is_deleting:
        return False
    return step == Step.LANDING or (step == Step.EVICTING and not o.is_old_running)


def advance(o: Observation) -> Action:
    """The next action before the eviction."""
    assert o.old is not None
    if o.old.is_finished:
        # Its object stays until somebody deletes it; there is nothing left to evict.
        reason = f"pod {o.old.metadata.name} has finished"
        return status_transitions.rollback_started(o, reason, Phase.CANCELLED)
    if not is_labelled_for(o.old, o.migration):
        patch = migration_labels.label_old_pod_patch(o.old, o.migration, o.now)
        return PatchPod("label-old", o.old, patch)
    return ensure_temporary_budget(o) or evict(o, o.old)


def ensure_temporary_budget(o: Observation) -> Action | None:
    """Create a disruption budget for a Deployment that has none; None if the eviction may follow.

    Never a second budget: the server evicts no pod that two of them protect.
    """
    if not o.options.deployment_coordination or o.budgets:
        return None
    if o.workload is None or o.workload.deployment is None:
        return None
    if o.own_budget is None:
        return CreateBudget("create-budget", temporary_budget(o))
    if o.own_budget.status.observed_generation == 0:
        return wait_or_fail(o, "the temporary disruption budget has no status yet")
    return None


def evict(o: Observation, old: MovingPod) -> Action:
    """Evict the old pod, if its workload is whole and a dry run says that it is allowed."""
    if is_part_of_a_whole(o):
        if o.answers.siblings is None:
            return Ask(Question.SIBLINGS)
        if reason := incomplete_reason(o, o.answers.siblings):
            return postpone(o, old, reason)
        if unrestored := o.answers.siblings.unrestored:
            return soon(postpone(o, old, unrestored_reason(unrestored)))
        if action := remember_newest_sibling(o, o.answers.siblings):
            return action
    answer = o.answers.eviction
    if answer is None:
        return Ask(Question.EVICTION)
    if not answer.is_allowed:
        return delete_used_up_budget(o, old) or postpone(o, old, answer.text)
    if action := service_departure.leave_shared_services(o, old, wait_or_fail):
        return action
    return EvictPod("evict", old, grace_seconds_of(old))


def postpone(o: Observation, old: MovingPod, reason: str) -> Action:
    """Wait with the eviction; meanwhile the old pod serves as before."""
    return service_departure.rejoin_services(old, o.now) or wait_or_fail(o, reason)


def unrestored_reason(pods: tuple[PodId, ...]) -> str:
    """Why a pod that an earlier move has left behind holds up the eviction of another one.

    That move was cancelled, and its eviction may still be on its way. It is rejected once the pod
    is restored.
    """
    return f"pod {pods[0].name} is not yet restored after a move that was cancelled"


def remember_newest_sibling(o: Observation, siblings: WorkloadPods) -> Action | None:
    """Note the age of a young sibling, which could be taken for the replacement; else None.

    Creation times are in whole seconds, and our clock may differ a little from the server's. So the
    eviction follows when the replacement cannot have been created in the same second.
    """
    newest, status = siblings.newest, o.migration.status
    created = o.migration.metadata.creation_timestamp
    if newest is None or created is None or newest < created or is_of_stateful_set(o.migration):
        return None
    if status.newest_sibling_at is None or status.newest_sibling_at < newest:
        return status_transitions.sibling_remembered(o, newest)
    left = newest + SIBLING_AGE - o.now
    return Wait(left.total_seconds()) if left > timedelta(0) else None


def is_part_of_a_whole(o: Observation) -> bool:
    """Whether the old pod has siblings that do its work while it is away.

    Not in a Job: its pods end at different times, and none of them stands in for another.
    """
    owner = o.old.metadata.controller if o.old is not None else None
    return owner is not None and not is_job(owner.kind, owner.api_version)


def delete_used_up_budget(o: Observation, old: MovingPod) -> Action | None:
    """Delete the temporary budget if an interrupted eviction has used it up.

    The server charges an eviction to the budget before it deletes the pod. If the request is
    interrupted in between, the pod stays, and the budget counts it as disrupted for two minutes.
    """
    budget = o.own_budget
    if budget is None or old.metadata.name not in budget.status.disrupted_pods:
        return None
    return delete_budget(o)


def grace_seconds_of(pod: MovingPod) -> int:
    """The grace period of the pod, but at least 30 seconds."""
    return max(MIN_GRACE_SECONDS, pod.spec.termination_grace_period_seconds or 0)


def finish(o: Observation) -> Action:
    """The old pod was evicted: find its replacement, and record where it lands."""
    if o.migration.status.step == Step.EVICTING:
        return status_transitions.landing(o)
    if o.old is not None and not (o.old.is_finished and not is_of_stateful_set(o.migration)):
        # The replacement may have to wait for its termination, too; in a StatefulSet, until the
        # object of that name is gone.
        left = termination_time_left(o, o.old)
        if left > timedelta(0):
            return Wait(left.total_seconds())
        return status_transitions.failed(
            o, f"pod {o.old.metadata.name} does not terminate on {o.old.node}"
        )
    if o.migration.condition(OLD_POD_ENDED) is None:
        return status_transitions.old_pod_ended(o)
    if o.answers.candidates is None:
        return Ask(Question.CANDIDATES)
    new = find_replacement(o, o.answers.candidates)
    if new is None or new.has_failed:
        return wait_for_replacement(o, new)
    if action := release_failed(o, o.answers.candidates):
        return action
    if not is_labelled_for(new, o.migration):
        return PatchPod("claim", new, migration_labels.claim_patch(new, o.migration, o.now))
    if not new.is_ready and not new.is_finished:
        return wait_until_ready(o, new)
    return clean_up(o, new) or complete(o, new)


def termination_time_left(o: Observation, old: MovingPod) -> timedelta:
    """How long an evicted pod may still take: its grace period, plus the timeout of a step.

    Counted from the step's start, by our own clock: its deletion time is by the server's.
    """
    if old.is_finished and not old.is_deleting:
        return timedelta(0)
    grace_seconds = old.metadata.deletion_grace_period_seconds or grace_seconds_of(old)
    return o.step_deadline + timedelta(seconds=grace_seconds) - o.now


def find_replacement(o: Observation, candidates: tuple[MovingPod, ...]) -> MovingPod | None:
    """The pod that replaced the old one: the one we claimed, else the likeliest.

    One that has failed is the last choice: its kubelet did not admit it, or has evicted it, and its
    controller creates another.
    """
    possible = [pod for pod in candidates if may_be_replacement(o, pod)]
    target = o.migration.spec.target_node
    return min(
        possible,
        key=lambda pod: (
            pod.has_failed,
            not is_labelled_for(pod, o.migration),
            pod.node != target,
            pod.metadata.name,
        ),
        default=None,
    )


def may_be_replacement(o: Observation, pod: MovingPod) -> bool:
    """Whether a pod can be the replacement: never the old pod or that of another migration."""
    claimed_by = pod.metadata.labels.get(MIGRATION_ID, o.migration.metadata.uid)
    return (
        has_same_role(pod.metadata, o.migration)
        and not existed_before(pod.metadata, o.migration)
        and pod.uid != o.migration.spec.pod.uid
        and not pod.is_deleting
        and claimed_by == o.migration.metadata.uid
    )


def wait_for_replacement(o: Observation, failed: MovingPod | None) -> Action:
    """Wait until the controller has created a replacement, or another one; then give up."""
    left = o.step_deadline - o.now
    if left > timedelta(0):
        return Wait(left.total_seconds())
    seconds = o.timeout.total_seconds()
    message = f"no replacement within {seconds:.0f}s after the eviction"
    if failed is not None:
        message = f"replacement {failed.metadata.name} {termination_reason(failed)}"
        return clean_up(o, failed) or status_transitions.failed(o, message)
    return delete_budget(o) or status_transitions.failed(o, message)


def release_failed(o: Observation, candidates: tuple[MovingPod, ...]) -> Action | None:
    """Complete the labels of a replacement that failed after we had claimed it; else None."""
    for pod in candidates:
        is_claimed = is_labelled_for(pod, o.migration) and migration_labels.is_in_progress(pod)
        if pod.has_failed and is_claimed:
            return PatchPod("complete", pod, migration_labels.completed_patch())
    return None


def wait_until_ready(o: Observation, new: MovingPod) -> Action:
    """Wait until the replacement is Ready; after the timeout, leave it to its controller."""
    left = o.step_deadline - o.now
    if left > timedelta(0):
        return Wait(left.total_seconds())
    name, seconds = new.metadata.name, o.timeout.total_seconds()
    message = f"replacement {name} not Ready after {seconds:.0f}s: {not_ready_reason(new)}"
    return clean_up(o, new) or status_transitions.failed(o, message)


def clean_up(o: Observation, new: MovingPod) -> Action | None:
    """Delete the temporary budget and complete the replacement's labels; None when all is done."""
    if o.own_budget is not None:
        delay = timedelta(seconds=o.options.cleanup_delay_seconds)
        left = min(new.ready_since or o.now, o.step_deadline) + delay - o.now
        if new.is_ready and left > timedelta(0):
            return Wait(left.total_seconds())
        return delete_budget(o)
    if migration_labels.is_in_progress(new):
        return PatchPod("complete", new, migration_labels.completed_patch())
    return None


def complete(o: Observation, new: MovingPod) -> Action:
    """Record where the replacement runs."""
    name, target = new.metadata.name, o.migration.spec.target_node
    outcome, message = Outcome.ELSEWHERE, f"{name} runs on {new.node} instead of {target}"
    if new.node == target:
        outcome, message = Outcome.LANDED, f"{name} runs on {new.node}"
    elif new.node == o.migration.status.source_node:
        outcome, message = Outcome.CAME_BACK, f"{name} came back to {new.node} instead of {target}"
    steered = migration_labels.is_steered(new, o.migration)
    if not steered:
        message += ", unsteered"
    return status_transitions.completed(o, outcome, new.node, message, steered)


def wait_or_fail(o: Observation, reason: str) -> Action:
    """Wait until the pod may be evicted; after the timeout, fail the attempt."""
    left = o.step_deadline - o.now
    if left <= timedelta(0):
        seconds = o.timeout.total_seconds()
        message = f"not evicted after {seconds:.0f}s: {reason}"
        return status_transitions.rollback_started(o, message, Phase.PENDING, is_failure=True)
    return Wait(left.total_seconds(), f"waiting: {reason}")


def budget_name(migration_uid: str) -> str:
    """The name of a migration's temporary budget: always the same, so there is only one."""
    return f"rescheduler-{suffix(migration_uid, 0, 2 * SUFFIX_LENGTH)}"


def temporary_budget(o: Observation) -> dict[str, Any]:
    """A disruption budget for the pods of the workload, labelled with the migration."""
    assert o.workload is not None
    options = o.options.temporary_budget
    limit: dict[str, Any] = {"maxUnavailable": options.max_unavailable}
    if options.min_available is not None:
        limit = {"minAvailable": options.min_available}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {
            "name": budget_name(o.migration.metadata.uid),
            "namespace": o.migration.metadata.namespace,
            "labels": {MIGRATION_ID: o.migration.metadata.uid},
            "annotations": {MIGRATION_NAME: o.migration.metadata.name},
        },
        "spec": {"selector": msgspec.to_builtins(o.workload.selector), **limit},
    }
