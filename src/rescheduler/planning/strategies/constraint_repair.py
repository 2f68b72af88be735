"""ConstraintRepair: pods that break what they require go where they break nothing.

A pod may have been placed before a taint, a label or a neighbour came that it does not tolerate.
The taint of a cordoned node is no violation: cordoning says that pods may stay. Nodes on which pods
hold more than there is are relieved as well.

On request also preferences count: preferred node affinity, and taints that only prefer no pods.
"""

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rescheduler.model.objects import Taint
from rescheduler.model.pod_templates import PodTemplate
from rescheduler.model.snapshot import Bools, Floats, Ints, Snapshot
from rescheduler.planning.feasibility.checker import FeasibilityChecker
from rescheduler.planning.feasibility.filter_plugin import tolerates
from rescheduler.planning.feasibility.label_columns import NodeLabels
from rescheduler.planning.feasibility.node_conflicts import NodeConflicts
from rescheduler.planning.strategies.pod_term import NodePreferenceTerm
from rescheduler.planning.strategies.strategy import Rows, Strategy
from rescheduler.planning.strategies.strategy_context import StrategyContext
from rescheduler.planning.strategies.urgency import Urgency
from rescheduler.planning.strategies.violation_term import ViolationTerm

# Before overload and everything nice, after what a person asked for.
_VIOLATION_COST = 1e5
# Less is rounding.
_OVERCOMMITTED = 1e-9
# Groups that are checked for violations beyond their node, at the start and again for a plan.
_MOST_CHECKED, _MOST_CHECKED_AGAIN = 20_000, 200
# What it is worth, in nodes, that a preference of weight 1 is met; weights go up to 100.
_PREFERENCE_WORTH = 5e-4
# A taint that only prefers no pods weighs like the strongest preference.
_TAINT_WEIGHT = 100


class ConstraintRepair(Strategy):
    """What nodes hold beyond what they can give, and the rules that pods break."""

    name = "ConstraintRepair"
    urgency = Urgency.REQUIRED

    def cost(self, rows: Rows, used: Floats, movable: Ints) -> Floats:
        total = np.zeros(np.shape(movable))
        for row, capacity in enumerate(self.load.capacity):
            total = total + np.maximum(used[row] / capacity[rows] - 1.0, 0.0)
        return np.asarray(_VIOLATION_COST * total)

    def nodes_to_relieve(self, used: Floats, movable: Ints) -> Bools:
        overcommitted = self.cost(slice(None), used, movable) > _OVERCOMMITTED
        return np.asarray(overcommitted & (movable > 0))

    def pod_terms(self, context: StrategyContext) -> Iterator[NodePreferenceTerm]:
        # Where another strategy requires this one, it is for what is broken only.
        is_enabled = self.name in self.policy.enabled_strategies
        if is_enabled and self.policy.constraint_repair.preferred:
            yield MissedPreferences(context.snapshot)

    def violation_terms(self, context: StrategyContext) -> Iterator[ViolationTerm]:
        yield BrokenRules(context)

    def reason(self, node: int, used: Floats) -> str:
        shares = (used / self.load.capacity)[:, node]
        worst = int(shares.argmax())
        return f"{shares[worst]:.1%} of its {self.load.resources[worst]} in use"

    def idle_reason(self, used: Floats) -> str:
        return "no pod breaks what it requires, and no node holds more than it can give"


class BrokenRules(ViolationTerm):
    """Rules of the scheduler that pods break where they are."""

    suspect_gain = _VIOLATION_COST

    def __init__(self, context: StrategyContext) -> None:
        self._context = context
        self._groups = context.groups

    def is_active(self) -> bool:
        templates, nodes = self._groups.template, self._groups.node
        broken = self._context.conflicts.of(templates, nodes) > 0
        broken = broken | self._context.misplaced(templates, nodes) | self.suspects()
        return bool(broken.any())

    def total(self) -> float:
        templates, nodes, counts = self._groups.template, self._groups.node, self._groups.count
        conflicts = self._context.conflicts
        cost = float(self.gains_of_leaving(templates, nodes, conflicts) @ counts)
        # Two that must not be together count once.
        cost -= _VIOLATION_COST * float(conflicts.of(templates, nodes) @ counts) / 2
        return cost + self.remaining_cost(self._context.checker)

    def gains_of_leaving(self, templates: Ints, nodes: Ints, conflicts: NodeConflicts) -> Floats:
        broken = conflicts.of(templates, nodes) + self._context.misplaced(templates, nodes)
        return np.asarray(_VIOLATION_COST * broken, np.float64)

    def suspects(self) -> Bools:
        return self._suspects

    @cached_property
    def _suspects(self) -> Bools:
        broken = np.zeros(len(self._groups), bool)
        checker = self._context.checker
        beyond = np.flatnonzero(checker.depends_beyond_node[self._groups.template])
        for group in beyond[:_MOST_CHECKED].tolist():
            broken[group] = checker.breaks_a_rule(int(self._groups.pods[self._groups.first[group]]))
        return broken

    @cached_property
    def _pods_checked_again(self) -> npt.NDArray[np.int64]:
        """The first pod of each suspected group; one that leaves may resolve it for many."""
        suspected = np.flatnonzero(self._suspects)[:_MOST_CHECKED_AGAIN]
        return self._groups.pods[self._groups.first[suspected]]

    def is_violated(self, checker: FeasibilityChecker, pod: int) -> bool:
        return checker.breaks_a_rule(pod)

    def remaining_cost(self, checker: FeasibilityChecker) -> float:
        pods = self._pods_checked_again.tolist()
        return _VIOLATION_COST * sum(checker.breaks_a_rule(pod) for pod in pods)

    def reason(self, node: str) -> str:
        return f"it breaks a rule on {node} that it or a neighbour requires"


class MissedPreferences(NodePreferenceTerm):
    """How far each node is from what pods prefer: their node affinity, and no soft taints."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        nodes = snapshot.nodes
        self._labels = NodeLabels(nodes.names, [node.metadata.labels for node in nodes.objects])
        self._soft_taints = [
            [taint for taint in node.spec.taints if taint.effect == "PreferNoSchedule"]
            for node in nodes.objects
        ]

    def node_costs(self, template: int) -> Floats | None:
        pod = self.snapshot.templates[template]
        missed = _TAINT_WEIGHT * self._softly_tainted(pod).astype(np.float64)
        affinity = pod.affinity.node_affinity if pod.affinity is not None else None
        for term in affinity.preferred if affinity is not None else ():
            missed += term.weight * ~self._labels.matching_any((term.preference,))
        return _PREFERENCE_WORTH * missed if missed.any() else None

    def reason(self, template: int, node: int) -> str:
        name = self.snapshot.nodes.names[node]
        if self._softly_tainted(self.snapshot.templates[template])[node]:
            return f"{name} has a taint that prefers not to have it"
        return f"{name} is not what its preferred node affinity asks for"

    def _softly_tainted(self, pod: PodTemplate) -> Bools:
        """Nodes with a PreferNoSchedule taint that the pod does not tolerate."""
        return np.array(
            [
                any(not _is_tolerated(pod, taint) for taint in taints)
                for taints in self._soft_taints
            ],
            bool,
        )


def _is_tolerated(pod: PodTemplate, taint: Taint) -> bool:
    return any(
        tolerates(toleration, taint.key, taint.value, taint.effect)
        for toleration in pod.tolerations
    )
