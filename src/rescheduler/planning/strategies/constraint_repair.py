"""ConstraintRepair: pods that break what they require go where they break nothing.

A pod may have been placed before a taint, a label or a neighbour came that it does not tolerate.
The taint of a cordoned node is no violation: cordoning says that pods may stay. Nodes on which pods
hold more than there is are relieved as well.

On request also preferences count: preferred node affinity, and taints that only prefer no pods.
"""

from collections import defaultdict
from collections.abc import Iterator, Set
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rescheduler.model.snapshot import Bools, Floats, Ints
from rescheduler.planning.feasibility.checker import FeasibilityChecker
from rescheduler.planning.feasibility.node_conflicts import NodeConflicts
from rescheduler.planning.movability.blocker import LEFT_ALONE
from rescheduler.planning.node_load import NodeLoad
from rescheduler.planning.strategies.node_preferences import MissedPreferences
from rescheduler.planning.strategies.pod_term import NodePreferenceTerm
from rescheduler.planning.strategies.strategy import (
    RULE_VIOLATIONS,
    Measure,
    Rows,
    Strategy,
)
from rescheduler.planning.strategies.strategy_context import StrategyContext
from rescheduler.planning.strategies.urgency import Urgency
from rescheduler.planning.strategies.violation_term import ViolationTerm
from rescheduler.settings import Policy

# Before overload and everything nice, after what a person asked for.
_VIOLATION_COST = 1e5
# Less is rounding.
_OVERCOMMITTED = 1e-9
# Groups that are checked for violations beyond their node at the start, and pods again for a plan.
_MOST_CHECKED, _MOST_CHECKED_AGAIN = 20_000, 200


class ConstraintRepair(Strategy):
    """What nodes hold beyond what they can give, and the rules that pods break."""

    name = "ConstraintRepair"
    urgency = Urgency.REQUIRED
    measures = (
        RULE_VIOLATIONS,
        Measure("overcommitted_nodes", "Nodes whose pods hold more than the node can give."),
    )

    def __init__(self, load: NodeLoad, policy: Policy) -> None:
        super().__init__(load, policy)
        # A node may have lost all it had of a resource: it is then measured by what is held of it.
        held = np.maximum(load.used, 1.0)
        self._scale = np.where(load.allocatable > 0, load.allocatable, held)

    def cost(self, rows: Rows, used: Floats, movable: Ints) -> Floats:
        total = np.zeros(np.shape(movable))
        for amount, available, scale in zip(used, self.load.allocatable, self._scale, strict=True):
            total = total + np.maximum(amount - available[rows], 0.0) / scale[rows]
        return np.asarray(_VIOLATION_COST * total)

    def nodes_to_relieve(self, used: Floats, movable: Ints) -> Bools:
        return np.asarray(self.cost(slice(None), used, movable) > _OVERCOMMITTED)

    def is_at_rest(self) -> bool:
        to_relieve = self.nodes_to_relieve(self.load.used, self.start_movable)
        return not (to_relieve & (self.start_movable > 0)).any()

    def prepare(self, context: StrategyContext) -> None:
        self._context = context

    @cached_property
    def _pods_that_stay(self) -> int:
        """How many pods break a rule on their node, and cannot be moved now."""
        context, pods = self._context, self._context.snapshot.pods
        rows = np.flatnonzero(pods.placed & ~pods.deleting & ~context.movability.movable)
        templates, nodes = pods.template[rows], pods.node[rows]
        # With pods that may be moved, their conflicts count already.
        among = context.conflicts.among(templates, nodes, np.ones(len(rows), np.int32))
        broken = (among.of(templates, nodes) > 0) | context.misplaced(templates, nodes)
        blockers = map(context.movability.blocker, rows[broken].tolist())
        return sum(found is not None and found.name not in LEFT_ALONE for found in blockers)

    def pod_terms(self, context: StrategyContext) -> Iterator[NodePreferenceTerm]:
        # Where another strategy requires this one, it is for what is broken only.
        is_enabled = self.name in self.policy.enabled_strategies
        if is_enabled and self.policy.constraint_repair.preferred:
            yield MissedPreferences(
                context.snapshot, self.policy.strategy_weights.get(self.name, 1.0)
            )

    def violation_terms(self, context: StrategyContext) -> Iterator[ViolationTerm]:
        yield BrokenRules(context)

    def measured(self, used: Floats, movable: Ints, rule_cost: float) -> tuple[float, float]:
        overcommitted = self.nodes_to_relieve(used, movable)
        broken = round(rule_cost / _VIOLATION_COST) + self._pods_that_stay
        return broken, float(overcommitted.sum())

    def reason(self, node: int, used: Floats) -> str:
        available = self.load.allocatable[:, node]
        excess = (used[:, node] - available) / self._scale[:, node]
        worst = int(excess.argmax())
        amount, resource = used[worst, node], self.load.resources[worst]
        if not available[worst]:
            return f"{amount:g} {resource} in use, and none to give"
        return f"{amount / available[worst]:.1%} of its {resource} in use"

    def idle_reason(self, used: Floats) -> str:
        if self.nodes_to_relieve(used, self.start_movable).any():
            return "only pods of their own are on nodes that hold more than they can give"
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
        # Two that must not be together count once, also if either could leave.
        among_movable = conflicts.among(templates, nodes, counts)
        cost -= _VIOLATION_COST * float(among_movable.of(templates, nodes) @ counts) / 2
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
        for group in self._doubtful_groups()[:_MOST_CHECKED].tolist():
            broken[group] = checker.breaks_a_rule(int(self._groups.pods[self._groups.first[group]]))
        return broken

    def _doubtful_groups(self) -> npt.NDArray[np.int64]:
        """Those that have to be looked at one by one: nearly all pods break no rule."""
        checker, templates = self._context.checker, self._groups.template
        doubtful = np.zeros(len(self._groups), bool)
        beyond = np.flatnonzero(checker.depends_beyond_node[templates])
        for groups in _by_value(beyond, templates[beyond]):
            may_break = checker.may_break_a_rule(int(templates[groups[0]]))
            doubtful[groups] = may_break[self._groups.node[groups]]
        return np.flatnonzero(doubtful)

    @cached_property
    def _pods_checked_again(self) -> npt.NDArray[np.int64]:
        """The suspected pods. One that leaves may resolve it for many, so all are looked at."""
        suspected = [
            pod
            for group in np.flatnonzero(self._suspects).tolist()
            for pod in self._groups.pods_of(group)
        ]
        return np.array(suspected[:_MOST_CHECKED_AGAIN], np.int64)

    @cached_property
    def _checked_again_by_template(self) -> dict[int, list[int]]:
        found: defaultdict[int, list[int]] = defaultdict(list)
        for pod in self._pods_checked_again.tolist():
            found[int(self._context.snapshot.pods.template[pod])].append(pod)
        return found

    def is_violated(self, checker: FeasibilityChecker, pod: int) -> bool:
        return checker.breaks_a_rule(pod)

    def remaining_cost(self, checker: FeasibilityChecker) -> float:
        pods = self._pods_checked_again.tolist()
        return _VIOLATION_COST * sum(checker.breaks_a_rule(pod) for pod in pods)

    def remaining_cost_among(self, checker: FeasibilityChecker, templates: Set[int]) -> float:
        known = self._checked_again_by_template
        pods = [pod for template in templates for pod in known.get(template, ())]
        return _VIOLATION_COST * sum(checker.breaks_a_rule(pod) for pod in pods)

    def reason(self, node: str) -> str:
        return f"it breaks a rule on {node} that it or a neighbour requires"


def _by_value(rows: npt.NDArray[np.int64], values: Ints) -> Iterator[npt.NDArray[np.int64]]:
    """The rows that have the same value, for each value."""
    order = np.argsort(values, kind="stable")
    starts = np.flatnonzero(np.diff(values[order])) + 1
    yield from (each for each in np.split(rows[order], starts) if len(each))
