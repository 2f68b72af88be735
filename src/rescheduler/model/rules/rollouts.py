"""Is a Deployment replacing its pods, and does it get any further?"""

from rescheduler.model.objects import Deployment

_STUCK = {
    ("ReplicaFailure", "True"): "its new pods cannot be created",
    ("Progressing", "False"): "it makes no progress",
}
"""By type and status of a condition."""


def is_rolling_out(deployment: Deployment) -> bool:
    """Whether a Deployment is replacing its pods by those of another version.

    One that is paused replaces none. It may stay halfway for days, as a canary does, and until then
    both of its ReplicaSets are like any other.
    """
    status = deployment.status
    return not deployment.spec.paused and status.updated_replicas != status.replicas


def stuck_rollout(deployment: Deployment) -> str:
    """Why a rollout does not go on, by the Deployment's own conditions; empty if it does.

    Nobody knows when it will: it takes a person to mend it.
    """
    if not is_rolling_out(deployment):
        return ""
    for condition in deployment.status.conditions:
        reason = _STUCK.get((condition.type, condition.status))
        if reason is not None:
            return f"{reason} ({condition.reason})" if condition.reason else reason
    return ""
