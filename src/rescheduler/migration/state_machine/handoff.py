"""Handoff: the new pod is Ready on its target, then the workload adopts it.

The new pod is created from the workload's own template, without the label by which the workload
counts its pods, and is placed on its target (`placement.py`). It serves beside the old one. Then
the old pod gets the lowest deletion cost and leaves its Services (`service_departure.py`), and the
new pod gets its label: the workload adopts it, has one too many, and deletes the old one itself.
Never does one pod fewer than before serve. The workload is never edited.
"""

from datetime import timedelta

from rescheduler.migration import migration_labels
from rescheduler.migration.migration_labels import is_labelled_for
from rescheduler.migration.migration_object import Phase, Step
from rescheduler.migration.moving_pod import MovingPod
from rescheduler.migration.new_pod import (
    gated_replica,
    has_template_hash_label,
    is_required_by,
    label_to_withhold,
)
from rescheduler.migration.state_machine import (
    placement,
    service_departure,
    status_transitions,
)
from rescheduler.migration.state_machine.actions import (
    Action,
    Ask,
    CreatePod,
    PatchPod,
    Question,
    Wait,
)
from rescheduler.migration.state_machine.diagnosis import (
    incomplete_reason,
    not_ready_reason,
    permanent_failure,
    reported_as_incomplete,
    unschedulable_reason,
    workload_change,
)
from rescheduler.migration.state_machine.mode_selection import label_obstacle, workload_reference
from rescheduler.migration.state_machine.observation import Observation, PodId, WorkloadPods
from rescheduler.migration.state_machine.rollback import restore_old_pod
from rescheduler.migration.workload_objects import ObservedWorkload
from rescheduler.model.moves import Mode, Outcome
from rescheduler.model.rules.network_policies import NO_POLICIES
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
    is_adopted = o.new.metadata.controller is not None
    is_undoing = o.migration.status.step == Step.UNDOING
    if not is_adopted and (is_undoing or o.now >= o.step_deadline):
        return take_back(o, o.new, o.workload)
    if is_adopted and (given_away := placement.give_away(o.new)):
        return given_away
    if not o.is_old_running:
        # Not before the adoption: if the workload is deleted first, the new pod must go, too.
        left = o.step_deadline - o.now
        return complete(o, o.new) if is_adopted else Wait(left.total_seconds())
    assert o.old is not None
    if not is_adopted or o.now < o.step_deadline:
        # Where two pods are handed over at once, the workload may delete them in the other order.
        is_overdue = o.now - (o.migration.status.step_started_at or o.now) > REPORT_AFTER
        message = f"waiting until {o.workload.name} deletes the old pod" if is_overdue else ""
        left = o.step_deadline - o.now if message else REPORT_AFTER
        return Wait(left.total_seconds(), message)
    if o.answers.siblings is None:
        return Ask(Question.SIBLINGS)
    if o.answers.siblings.active > o.workload.replicas:
        return Wait(o.timeout.total_seconds())
    if action := restore_old_pod(o):
        return action
    new, old = o.new.metadata.name, o.old.metadata.name
    return status_transitions.failed(
        o, f"{o.workload.name} has adopted {new}, but deleted another pod than {old}"
    )


def take_back(o: Observation, new: MovingPod, workload: ObservedWorkload) -> Action:
    """Roll back a handover that the workload does not accept: it cannot adopt the new pod.

    If it adopts the pod in the last moment, the patch is rejected, and the handover stands.
    """
    if o.migration.status.step != Step.UNDOING:
        return status_transitions.attempt_failed(o, f"{workload.name} does not adopt the new pod")
    labels = workload.template.metadata.labels
    required = [key for key in labels if is_required_by(workload.selector, labels, key)]
    return PatchPod("take-back", new, migration_labels.take_back_patch(required))


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
    if o.new is None:
        return create(o, o.old)
    return (
        prepare(o, o.old, o.new)
        or rejoin_unless_replaced(o, o.old, o.new)
        or wait_until_ready(o, o.new)
        or hand_over(o, o.old, o.new)
    )


def rejoin_unless_replaced(o: Observation, old: MovingPod, new: MovingPod) -> Action | None:
    """Put the old pod back into its Services if the new one is no longer Ready."""
    return None if new.is_ready else service_departure.rejoin_services(old, o.now)


def prepare(o: Observation, old: MovingPod, new: MovingPod) -> Action | None:
    """Have a new pod that was created gated placed on its target; None once the scheduler has it.

    The old pod is labelled after the new one was created. So if it is labelled and there is no new
    pod, somebody has deleted it.
    """
    if not o.is_new_ours:
        name = new.metadata.name
        return status_transitions.attempt_failed(o, f"a pod named {name} already exists")
    if failure := permanent_failure(new):
        return status_transitions.attempt_failed(o, failure)
    if action := placement.nominate(o, new):
        return action
    if not is_labelled_for(old, o.migration):
        if not new.is_gated_by_us:
            name = new.metadata.name
            message = f"our scheduling gate was removed from new pod {name} by somebody else"
            return status_transitions.attempt_failed(o, message)
        patch = migration_labels.label_old_pod_patch(old, o.migration, o.now)
        return PatchPod("label-old", old, patch)
    return placement.open_gate(o, new) or placement.clear_nomination(o, new)


def create(o: Observation, old: MovingPod) -> Action:
    """Create the new pod, unless it was created before and somebody has deleted it."""
    assert o.workload is not None
    if is_labelled_for(old, o.migration):
        return status_transitions.attempt_failed(
            o, f"new pod {o.migration.status.new_pod} was deleted by somebody else"
        )
    if not has_template_hash_label(o.workload):
        if o.answers.services is None:
            return Ask(Question.SERVICES)
        if o.answers.policies is None:
            return Ask(Question.POLICIES)
        if obstacle := label_obstacle(o, o.workload):
            return status_transitions.attempt_failed(o, obstacle)
    withheld = label_to_withhold(
        o.workload, o.answers.services or (), o.budgets, o.answers.policies or NO_POLICIES
    )
    if withheld is None:
        text = f"{o.workload.name} would count the new pod at once: its selector needs no label"
        return status_transitions.rollback_started(o, text, Phase.FAILED)
    body = gated_replica(o.migration, o.workload, old, withheld, o.now)
    return CreatePod("create-new", body)


def wait_until_ready(o: Observation, new: MovingPod) -> Action | None:
    """Wait for the new pod, or give it up; None once it has been Ready for minReadySeconds."""
    if action := placement.misplaced(o, new):
        return action
    if reason := unschedulable_reason(new):
        target = o.migration.spec.target_node
        message = f"new pod does not fit on {target}: {reason}"
        return status_transitions.new_pod_unschedulable(o, message)
    settle = timedelta(seconds=min_ready_seconds(o))
    if new.is_ready:
        # That time is by the node's clock, which may be ahead: the step's time still counts.
        ready_since = min(new.ready_since or o.now, o.step_deadline)
        left = ready_since + settle - o.now if settle else timedelta(0)
        return Wait(left.total_seconds()) if left > timedelta(0) else None
    left = o.step_deadline + settle - o.now
    if left > timedelta(0):
        return Wait(left.total_seconds())
    seconds = o.timeout.total_seconds()
    return status_transitions.attempt_failed(
        o, f"new pod not Ready after {seconds:.0f}s: {not_ready_reason(new)}"
    )


def hand_over(o: Observation, old: MovingPod, new: MovingPod) -> Action:
    """The new pod is Ready: once the workload is settled, give the pod to it."""
    if reason := reported_as_incomplete(o):
        return postpone(o, old, reason)
    if o.answers.siblings is None:
        return Ask(Question.SIBLINGS)
    if reason := unsettled_reason(o, old, o.answers.siblings):
        return postpone(o, old, reason)
    if not migration_labels.has_lowered_deletion_cost(old):
        lower_cost = migration_labels.lower_deletion_cost_patch(old)
        return check_budgets(o) or PatchPod("lower-cost", old, lower_cost)
    return (
        service_departure.leave_services(o, old, wait_or_fail)
        or service_departure.wait_for_a_quiet_moment(o, old)
        or enter_handover(o)
        or adopt(o, new)
    )


def enter_handover(o: Observation) -> Action | None:
    """Record that the old pod is about to be deleted; None if that has been done."""
    is_starting = o.migration.status.step == Step.STARTING
    return status_transitions.handing_over(o) if is_starting else None


def postpone(o: Observation, old: MovingPod, reason: str) -> Action:
    """Wait with the handover; meanwhile the old pod serves as before.

    If there is a pod too many, the workload may have adopted the new one a moment ago and be about
    to delete the old one.
    """
    siblings, desired = o.answers.siblings, o.replicas.desired if o.replicas is not None else 0
    if siblings is not None and siblings.active > desired:
        return wait_or_fail(o, reason)
    return service_departure.rejoin_services(old, o.now) or wait_or_fail(o, reason)


def adopt(o: Observation, new: MovingPod) -> Action:
    """Give the new pod the withheld label, so that the workload adopts it."""
    assert o.workload is not None
    labels = o.workload.template.metadata.labels
    missing = {key: labels[key] for key in labels if key not in new.metadata.labels}
    return PatchPod("adopt", new, migration_labels.adoption_patch(missing))


def unsettled_reason(o: Observation, old: MovingPod, siblings: WorkloadPods) -> str:
    """What is going on in the workload that forbids a handover now, or an empty string.

    A workload deletes pods that are not Ready before it looks at deletion costs, and of two pods
    with the lowest cost it may delete either. So all others must be Ready, and one pod is deleted
    at a time. If two got the lowest cost at once, the order of their names decides. A pod to which
    somebody else gave as low a cost would be deleted in place of the old one.
    """
    assert o.workload is not None
    if reason := workload_change(o.workload) or incomplete_reason(o, siblings):
        return reason
    for pod in siblings.retiring:
        if pod.uid != old.uid and is_deleted_first(pod, old):
            return f"pod {pod.name} of {o.workload.name} must be deleted first"
    for pod in siblings.expendable:
        if pod.uid != old.uid:
            return f"pod {pod.name} of {o.workload.name} would be deleted: its cost is as low"
    return ""


def is_deleted_first(pod: PodId, old: MovingPod) -> bool:
    """Whether another pod with the lowest deletion cost must be deleted before the old one."""
    has_lowered_cost = migration_labels.has_lowered_deletion_cost(old)
    return not has_lowered_cost or pod.name < old.metadata.name


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
    if o.new is None or not o.is_new_ours or not o.new.is_ready or o.workload is None:
        return status_transitions.rollback_started(o, reason, Phase.CANCELLED)
    if o.answers.siblings is None:
        return Ask(Question.SIBLINGS)
    if is_new_pod_needed(o.workload, o.answers.siblings):
        return adopt(o, o.new)
    return status_transitions.rollback_started(o, reason, Phase.CANCELLED)


def is_new_pod_needed(workload: ObservedWorkload, siblings: WorkloadPods) -> bool:
    """Whether the workload lacks a Ready pod, or has deleted the old one instead of another."""
    return siblings.ready < workload.replicas or bool(siblings.retiring)


def wait_or_fail(o: Observation, reason: str) -> Action:
    """Wait until the reason no longer holds; after the timeout, fail the attempt."""
    left = o.step_deadline + timedelta(seconds=min_ready_seconds(o)) - o.now
    if left <= timedelta(0):
        seconds = o.timeout.total_seconds()
        return status_transitions.attempt_failed(
            o, f"new pod is Ready, but after {seconds:.0f}s {reason}"
        )
    message = if_overdue(o, f"waiting: {reason}")
    # A watch will show the change; the timer is only for the message.
    return Wait((left if message else min(left, REPORT_AFTER)).total_seconds(), message)


def if_overdue(o: Observation, text: str) -> str:
    """The text, if the new pod has been Ready for longer than usual; else an empty string."""
    ready = o.new.ready_since if o.new is not None else None
    return text if ready is None or o.now - ready > REPORT_AFTER else ""


def min_ready_seconds(o: Observation) -> int:
    """How long a pod must be Ready before the workload counts it as available."""
    if o.workload is None:
        return 0
    own = o.workload.owner.spec.min_ready_seconds
    of_deployment = o.workload.deployment.spec.min_ready_seconds if o.workload.deployment else 0
    return max(own, of_deployment)
