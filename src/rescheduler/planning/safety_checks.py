"""When to move nothing: in a cluster that is in trouble, moving pods does harm.

Many pending pods want the very room that moves would use, and nodes that are not ready are most
often a sign that we, or the control plane, do not see the cluster as it is.
"""

from typing import NamedTuple

from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.plan import IdleReason
from rescheduler.settings import Policy

_UNTIL_CALM = "nothing is moved until the cluster has calmed down"


class FailedCheck(NamedTuple):
    """Why nothing is moved: a word, and a sentence for people."""

    reason: IdleReason
    sentence: str


def failed_safety_check(snapshot: Snapshot, policy: Policy) -> FailedCheck | None:
    """Why nothing is moved at all at the moment, or None."""
    return _too_many_pending(snapshot, policy) or _too_many_unready(snapshot, policy)


def _too_many_pending(snapshot: Snapshot, policy: Policy) -> FailedCheck | None:
    pods = snapshot.pods
    # Gated pods do not want room yet, and nominated ones have it.
    wanting = pods.pending & ~pods.gated & ~pods.promised
    pending, most = int(wanting.sum()), policy.max_pending_pods
    if pending <= most:
        return None
    are = "pod is" if pending == 1 else "pods are"
    sentence = f"{pending} {are} pending, more than maxPendingPods ({most}): {_UNTIL_CALM}"
    return FailedCheck(IdleReason.TOO_MANY_PENDING_PODS, sentence)


def _too_many_unready(snapshot: Snapshot, policy: Policy) -> FailedCheck | None:
    unready, total = int((~snapshot.nodes.ready).sum()), len(snapshot.nodes)
    most = policy.max_unready_nodes_percent
    if unready * 100 <= most * total:
        return None
    sentence = (
        f"{unready} of {total} nodes are not ready, "
        f"more than maxUnreadyNodesPercent ({most:g}%): {_UNTIL_CALM}"
    )
    return FailedCheck(IdleReason.TOO_MANY_UNREADY_NODES, sentence)
