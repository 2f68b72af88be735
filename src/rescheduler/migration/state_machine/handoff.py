"""Handoff: the new pod is Ready on its target, then the workload adopts it.

The new pod is created from the workload's own template, without the label by which the workload
counts its pods. It serves beside the old one. Then the old pod gets the lowest deletion cost and
the new pod its label: the workload adopts the new pod, has one too many, and deletes the old one
itself. The number of Ready pods only goes up by one and back. The workload is never edited.
"""

from datetime import timedelta

from rescheduler.migration import migration_labels
from rescheduler.migration.migration_labels import is_labelled_for
from rescheduler.migration.migration_object import Phase, Step
from rescheduler.migration.moving_pod import MovingPod
from rescheduler.migration.new_pod import (
    has_template_hash_label,
    label_to_withhold,
    replica_on_target,
)
from rescheduler.migration.state_machine import status_transitions
from rescheduler.migration.state_machine.actions import (
    Action,
    Ask,
    CreatePod,
    PatchPod,
    Question,
    Wait,
)
from rescheduler.migration.state_machine.diagnosis import (
    not_ready_reason,
    permanent_failure,
    unschedulable_reason,
    workload_change,
)
from rescheduler.migration.state_machine.mode_selection import workload_reference
from rescheduler.migration.state_machine.observation import Observation
from rescheduler.model.moves import Mode, Outcome
from rescheduler.model.selectors import matches, selects

# A budget's status follows its pods within moments; only a longer wait is worth a message.
REPORT_AFTER = timedelta(seconds=5)


def start(o: Observation) -> Action:
    """Record that an attempt starts."""
    assert o.old is not None
    return status_transitions.started(o, Mode.HANDOFF, Step.STARTING, workload_reference(o.old, o))


def is_committed(o: Observation) -> bool:
    """Whether the workload selects the new pod: from then on the pod is the workload's."""
    if o.new is None or not o.is_new_ours or o.workload is None or o.new.is_deleting:
        return False
    return matches(o.workload.selector, o.new.metadata.labels)


def finish(o: Observation) -> Action:
    """After the handover: wait until the old pod is deleted, and check that it was that one."""
    assert o.new is not None
    assert o.workload is not None
    if not o.is_old_running:
        return complete(o, o.new)
    assert o.old is not None
    is_adopted = o.new.metadata.controller is not None
    if not is_adopted or o.now < o.step_deadline:
        # Where two pods are handed over at once, the workload may delete them in the other order.
        message = if_overdue(o, f"waiting until {o.workload.name} deletes the old pod")
        return Wait((o.timeout if message else REPORT_AFTER).total_seconds(), message)
    if o.answers.siblings is None:
        return Ask(Question.SIBLINGS)
    if len(active_pods(o.answers.siblings)) > o.workload.replicas:
        return Wait(o.timeout.total_seconds())
    if is_labelled_for(o.old, o.migration):
        return PatchPod("restore-old", o.old, migration_labels.restore_patch(o.old))
    new, old = o.new.metadata.name, o.old.metadata.name
    return status_transitions.failed(
        o, f"{o.workload.name} has adopted {new}, but deleted another pod than {old}"
    )


def complete(o: Observation, new: MovingPod) -> Action:
    """Record that the new pod has replaced the old one."""
    target = o.migration.spec.target_node
    outcome = Outcome.LANDED if new.node == target else Outcome.ELSEWHERE
    return status_transitions.completed(
        o, outcome, new.node, f"{new.metadata.name} runs on {new.node}"
    )


def advance(o: Observation) -> Action:
    """The next action before the handover."""
    if not o.is_old_running:
        return continue_without_old_pod(o)
    assert o.old is not None
    if not is_labelled_for(o.old, o.migration):
        patch = migration_labels.label_old_pod_patch(o.old, o.migration, o.now)
        return PatchPod("label-old", o.old, patch)
    if o.new is None:
        return create(o)
    if not o.is_new_ours:
        return fail_attempt(o, f"a pod named {o.new.metadata.name} already exists")
    if not o.migration.status.new_pod:
        return status_transitions.new_pod_created(o)
    return wait_until_ready(o, o.new) or hand_over(o, o.old, o.new)


def create(o: Observation) -> Action:
    """Create the new pod; if the status says that it was created, somebody has deleted it."""
    assert o.old is not None
    assert o.workload is not None
    if o.migration.status.new_pod:
        return fail_attempt(o, f"new pod {o.migration.status.new_pod} was deleted by somebody else")
    if o.answers.services is None and not has_template_hash_label(o.workload):
        return Ask(Question.SERVICES)
    withheld = label_to_withhold(o.workload, o.answers.services or (), o.budgets)
    if withheld is None:
        text = f"{o.workload.name} would count the new pod at once: its selector needs no label"
        return status_transitions.rollback_started(o, text, Phase.FAILED)
    body = replica_on_target(o.migration, o.workload, o.old, withheld, o.now)
    return CreatePod("create-new", body)


def wait_until_ready(o: Observation, new: MovingPod) -> Action | None:
    """Wait for the new pod, or give it up; None once it has been Ready for minReadySeconds."""
    if failure := permanent_failure(new, o.migration.spec.target_node):
        return fail_attempt(o, failure)
    if reason := unschedulable_reason(new):
        target = o.migration.spec.target_node
        message = f"new pod does not fit on {target}: {reason}"
        return status_transitions.new_pod_unschedulable(o, message)
    settle = timedelta(seconds=min_ready_seconds(o))
    if new.is_ready:
        left = (new.ready_since or o.now) + settle - o.now
        return Wait(left.total_seconds()) if left > timedelta(0) else None
    left = o.step_deadline + settle - o.now
    if left > timedelta(0):
        return Wait(left.total_seconds())
    seconds = o.timeout.total_seconds()
    return fail_attempt(o, f"new pod not Ready after {seconds:.0f}s: {not_ready_reason(new)}")


def hand_over(o: Observation, old: MovingPod, new: MovingPod) -> Action:
    """The new pod is Ready: once the workload is settled, give the pod to it."""
    if o.answers.siblings is None:
        return Ask(Question.SIBLINGS)
    if reason := unsettled_reason(o, old, o.answers.siblings):
        return wait_or_fail(o, reason)
    if o.migration.status.step == Step.STARTING:
        return check_budgets(o) or status_transitions.handing_over(o)
    if not migration_labels.has_lowered_deletion_cost(old):
        return PatchPod("lower-cost", old, migration_labels.lower_deletion_cost_patch(old))
    return adopt(o, new)


def adopt(o: Observation, new: MovingPod) -> Action:
    """Give the new pod the withheld label, so that the workload adopts it."""
    assert o.workload is not None
    labels = o.workload.template.metadata.labels
    missing = {key: labels[key] for key in labels if key not in new.metadata.labels}
    return PatchPod("adopt", new, migration_labels.adoption_patch(missing))


def unsettled_reason(o: Observation, old: MovingPod, siblings: tuple[MovingPod, ...]) -> str:
    """What is going on in the workload that forbids a handover now, or an empty string.

    A workload deletes pods that are not Ready before it looks at deletion costs, and of two pods
    with the lowest cost it may delete either. So all others must be Ready, and one pod is deleted
    at a time. If two got the lowest cost at once, the order of their names decides.
    """
    assert o.workload is not None
    if change := workload_change(o.workload):
        return change
    active = active_pods(siblings)
    if len(active) != o.workload.replicas:
        return f"{o.workload.name} has {len(active)} pods of {o.workload.replicas}"
    for pod in active:
        if pod.uid == old.uid:
            continue
        if not pod.is_ready:
            return f"pod {pod.metadata.name} of {o.workload.name} is not Ready"
        if migration_labels.has_lowered_deletion_cost(pod) and is_deleted_first(pod, old):
            return f"pod {pod.metadata.name} of {o.workload.name} must be deleted first"
    return ""


def is_deleted_first(pod: MovingPod, old: MovingPod) -> bool:
    """Whether another pod with the lowest deletion cost must be deleted before the old one."""
    has_lowered_cost = migration_labels.has_lowered_deletion_cost(old)
    return not has_lowered_cost or pod.metadata.name < old.metadata.name


def check_budgets(o: Observation) -> Action | None:
    """Ask the disruption budgets, which count the new pod by now; None if the old pod may go.

    If two budgets protect the same pod, Kubernetes keeps only one of them up to date and evicts
    nothing. But a handoff evicts nothing: it is enough that both budgets count the new pod.
    """
    assert o.new is not None
    for budget in o.budgets:
        name, status = budget.metadata.name, budget.status
        if not selects(budget.spec.selector, o.new.metadata.labels) and len(o.budgets) > 1:
            return wait_or_fail(o, f"disruption budget {name} does not count the new pod")
        if status.current_healthy <= status.desired_healthy and len(o.budgets) == 1:
            return wait_or_fail(o, f"disruption budget {name} does not let the old pod go")
    if len(o.budgets) > 1:
        return None
    answer = o.answers.eviction
    if answer is None:
        return Ask(Question.EVICTION)
    return None if answer.is_allowed else wait_or_fail(o, answer.text)


def continue_without_old_pod(o: Observation) -> Action:
    """The old pod ended by itself: a new pod that is Ready may replace it at once."""
    reason = f"pod {o.migration.spec.pod.name} was deleted or has finished"
    if o.new is None or not o.is_new_ours or not o.new.is_ready:
        return status_transitions.rollback_started(o, reason, Phase.CANCELLED)
    if o.answers.siblings is None:
        return Ask(Question.SIBLINGS)
    if is_new_pod_needed(o):
        return adopt(o, o.new)
    return status_transitions.rollback_started(o, reason, Phase.CANCELLED)


def is_new_pod_needed(o: Observation) -> bool:
    """Whether the workload lacks a Ready pod, or has deleted the old one instead of another."""
    assert o.workload is not None
    active = active_pods(o.answers.siblings or ())
    ready = sum(pod.is_ready for pod in active)
    return ready < o.workload.replicas or any(
        migration_labels.has_lowered_deletion_cost(pod) for pod in active
    )


def active_pods(siblings: tuple[MovingPod, ...]) -> list[MovingPod]:
    """The pods that a workload counts."""
    return [pod for pod in siblings if not pod.is_deleting and not pod.is_finished]


def wait_or_fail(o: Observation, reason: str) -> Action:
    """Wait until the reason no longer holds; after the timeout, fail the attempt."""
    left = o.step_deadline + timedelta(seconds=min_ready_seconds(o)) - o.now
    if left <= timedelta(0):
        seconds = o.timeout.total_seconds()
        return fail_attempt(o, f"new pod is Ready, but after {seconds:.0f}s {reason}")
    message = if_overdue(o, f"waiting: {reason}")
    # A watch will show the change; the timer is only for the message.
    return Wait((left if message else min(left, REPORT_AFTER)).total_seconds(), message)


def if_overdue(o: Observation, text: str) -> str:
    """The text, if the new pod has been Ready for longer than usual; else an empty string."""
    ready = o.new.ready_since if o.new is not None else None
    return text if ready is None or o.now - ready > REPORT_AFTER else ""


def fail_attempt(o: Observation, reason: str) -> Action:
    """Roll this attempt back, and retry later."""
    return status_transitions.rollback_started(o, reason, Phase.PENDING, is_failure=True)


def min_ready_seconds(o: Observation) -> int:
    """How long a pod must be Ready before the workload counts it as available."""
    if o.workload is None:
        return 0
    own = o.workload.owner.spec.min_ready_seconds
    of_deployment = o.workload.deployment.spec.min_ready_seconds if o.workload.deployment else 0
    return max(own, of_deployment)
