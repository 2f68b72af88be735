"""Why there is no node for a pod, in kube-scheduler's words.

Volumes have more words in the original than here, and it adds what preemption would have done.
"""

from collections import Counter

import numpy as np

from rescheduler.model.resources import PODS
from rescheduler.model.snapshot import Bools
from rescheduler.planning.feasibility.checker import FeasibilityChecker
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
_UNEVEN = "node(s) didn't match pod topology spread constraints"
_WITHOUT_LABEL = f"{_UNEVEN} (missing required label)"
_COMPANY = (
    "node(s) didn't match pod affinity rules",
    "node(s) didn't match pod anti-affinity rules",
    "node(s) didn't satisfy existing pods anti-affinity rules",
)


def fit_error_message(judge: FeasibilityChecker, template: int) -> str:
    """How many nodes refuse a pod of this template for which reason."""
    nodes = len(judge.snapshot.nodes)
    if nodes == 0:
        return "no nodes available to schedule pods"
    refusals = judge.refusals(template)
    reasons: Counter[str] = Counter()
    for number in np.unique(refusals).tolist():
        rule = judge.plugins[number - 1]
        refused: Bools = refusals == number
        if rule is judge.resources:
            reasons += _shortages(judge, template, refused)
        elif rule is judge.topology_spread:
            reasons += _uneven(judge, template, refused)
        elif rule is judge.inter_pod_affinity:
            reasons += _company(judge, template, refused)
        else:
            reasons[_REASONS[rule.name]] += int(refused.sum())
    counted = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    return f"0/{nodes} nodes are available: {counted}."


def _shortages(judge: FeasibilityChecker, template: int, refused: Bools) -> Counter[str]:
    """A node may lack several resources, and then counts for each of them."""
    found: Counter[str] = Counter()
    asked = judge.snapshot.asked[template]
    for column in np.flatnonzero(asked).tolist():
        resource = judge.snapshot.resources[column]
        short = int((refused & (judge.resources.free[column] < asked[column])).sum())
        if short:
            found["Too many pods" if resource == PODS else f"Insufficient {resource}"] = short
    return found


def _uneven(judge: FeasibilityChecker, template: int, refused: Bools) -> Counter[str]:
    lacking: Bools = np.zeros(len(refused), bool)
    for constraint in hard_constraints(judge.snapshot.templates[template]):
        lacking |= judge.lister.node_labels.column(constraint.topology_key).codes < 0
    counts = {_WITHOUT_LABEL: refused & lacking, _UNEVEN: refused & ~lacking}
    return Counter({reason: int(nodes.sum()) for reason, nodes in counts.items() if nodes.any()})


def _company(judge: FeasibilityChecker, template: int, refused: Bools) -> Counter[str]:
    found: Counter[str] = Counter()
    left = refused.copy()
    for part, reason in zip(
        judge.inter_pod_affinity.refused_by_part(template), _COMPANY, strict=True
    ):
        if part is not None and (left & part).any():
            found[reason] = int((left & part).sum())
            left &= ~part
    return found
