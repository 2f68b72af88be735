"""Handoff: the new pod is Ready on its target, then it is given to the workload.

The new pod is made from the workload's own template, without the label by which the workload
counts. It serves beside the old one. Then the old one is made the first to go and the label is
added: the workload adopts the new pod, has one too many, and deletes the old one by itself.
The count of Ready pods only ever goes up by one and back. Nothing of the workload is edited.
"""

from datetime import timedelta

from rescheduler.migration import pod_marks
from rescheduler.migration.migration_object import Phase, Step
from rescheduler.migration.moving_pod import MovingPod
from rescheduler.migration.new_pod import is_versioned, label_to_withhold, replica_on_target
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
    lasting_trouble,
    unschedulable,
    why_not_ready,
    workload_change,
)
from rescheduler.migration.state_machine.mode_selection import reference_to
from rescheduler.migration.state_machine.observation import Observation, is_marked
from rescheduler.model.moves import Mode, Outcome
from rescheduler.model.selectors import matches, selects

# A budget's status follows its pods within moments; only a longer wait is worth telling.
TELL_AFTER = timedelta(seconds=5)


def start(o: Observation) -> Action:
    """Begin."""
    assert o.old is not None
    return status_transitions.started(o, Mode.HANDOFF, Step.STARTING, reference_to(o.old, o))


def is_past_undoing(o: Observation) -> bool:
    """Whether the workload has been given the new pod: from then on it is the workload's."""
    if o.new is None or not o.is_ours or o.workload is None or o.new.is_deleting:
        return False
    return matches(o.workload.selector, o.new.metadata.labels)


def finish(o: Observation) -> Action:
    """The new pod was handed over: wait until the old one goes, and see that it is that one."""
    assert o.new is not None
    assert o.workload is not None
    if not o.has_old:
        return landed(o, o.new)
    assert o.old is not None
    is_adopted = o.new.metadata.controller is not None
    if not is_adopted or o.now < o.step_ends:
        # Where two pods are retired at once, the workload may take them in the other order.
        told = late(o, f"waits until {o.workload.name} retires the old pod")
        return Wait((o.timeout if told else TELL_AFTER).total_seconds(), told)
    if o.answers.siblings is None:
        return Ask(Question.SIBLINGS)
    if len(active(o.answers.siblings)) > o.workload.replicas:
        return Wait(o.timeout.total_seconds())
    if is_marked(o.old, o.migration):
        return PatchPod("restore-old", o.old, pod_marks.restoring(o.old))
    new, old = o.new.metadata.name, o.old.metadata.name
    return status_transitions.failed(
        o, f"{o.workload.name} has {new} now, but retired another than {old}"
    )


def landed(o: Observation, new: MovingPod) -> Action:
    """The move is made."""
    target = o.migration.spec.target_node
    outcome = Outcome.LANDED if new.node == target else Outcome.ELSEWHERE
    return status_transitions.completed(
        o, outcome, new.node, f"{new.metadata.name} serves on {new.node}"
    )


def go_on(o: Observation) -> Action:
    """The next thing to do before the new pod is handed over."""
    if not o.has_old:
        return without_old(o)
    assert o.old is not None
    if not is_marked(o.old, o.migration):
        return PatchPod("mark-old", o.old, pod_marks.marking(o.old, o.migration, o.now))
    if o.new is None:
        return create(o)
    if not o.is_ours:
        return fail(o, f"a pod named {o.new.metadata.name} was there already")
    if not o.migration.status.new_pod:
        return status_transitions.new_pod_made(o)
    return until_ready(o, o.new) or hand_over(o, o.old, o.new)


def create(o: Observation) -> Action:
    """Make the new pod; if it had been made, someone has removed it."""
    assert o.old is not None
    assert o.workload is not None
    if o.migration.status.new_pod:
        return fail(o, f"new pod {o.migration.status.new_pod} was deleted by someone")
    if o.answers.services is None and not is_versioned(o.workload):
        return Ask(Question.SERVICES)
    withheld = label_to_withhold(o.workload, o.answers.services or (), o.budgets)
    if withheld is None:
        text = f"{o.workload.name} would count the new pod at once: its selector needs no label"
        return status_transitions.undoing(o, text, Phase.FAILED)
    body = replica_on_target(o.migration, o.workload, o.old, withheld, o.now)
    return CreatePod("create-new", body)


def until_ready(o: Observation, new: MovingPod) -> Action | None:
    """Wait for the new pod, or give it up; None when it is Ready for long enough."""
    if trouble := lasting_trouble(new, o.migration.spec.target_node):
        return fail(o, trouble)
    if reason := unschedulable(new):
        target = o.migration.spec.target_node
        return status_transitions.does_not_fit(o, f"new pod does not fit on {target}: {reason}")
    settle = timedelta(seconds=min_ready_seconds(o))
    if new.is_ready:
        left = (new.ready_since or o.now) + settle - o.now
        return Wait(left.total_seconds()) if left > timedelta(0) else None
    left = o.step_ends + settle - o.now
    if left > timedelta(0):
        return Wait(left.total_seconds())
    seconds = o.timeout.total_seconds()
    return fail(o, f"new pod not Ready after {seconds:.0f}s: {why_not_ready(new)}")


def hand_over(o: Observation, old: MovingPod, new: MovingPod) -> Action:
    """The new pod is Ready: see that nothing else is going on, then give it to the workload."""
    if o.answers.siblings is None:
        return Ask(Question.SIBLINGS)
    if unsettled := why_not_now(o, old, o.answers.siblings):
        return wait_or_fail(o, unsettled)
    if o.migration.status.step == Step.STARTING:
        return ask_budgets(o) or status_transitions.handing_over(o)
    if not pod_marks.has_lowered_cost(old):
        return PatchPod("lower-cost", old, pod_marks.lowering_cost(old))
    return adopt(o, new)


def adopt(o: Observation, new: MovingPod) -> Action:
    """Give the new pod the labels it went without."""
    assert o.workload is not None
    labels = o.workload.template.metadata.labels
    missing = {key: labels[key] for key in labels if key not in new.metadata.labels}
    return PatchPod("adopt", new, pod_marks.adopting(missing))


def why_not_now(o: Observation, old: MovingPod, siblings: tuple[MovingPod, ...]) -> str:
    """What else is going on in the workload, or nothing.

    It deletes pods that are not Ready before it looks at anything else, and of two that we made
    the first to go it may take the other one: so all others are Ready, and one goes at a time.
    Should two have been made the first to go at once, they take turns by their names.
    """
    assert o.workload is not None
    if change := workload_change(o.workload):
        return change
    there = active(siblings)
    if len(there) != o.workload.replicas:
        return f"{o.workload.name} has {len(there)} pods of {o.workload.replicas}"
    for pod in there:
        if pod.uid == old.uid:
            continue
        if not pod.is_ready:
            return f"pod {pod.metadata.name} of {o.workload.name} is not Ready"
        if pod_marks.has_lowered_cost(pod) and goes_before(pod, old):
            return f"pod {pod.metadata.name} of {o.workload.name} is being retired"
    return ""


def goes_before(pod: MovingPod, old: MovingPod) -> bool:
    """Whether another pod that is being retired has to be waited for."""
    return not pod_marks.has_lowered_cost(old) or pod.metadata.name < old.metadata.name


def ask_budgets(o: Observation) -> Action | None:
    """The last question to the disruption budgets, which count the new pod by now.

    Of two that protect the same pod, Kubernetes keeps only one up to date, and evicts nothing,
    whatever they say. But nothing is evicted: it is enough that both count the new pod.
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


def without_old(o: Observation) -> Action:
    """The old pod went by itself. A new one that is Ready may fill its place at once."""
    gone = f"pod {o.migration.spec.pod.name} went by itself"
    if o.new is None or not o.is_ours or not o.new.is_ready:
        return status_transitions.undoing(o, gone, Phase.CANCELLED)
    if o.answers.siblings is None:
        return Ask(Question.SIBLINGS)
    return adopt(o, o.new) if is_needed(o) else status_transitions.undoing(o, gone, Phase.CANCELLED)


def is_needed(o: Observation) -> bool:
    """Whether the workload is short of a Ready pod, or took the old one in another's place."""
    assert o.workload is not None
    there = active(o.answers.siblings or ())
    ready = sum(pod.is_ready for pod in there)
    return ready < o.workload.replicas or any(pod_marks.has_lowered_cost(pod) for pod in there)


def active(siblings: tuple[MovingPod, ...]) -> list[MovingPod]:
    """The pods that a workload counts."""
    return [pod for pod in siblings if not pod.is_deleting and not pod.is_over]


def wait_or_fail(o: Observation, text: str) -> Action:
    """Wait until it has become better, but not for ever."""
    left = o.step_ends + timedelta(seconds=min_ready_seconds(o)) - o.now
    if left <= timedelta(0):
        return fail(o, f"new pod is Ready, but after {o.timeout.total_seconds():.0f}s {text}")
    told = late(o, f"waits: {text}")
    # What is awaited will be shown by a watch; only telling needs a timer.
    return Wait((left if told else min(left, TELL_AFTER)).total_seconds(), told)


def late(o: Observation, text: str) -> str:
    """The text, if it has been so for longer than usual."""
    ready = o.new.ready_since if o.new is not None else None
    return text if ready is None or o.now - ready > TELL_AFTER else ""


def fail(o: Observation, text: str) -> Action:
    """Give this attempt up."""
    return status_transitions.undoing(o, text, Phase.PENDING, counts=True)


def min_ready_seconds(o: Observation) -> int:
    """How long the workload wants a pod to be Ready before it counts as available."""
    if o.workload is None:
        return 0
    own = o.workload.owner.spec.min_ready_seconds
    above = o.workload.deployment.spec.min_ready_seconds if o.workload.deployment else 0
    return max(own, above)
