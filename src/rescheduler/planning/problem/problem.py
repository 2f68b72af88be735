"""The problem that searches work on: who could move, where to, and at what price."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rescheduler.model.moves import Mode
from rescheduler.model.pod_templates import PodTemplate
from rescheduler.model.snapshot import Bools, Floats, Ints, Snapshot
from rescheduler.planning.context import PlanningContext
from rescheduler.planning.feasibility.checker import FeasibilityChecker
from rescheduler.planning.movability.movability import Movability
from rescheduler.planning.node_load import NodeLoad
from rescheduler.planning.problem.in_flight import with_arrivals
from rescheduler.planning.problem.move_costs import age_order, prices
from rescheduler.planning.problem.move_limits import MoveLimits
from rescheduler.planning.problem.node_conflicts import Conflicts
from rescheduler.planning.problem.objective import Objective
from rescheduler.planning.problem.pod_term import PodTerm
from rescheduler.planning.problem.preferences import Preferences
from rescheduler.planning.problem.spreading import Spreading
from rescheduler.planning.strategies.constraint_repair import BROKEN
from rescheduler.planning.strategies.cost_optimization import CostOptimization
from rescheduler.planning.strategies.strategy import Strategy
from rescheduler.settings import Policy

# How much of a disturbance adds to the price of a move if the policy states that price.
_SLIGHTLY = 0.02
# Cells of which it is asked whether they break a rule about more than their node.
_MOST_ASKED, _MOST_ASKED_AGAIN = 20_000, 200


@dataclass(frozen=True, eq=False)
class Cells:
    """Movable pods by node and template: those of one cell are interchangeable."""

    template: Ints
    node: Ints
    count: Ints
    first: Ints
    """Where the pods of each cell begin in `pods`."""
    pods: npt.NDArray[np.int64]
    """Pods cell by cell, in the order in which they should go."""
    start_of_node: Ints
    """Where the cells of each node begin; one entry more than there are nodes."""

    def of_node(self, node: int) -> slice:
        """The cells on a node."""
        return slice(int(self.start_of_node[node]), int(self.start_of_node[node + 1]))

    def __len__(self) -> int:
        return len(self.template)


def cells_of(snapshot: Snapshot, movable: Bools, order: Floats) -> Cells:
    """Group the movable pods; within a cell they are in the given order."""
    pods = np.flatnonzero(movable)
    key = snapshot.pods.node[pods].astype(np.int64) * max(len(snapshot.templates), 1)
    key += snapshot.pods.template[pods]
    by_cell = np.lexsort((order[pods], key))
    pods, key = pods[by_cell], key[by_cell]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    nodes = snapshot.pods.node[pods[first]]
    return Cells(
        template=snapshot.pods.template[pods[first]],
        node=nodes,
        count=np.diff(first, append=len(pods)).astype(np.int32),
        first=first.astype(np.int32),
        pods=pods,
        start_of_node=np.searchsorted(nodes, np.arange(len(snapshot.nodes) + 1)).astype(np.int32),
    )


class Patterns(NamedTuple):
    """Answers about nodes. Few patterns cover all templates: each once, and which one each has."""

    rows: Bools
    row_of: Ints


class Problem:
    """A snapshot and a policy, prepared for searching."""

    def __init__(
        self,
        snapshot: Snapshot,
        policy: Policy,
        circumstances: PlanningContext,
        others: Mapping[str, type[Strategy]],
    ) -> None:
        snapshot = with_arrivals(snapshot, circumstances.in_flight)
        self.snapshot = snapshot
        self.policy = policy
        self.circumstances = circumstances
        self.movability = Movability(snapshot, policy, circumstances)
        self.load = NodeLoad(snapshot, policy.node_maintenance.maintenance_label)
        order = age_order(snapshot, circumstances.now)
        self.cells = cells_of(snapshot, self.movability.movable, order)
        self.movable_on = self._movable_on()
        self.objective = Objective(self.load, policy, self.movable_on, others, self._is_due)
        packing = self.objective.find("CostOptimization")
        if isinstance(packing, CostOptimization):
            packing.anchor(self._anchored())
        self.pod_terms = [term for term in self._pod_terms() if term.is_wanting()]
        """What strategies want of single pods, kept up to date by the search that moves them."""
        for term in self.pod_terms:
            self.objective.wake(term.strategy)
        if self.objective.rests("ConstraintRepair") and self.broken.any():
            self.objective.wake("ConstraintRepair")
        self.max_moves = policy.max_reschedule_pods

    # Not needed as long as nothing is wanted, and the most expensive part of all this.
    @cached_property
    def judge(self) -> FeasibilityChecker:
        """Which nodes accept which pods, as the search moves them."""
        return FeasibilityChecker(self.snapshot)

    @cached_property
    def limits(self) -> MoveLimits:
        """How many pods may move."""
        return MoveLimits(self.snapshot, self.policy, self.movability, self.circumstances)

    def _pod_terms(self) -> Iterator[PodTerm]:
        policy, enabled = self.policy, self.policy.enabled_strategies
        if "TopologySpread" in enabled:
            undeclared = policy.topology_spread.undeclared
            workloads = self.movability.workloads
            yield Spreading(self.snapshot, self.refused_for_good, workloads, undeclared)
        if "ConstraintRepair" in enabled and policy.constraint_repair.preferred:
            yield Preferences(self.snapshot)

    def _is_due(self, pressed: Bools) -> bool:
        """Whether the load of some of these nodes was too high for as many rounds as asked for."""
        counted, rounds = self.circumstances.rounds_pressed, self.policy.consecutive_rounds or 1
        if counted is None:
            return True
        names = self.snapshot.nodes.names
        return any(counted.get(names[node], 1) >= rounds for node in np.flatnonzero(pressed))

    def _anchored(self) -> Bools:
        """Nodes with pods that stay and do not belong to them: they are in use whatever moves."""
        belongs = np.array([_belongs_to_node(each) for each in self.snapshot.templates], bool)
        pods = self.snapshot.pods
        stays = pods.placed & ~self.movability.movable & ~belongs[pods.template]
        counts = np.bincount(pods.node[stays], minlength=len(self.snapshot.nodes))
        return np.asarray(counts > 0)

    @cached_property
    def must_be_left(self) -> Bools:
        """Nodes that every pod should leave that can."""
        if "NodeMaintenance" not in self.policy.enabled_strategies:
            return np.zeros(len(self.snapshot.nodes), bool)
        return self.load.under_maintenance

    def _movable_on(self) -> Ints:
        counts = np.bincount(
            self.cells.node, weights=self.cells.count, minlength=len(self.snapshot.nodes)
        )
        return counts.astype(np.int32)

    @cached_property
    def move_prices(self) -> Floats:
        """What a move of a pod of each template must gain at least."""
        disturbances = prices(self.snapshot, self.circumstances, self.movability)
        if self.policy.cost_optimization.move_cost is not None:
            # What a move costs was said; how much it disturbs only decides between equals.
            disturbances = 1.0 + _SLIGHTLY * (disturbances - 1.0)
        return np.asarray(disturbances * self.objective.move_price)

    @cached_property
    def priorities(self) -> Ints:
        """The priority of each template's pods."""
        return np.array([each.priority for each in self.snapshot.templates], np.int32)

    @cached_property
    def start_value(self) -> float:
        """What the nodes cost as they are."""
        return float(self.objective.costs(self.load.used, self.movable_on).sum())

    @cached_property
    def pod_cost(self) -> float:
        """What it costs that pods are where they are, apart from what nodes hold."""
        cost = sum(term.total() for term in self.pod_terms)
        if self.repairs:
            templates, nodes, counts = self.cells.template, self.cells.node, self.cells.count
            cost += float(self.trouble(self.conflicts, templates, nodes) @ counts)
            # Two that mind each other count once.
            cost -= BROKEN * float(self.conflicts.of(templates, nodes) @ counts) / 2
            cost += self.still_broken(self.judge)
        return cost

    @property
    def repairs(self) -> bool:
        """Whether rules that are broken at the start are to be mended."""
        return self.objective.find("ConstraintRepair") is not None

    @cached_property
    def conflicts(self) -> Conflicts:
        """Pods that must not share a node, as they are at the start."""
        return Conflicts(self.snapshot, self.judge)

    @cached_property
    def broken(self) -> Bools:
        """Cells whose pods break a rule where they are at the start."""
        templates, nodes = self.cells.template, self.cells.node
        broken = self.conflicts.of(templates, nodes) > 0
        return np.asarray(broken | self.misplaced(templates, nodes) | self._broken_beyond)

    @cached_property
    def _broken_beyond(self) -> Bools:
        """Those that break a rule about more than their node; each has to be asked for itself."""
        broken = np.zeros(len(self.cells), bool)
        beyond = np.flatnonzero(self.judge.beyond_nodes[self.cells.template])
        for cell in beyond[:_MOST_ASKED].tolist():
            broken[cell] = self.judge.breaks_a_rule(int(self.cells.pods[self.cells.first[cell]]))
        return broken

    @cached_property
    def broken_beyond(self) -> npt.NDArray[np.int64]:
        """Cells that break, at the start, a rule about more than their node.

        One pod that leaves may mend it for many, so whether they still do has to be asked.
        """
        return np.flatnonzero(self._broken_beyond)

    def still_broken(self, judge: FeasibilityChecker) -> float:
        """What it costs that some of these break their rule as the judge has the pods now."""
        pods = self.cells.pods[self.cells.first[self.broken_beyond[:_MOST_ASKED_AGAIN]]]
        return BROKEN * sum(judge.breaks_a_rule(pod) for pod in pods.tolist())

    def trouble(self, conflicts: Conflicts, templates: Ints, nodes: Ints) -> Floats:
        """What it costs that a pod of each of these templates breaks rules on its node."""
        broken = conflicts.of(templates, nodes) + self.misplaced(templates, nodes)
        return np.asarray(BROKEN * broken, np.float64)

    def refused_for_good(self, template: int) -> Bools:
        """Nodes that will not do for the template whatever else is there."""
        refused = self.judge.never(template)
        return ~self.load.takes_pods if refused is None else refused | ~self.load.takes_pods

    def never(self, templates: Ints) -> Bools:
        """For each of these templates, nodes that will not do whatever else is there."""
        return self._refused.rows[self._refused.row_of[templates]]

    def never_there(self, templates: Ints, nodes: Ints) -> Bools:
        """For each of these nodes, templates that it will not do for."""
        return self._refused.rows.T[nodes][:, self._refused.row_of[templates]]

    def misplaced(self, templates: Ints, nodes: Ints) -> Bools:
        """Pods of these templates that the nodes they are on would not take by themselves."""
        return self._misplaced.rows[self._misplaced.row_of[templates], nodes]

    @cached_property
    def _refused(self) -> "Patterns":
        return self._patterns(self.refused_for_good)

    @cached_property
    def _misplaced(self) -> "Patterns":
        return self._patterns(self.judge.misplaced)

    def _patterns(self, of: Callable[[int], Bools | None]) -> "Patterns":
        nowhere = np.zeros(len(self.snapshot.nodes), bool)
        number_of: dict[bytes, int] = {}
        rows: list[Bools] = []
        row_of = np.zeros(len(self.snapshot.templates), np.int32)
        for template in np.unique(self.cells.template).tolist():
            refused = of(template)
            row = nowhere if refused is None else refused
            number = row_of[template] = number_of.setdefault(row.tobytes(), len(number_of))
            if number == len(rows):
                rows.append(row)
        return Patterns(np.array(rows, bool).reshape(len(rows), len(nowhere)), row_of)

    def mode(self, template: int) -> Mode:
        """How pods of the template are moved."""
        return self.movability.mode(template)

    def accepts(self, judge: FeasibilityChecker, pod: int, target: int) -> bool:
        """Whether the target takes the pod at every moment of its move, to nobody's harm."""
        template = int(self.snapshot.pods.template[pod])
        by_handoff = self.mode(template) != Mode.EVICT
        if by_handoff and judge.refusals(template)[target]:
            return False
        if judge.minding[template]:
            if judge.refusals_without(pod)[target]:
                return False
        elif not by_handoff and judge.refusals(template)[target]:
            return False
        return not judge.would_harm_others(pod, target)


def _belongs_to_node(template: PodTemplate) -> bool:
    """Whether such pods are on a node because it is there."""
    return template.owner is not None and template.owner.kind in ("DaemonSet", "Node")
