"""The message of kube-scheduler for a pod that no node accepts.

The original has more reasons for volumes, and adds what preemption would have done.
"""

from collections import Counter

import numpy as np

from rescheduler.model.resources import PODS
from rescheduler.model.snapshot import Bools
from rescheduler.planning.feasibility.checker import FeasibilityChecker, Refusals
from rescheduler.planning.feasibility.plugins.pod_topology_spread import hard_constraints

_REASONS = {
    "NodeUnschedulable": "node(s) were unschedulable",
    "TaintToleration": "node(s) had untolerated taint(s)",
    "NodeAffinity": "node(s) didn't match Pod's node affinity/selector",
    "NodePorts": "node(s) didn't have free ports for the requested pod ports",
    "VolumeRestrictions": "node(s) had no available disk",
    "NodeVolumeLimits": "node(s) exceed max volume count",
    "VolumeBinding": "node(s) didn't find available persistent volumes to bind",
    "VolumeZone": "node(s) had no available volume zone",
    "NodeDeclaredFeatures": "node(s) didn't match Pod's required features",
}
_SPREAD = "node(s) didn't match pod topology spread constraints"
_SPREAD_LABEL_MISSING = f"{_SPREAD} (missing required label)"
_AFFINITY_REASONS = (
    "node(s) didn't match pod affinity rules",
    "node(s) didn't match pod anti-affinity rules",
    "node(s) didn't satisfy existing pods anti-affinity rules",
)


def fit_error_message(nodes: int, reasons: Counter[str]) -> str:
    """The message for a cluster of so many nodes, all of which refuse for some of the reasons."""
    if nodes == 0:
        return "no nodes available to schedule pods"
    counted = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    return f"0/{nodes} nodes are available: {counted}."


def count_reasons(checker: FeasibilityChecker, template: int, refusals: Refusals) -> Counter[str]:
    """How many nodes refuse a pod of this template, by reason; where `refusals` is 0, none does."""
    reasons: Counter[str] = Counter()
    for number in np.unique(refusals[refusals > 0]).tolist():
        rule = checker.plugins[number - 1]
        refused: Bools = refusals == number
        if rule is checker.resources:
            reasons += _insufficient_counts(checker, template, refused)
        elif rule is checker.topology_spread:
            reasons += _spread_counts(checker, template, refused)
        elif rule is checker.inter_pod_affinity:
            reasons += _affinity_counts(checker, template, refused)
        else:
            reasons[_REASONS[rule.name]] += int(refused.sum())
    return reasons


def _insufficient_counts(
    checker: FeasibilityChecker, template: int, refused: Bools
) -> Counter[str]:
    """A node that lacks several resources counts for each of them."""
    found: Counter[str] = Counter()
    asked = checker.snapshot.asked[template]
    for column in np.flatnonzero(asked).tolist():
        resource = checker.snapshot.resources[column]
        short = int((refused & (checker.resources.free[column] < asked[column])).sum())
        if short:
            found["Too many pods" if resource == PODS else f"Insufficient {resource}"] = short
    return found


def _spread_counts(checker: FeasibilityChecker, template: int, refused: Bools) -> Counter[str]:
    lacking: Bools = np.zeros(len(refused), bool)
    for constraint in hard_constraints(checker.snapshot.templates[template]):
        lacking |= checker.lister.node_labels.column(constraint.topology_key).codes < 0
    counts = {_SPREAD_LABEL_MISSING: refused & lacking, _SPREAD: refused & ~lacking}
    return Counter({reason: int(nodes.sum()) for reason, nodes in counts.items() if nodes.any()})


def _affinity_counts(checker: FeasibilityChecker, template: int, refused: Bools) -> Counter[str]:
    found: Counter[str] = Counter()
    left = refused.copy()
    for part, reason in zip(
        checker.inter_pod_affinity.refused_by_part(template), _AFFINITY_REASONS, strict=True
    ):
        if part is not None and (left & part).any():
            found[reason] = int((left & part).sum())
            left &= ~part
    return found
