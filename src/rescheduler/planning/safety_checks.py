"""When to move nothing: in a cluster that is in trouble, moving pods does harm.

Many pending pods want the very room that moves would use, and nodes that are not ready are most
often a sign that we, or the control plane, do not see the cluster as it is.

Whoever may create pods in one namespace must not stop the moves of all others. So only pods count
that some node could take, and no namespace reaches the limit alone.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from rescheduler.model.snapshot import Bools, Snapshot
from rescheduler.planning.feasibility.checker import FeasibilityChecker
from rescheduler.planning.feasibility.plugins.node_resources_fit import NodeResourcesFit
from rescheduler.planning.plan import NoMovesReason
from rescheduler.settings import Policy

_UNTIL_CALM = "until the cluster has calmed down"


class FailedCheck(NamedTuple):
    """Why nothing is moved: a word, and a sentence for people."""

    reason: NoMovesReason
    sentence: str

    @property
    def stops_maintenance(self) -> bool:
        """Whether what a person asked for stops, too. Anyone may create pods that wait."""
        return self.reason != NoMovesReason.TOO_MANY_PENDING_PODS


def failed_safety_check(snapshot: Snapshot, policy: Policy) -> FailedCheck | None:
    """Why nothing is moved at the moment, or only off nodes under maintenance; or None."""
    return _too_many_unready(snapshot, policy) or _too_many_pending(snapshot, policy)


def _too_many_unready(snapshot: Snapshot, policy: Policy) -> FailedCheck | None:
    unready, total = int((~snapshot.nodes.ready).sum()), len(snapshot.nodes)
    most = policy.max_unready_nodes_percent
    if unready * 100 <= most * total:
        return None
    sentence = (
        f"{unready} of {total} nodes are not ready, "
        f"more than maxUnreadyNodesPercent ({most:g}%): nothing is moved {_UNTIL_CALM}"
    )
    return FailedCheck(NoMovesReason.TOO_MANY_UNREADY_NODES, sentence)


def _too_many_pending(snapshot: Snapshot, policy: Policy) -> FailedCheck | None:
    pods, most = snapshot.pods, policy.max_pending_pods
    # Gated pods do not want room yet, and nominated ones have it.
    wanting = pods.pending & ~pods.gated & ~pods.promised
    # Most clusters are within the limit, whatever their pods ask for.
    if _number_that_counts(snapshot, policy, wanting) <= most:
        return None
    wanting &= _takeable(snapshot, np.unique(pods.template[wanting]).tolist())[pods.template]
    pending = _number_that_counts(snapshot, policy, wanting)
    if pending <= most:
        return None
    are = "pod is" if pending == 1 else "pods are"
    limited = f" (at most {_share(policy)} of a namespace count)" if pending < wanting.sum() else ""
    sentence = (
        f"{pending} {are} pending that a node could take{limited}, more than maxPendingPods "
        f"({most}): only maintenance goes on {_UNTIL_CALM}"
    )
    return FailedCheck(NoMovesReason.TOO_MANY_PENDING_PODS, sentence)


def _number_that_counts(snapshot: Snapshot, policy: Policy, wanting: Bools) -> int:
    """How many of these pods count: of a namespace, no more than its share.

    It is not limited if it stops its own moves only, because nothing movable runs in any other.
    """
    running = set(_pods_by_namespace(snapshot, snapshot.pods.placed))
    movable = running - {*policy.excluded_namespaces}
    share = _share(policy)
    return sum(
        min(pods, share) if movable - {namespace} else pods
        for namespace, pods in _pods_by_namespace(snapshot, wanting).items()
    )


def _share(policy: Policy) -> int:
    """How many pods of one namespace count: half of the limit, so that one does not reach it."""
    return max((policy.max_pending_pods + 1) // 2, 1)


def _pods_by_namespace(snapshot: Snapshot, chosen: Bools) -> dict[str, int]:
    counts = np.bincount(snapshot.pods.template[chosen], minlength=len(snapshot.templates))
    by_namespace: dict[str, int] = {}
    for template in np.flatnonzero(counts).tolist():
        namespace = snapshot.templates[template].namespace
        by_namespace[namespace] = by_namespace.get(namespace, 0) + int(counts[template])
    return by_namespace


def _takeable(snapshot: Snapshot, templates: Iterable[int]) -> Bools:
    """Which of these templates some node would take a pod of, if nothing else ran there."""
    checker = FeasibilityChecker(snapshot)
    empty_nodes = NodeResourcesFit(checker.lister)
    takeable = np.zeros(len(snapshot.templates), bool)
    for template in templates:
        refused = checker.always_refused(template)
        if refused is None:
            takeable[template] = not empty_nodes.refused(template).all()
        elif not refused.all():
            takeable[template] = not (refused | empty_nodes.refused(template)).all()
    return takeable
