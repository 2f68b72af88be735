"""When to move nothing: in a cluster that is in trouble, moving pods does harm.

Many pending pods want the very room that moves would use, and nodes that are not ready are most
often a sign that we, or the control plane, do not see the cluster as it is.
"""

from rescheduler.model.snapshot import Snapshot
from rescheduler.settings import Policy

_UNTIL_CALM = "nothing is moved until the cluster has calmed down"


def failed_safety_check(snapshot: Snapshot, policy: Policy) -> str | None:
    """Why nothing is moved at all at the moment, or None."""
    return _too_many_pending(snapshot, policy) or _too_many_unready(snapshot, policy)


def _too_many_pending(snapshot: Snapshot, policy: Policy) -> str | None:
    pods = snapshot.pods
    # Gated pods do not want room yet, and nominated ones have it.
    wanting = pods.pending & ~pods.gated & ~pods.promised
    pending, most = int(wanting.sum()), policy.max_pending_pods
    if pending <= most:
        return None
    are = "pod is" if pending == 1 else "pods are"
    return f"{pending} {are} pending, more than maxPendingPods ({most}): {_UNTIL_CALM}"


def _too_many_unready(snapshot: Snapshot, policy: Policy) -> str | None:
    unready, total = int((~snapshot.nodes.ready).sum()), len(snapshot.nodes)
    most = policy.max_unready_nodes_percent
    if unready * 100 <= most * total:
        return None
    return (
        f"{unready} of {total} nodes are not ready, "
        f"more than maxUnreadyNodesPercent ({most:g}%): {_UNTIL_CALM}"
    )
