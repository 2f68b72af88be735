"""May a workload run one pod more than it wants, for a short while?"""

from rescheduler.model.objects import Deployment

ADOPTING_OWNERS = ("ReplicaSet", "ReplicationController")
"""Owners that adopt a pod which was created for them. All others create their pods themselves."""

IGNORES_NOMINATIONS = "its scheduler does not place pods where they are nominated"
"""Why no pod can be created beforehand on a chosen node: it would be placed elsewhere."""

_NO_SURGE = (0, "0", "0%")


def allows_surge(deployment: Deployment) -> bool:
    """Whether a Deployment's strategy lets it have more pods than replicas."""
    strategy = deployment.spec.strategy
    if strategy.type == "Recreate":
        return False
    return strategy.rolling_update is None or strategy.rolling_update.max_surge not in _NO_SURGE


def forbids_handoff(annotation: str) -> bool:
    """Whether a pod's handoff annotation says that two copies must not run at once."""
    return annotation == "never"
