"""A pod leaves its Services before it is stopped, so that no request is lost.

When a pod is deleted, its containers are stopped and proxies are told about it at the same time.
Until every proxy knows, some still open connections to a server that is gone. So the pod is first
marked as not Ready, while it still runs: Services drop it, and it is stopped when no proxy sends
to it any more. Its kubelet puts its status back every ten seconds; then it is marked again.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from rescheduler.migration import migration_labels
from rescheduler.migration.migration_object import PUT_BACK_BY_KUBELET
from rescheduler.migration.moving_pod import LEFT_SERVICES, MovingPod
from rescheduler.migration.state_machine import status_transitions
from rescheduler.migration.state_machine.actions import Action, Ask, PatchPod, Question, Wait
from rescheduler.migration.state_machine.observation import (
    PUT_BACK_MARGIN,
    PUT_BACK_PERIOD,
    Departure,
    KubeletRhythm,
    Observation,
)

NO_TIME = timedelta(0)

# EndpointSlices follow the pods within a fraction of this.
LOOK_AGAIN_SECONDS = 0.25
# A pod that is about to be put back leaves just after that.
AFTER_PUT_BACK = timedelta(seconds=0.3)
# What EndpointSlices need, besides the time for the proxies.
SLICES_TIME = timedelta(seconds=0.5)
# How long the new pod must have been Ready: one that flaps would leave nobody to serve. Its kubelet
# reports that time in whole seconds.
STEADY_TIME = timedelta(seconds=3)
# The node's clock tells since when it is Ready. If that is further ahead, it says nothing.
CLOCK_TOLERANCE = timedelta(seconds=5)
# A pod that is about to be ready may stand in for one that is evicted.
LONGEST_WAIT_FOR_OTHERS = timedelta(seconds=30)
# A rollback must end, whatever becomes of the Services.
LONGEST_ROLLBACK = timedelta(seconds=30)

WAITING_FOR_KUBELET = (
    "the new pod is Ready, and the old one has left its Services; waiting up to 11s for the moment "
    "when its kubelet looks at it, which is not known yet"
)

WaitOrFail = Callable[[Observation, str], Action]


def leave_services(o: Observation, old: MovingPod, wait_or_fail: WaitOrFail) -> Action | None:
    """Take the old pod out of its Services; None once no proxy opens connections to it.

    The new pod must be in all of them: there may be no third.
    """
    if not is_worthwhile(o, old):
        return None
    found = o.answers.old_departure
    if found is None:
        return Ask(Question.OLD_DEPARTURE)
    if action := record_rhythm(o, found):
        return action
    if found.forsaken and not old.has_left_services:
        # A Service that does not select the new pod is served by the old one as long as it runs.
        return None
    if may_be_sent_traffic(old, found) and (wait := wait_until_steady(o)):
        return wait
    if found.lonely:
        reason = f"Service {min(found.lonely)} does not send traffic to the new pod yet"
        return soon(wait_or_fail(o, reason))
    return bounded(o, depart(old, found, o.now, time_for_proxies(o)), wait_or_fail)


def record_rhythm(o: Observation, found: Departure) -> Action | None:
    """Record what was learned of the old pod's kubelet; None if a Migration says it already.

    It takes ten seconds to learn. A controller that was restarted does not begin anew. A record
    that says the opposite is replaced.
    """
    recorded = o.migration.condition(PUT_BACK_BY_KUBELET)
    is_said = recorded is not None and (recorded.status == "False") == found.rhythm.is_silent
    if found.is_rhythm_recorded or is_said:
        return None
    return status_transitions.kubelet_learned(o, found.rhythm)


def wait_until_steady(o: Observation) -> Wait | None:
    """Wait until the new pod has been Ready for a moment; None if it has."""
    since = o.new.ready_since if o.new is not None else None
    if since is None or since > o.now + CLOCK_TOLERANCE:
        return None
    return wait_until(o.now, since + STEADY_TIME)


def leave_shared_services(
    o: Observation, old: MovingPod, wait_or_fail: WaitOrFail
) -> Action | None:
    """The same for a pod that is evicted before there is a new one.

    Where it is the only one, it stays: an outage must not be longer than it has to be. And of pods
    that share a Service or a budget, one leaves at a time: a budget does not protect pods that are
    not Ready.
    """
    if not is_worthwhile(o, old):
        return None
    found = o.answers.old_departure
    if found is None:
        return Ask(Question.OLD_DEPARTURE)
    if found.rivals:
        reason = f"pod {min(found.rivals)} leaves its Services first"
        return rejoin_services(old, o.now) or soon(wait_or_fail(o, reason))
    if not old.has_left_services:
        is_early = o.now - (o.migration.status.step_started_at or o.now) < LONGEST_WAIT_FOR_OTHERS
        if found.starting and is_early:
            return Wait(LOOK_AGAIN_SECONDS)
        if found.lonely:
            return None
    return bounded(o, depart(old, found, o.now, time_for_proxies(o)), wait_or_fail)


def leave_in_rollback(o: Observation, new: MovingPod) -> Action | None:
    """Take a new pod that is about to be deleted out of its Services; None when that is done."""
    started = o.migration.status.step_started_at or o.now
    is_serving = new.is_ready or new.has_left_services
    if not is_serving or not is_worthwhile(o, new) or o.now - started > LONGEST_ROLLBACK:
        return None
    found = o.answers.new_departure
    if found is None:
        return Ask(Question.NEW_DEPARTURE)
    if found.lonely:
        return Wait(LOOK_AGAIN_SECONDS)
    return depart(new, found, o.now, time_for_proxies(o))


def is_worthwhile(o: Observation, pod: MovingPod) -> bool:
    """Whether a pod would lose requests otherwise: a `preStop` hook is made to prevent that."""
    return o.options.leave_services_seconds > 0 and not pod.has_pre_stop_hooks


def depart(
    pod: MovingPod, found: Departure, now: datetime, for_proxies: timedelta
) -> PatchPod | Wait | None:
    """Mark the pod, and wait for the Services and the proxies; None when they have dropped it.

    A wait without an end in sight has a message.
    """
    if pod.has_left_services:
        if found.gone_since is None:
            return Wait(LOOK_AGAIN_SECONDS, still_serving(pod, found))
        return wait_until(now, found.gone_since + for_proxies)
    if not may_be_sent_traffic(pod, found):
        return None
    if not pod.is_ready:
        return Wait(LOOK_AGAIN_SECONDS, still_serving(pod, found))
    # Else it would be put back before it can be stopped.
    needed = for_proxies + SLICES_TIME + PUT_BACK_MARGIN
    return wait_past_put_back(found.rhythm, needed, now) or PatchPod(
        "leave-services", pod, leave_patch(now), subresource="status", is_strategic=True
    )


def may_be_sent_traffic(pod: MovingPod, found: Departure) -> bool:
    """Whether proxies send traffic to a pod, or will in a moment.

    A kubelet may just have put it back, and the EndpointSlices do not show it yet.
    """
    return bool(found.serving) or (pod.is_ready and bool(found.unlisted))


def bounded(
    o: Observation, action: PatchPod | Wait | None, wait_or_fail: WaitOrFail
) -> Action | None:
    """The action, or the failure of the attempt if a wait has no end."""
    if isinstance(action, Wait) and action.message:
        return soon(wait_or_fail(o, action.message))
    return action


def wait_for_a_quiet_moment(o: Observation, old: MovingPod) -> Action | None:
    """Wait if the kubelet may put the old pod back just when its workload deletes it; else None.

    It is not we who delete it, so nothing says that it must still be marked then. If nobody has
    seen the kubelet put a pod back, that is waited for.
    """
    found = o.answers.old_departure
    if not old.has_left_services or found is None or found.rhythm.is_silent:
        return None
    if found.rhythm.put_back_at is not None:
        return wait_past_put_back(found.rhythm, PUT_BACK_MARGIN, o.now)
    wait = wait_until(o.now, (found.left_since or o.now) + PUT_BACK_PERIOD + PUT_BACK_MARGIN)
    return Wait(wait.seconds, WAITING_FOR_KUBELET) if wait is not None else None


def wait_past_put_back(rhythm: KubeletRhythm, needed: timedelta, now: datetime) -> Wait | None:
    """Wait if the kubelet may put the pod back within the time that is needed; else None."""
    if rhythm.put_back_at is None:
        return None
    # Where that leaves no time at all, the usual moment alone is avoided.
    lateness = max(min(rhythm.lateness, PUT_BACK_PERIOD - needed - 2 * AFTER_PUT_BACK), NO_TIME)
    since = (now - rhythm.put_back_at) % PUT_BACK_PERIOD
    if since < lateness:
        return Wait((lateness - since + AFTER_PUT_BACK).total_seconds())
    left = PUT_BACK_PERIOD - since
    return Wait((left + lateness + AFTER_PUT_BACK).total_seconds()) if left <= needed else None


def rejoin_services(pod: MovingPod | None, now: datetime) -> PatchPod | None:
    """Put a pod back into its Services if a migration has taken it out; else None."""
    if pod is None or not pod.has_left_services or pod.is_deleting:
        return None
    patch = rejoin_patch(pod, now)
    return PatchPod("rejoin-services", pod, patch, subresource="status", is_strategic=True)


def leave_patch(now: datetime) -> dict[str, Any]:
    """Marks a pod as not Ready."""
    return ready_patch(
        status="False",
        reason=LEFT_SERVICES,
        message="is being replaced, and gets no new connections",
        now=now,
    )


def rejoin_patch(pod: MovingPod, now: datetime) -> dict[str, Any]:
    """Writes what the kubelet would: whether the pod is Ready follows from other conditions."""
    if pod.is_healthy:
        return ready_patch(status="True", reason=None, message=None, now=now)
    return ready_patch(status="False", reason="ContainersNotReady", message=None, now=now)


def ready_patch(
    *, status: str, reason: str | None, message: str | None, now: datetime
) -> dict[str, Any]:
    """A strategic merge patch of the condition `Ready`; None removes a field."""
    condition = {
        "type": "Ready",
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": migration_labels.rfc3339(now),
    }
    return {"status": {"conditions": [condition]}}


def still_serving(pod: MovingPod, found: Departure) -> str:
    """What is waited for."""
    names = ", ".join(sorted(found.serving))
    return f"Services still send traffic to {pod.metadata.name}: {names}"


def time_for_proxies(o: Observation) -> timedelta:
    """How long proxies may take to follow the EndpointSlices."""
    return timedelta(seconds=o.options.leave_services_seconds)


def wait_until(now: datetime, moment: datetime) -> Wait | None:
    """Wait until a moment; None if it has passed."""
    left = moment - now
    return Wait(left.total_seconds()) if left > timedelta(0) else None


def soon(action: Action) -> Action:
    """A wait for something that no watch shows: look again soon."""
    if isinstance(action, Wait):
        return Wait(min(action.seconds or LOOK_AGAIN_SECONDS, LOOK_AGAIN_SECONDS), action.message)
    return action
