"""What it would cost nodes to receive one more pod, for the templates that descent looks at."""

from collections.abc import Iterator
from enum import IntEnum
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rescheduler.model.moves import Mode
from rescheduler.model.snapshot import Bools, Floats, Ints
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.node_totals import NodeTotals
from rescheduler.planning.strategies.urgency import Urgency


class MoveCause(IntEnum):
    """How much there is to be said for a move: the more, the more nodes will do as a target."""

    ORDINARY = 0
    URGENT = 1
    """Pods may return to nodes that they have left."""
    REQUESTED = 2
    """Targets may also become too full for a strategy: a person wants the pod to leave."""


# Pods are compared by what the nodes would cost that suit most pods best.
_PROSPECTS = 256
# After so many moves these are other nodes.
_MOVES_PER_CHOICE = 48


class ArrivalCosts:
    """A table: a row per template, a column per prospect, infinite where the node will not do.

    A move changes two columns of it, so rows are built once and then only updated. Rows of
    templates whose nearby pods changed are built again. The table shows which pods are worth a
    closer look; `row` then looks at every node.
    """

    def __init__(self, problem: Problem, totals: NodeTotals) -> None:
        self._problem = problem
        self._totals = totals
        self._slot_of: Ints = np.full(len(problem.snapshot.templates), -1, np.int32)
        self._template_of: Ints = np.empty(0, np.int32)
        self._moves = 0
        self._at_risk: Bools | None = None
        self._mean_demand = self._typical_demand()
        self._choose_prospects()

    def _typical_demand(self) -> Floats:
        groups, demand = self._problem.groups, self._problem.load.demand
        if not len(groups):
            return np.zeros(len(demand))
        return np.asarray(demand[:, groups.template] @ groups.count / groups.count.sum())

    def _choose_prospects(self) -> None:
        """Choose the nodes that suit a typical pod best, and start with an empty table."""
        row = self._rise(self._mean_demand)
        row[~self._problem.load.takes_pods] = np.inf
        few = min(_PROSPECTS, len(row))
        self._prospects = np.sort(np.argpartition(row, few - 1)[:few]) if few else np.arange(0)
        self._column_of = np.full(len(row), -1, np.int32)
        self._column_of[self._prospects] = np.arange(few)
        self._slot_of[:] = -1
        self._template_of = np.empty(0, np.int32)
        # With room for more rows than are in use.
        self._table: Floats = np.empty((0, few))
        self._closed: Bools = np.empty((0, few), bool)
        # What templates are refused by nodes alone, of which few differ: by the array of all nodes.
        self._known_closed: dict[int, Bools] = {}

    def _rise(self, demand: Floats, cause: MoveCause = MoveCause.ORDINARY) -> Floats:
        """By how much the cost of each node would rise; infinite where it has no room."""
        totals = self._totals
        then = totals.used + demand[:, None]
        rise = totals.objective.costs(then, totals.movable + 1) - totals.costs
        lacking = (demand[:, None] > totals.free).any(axis=0)
        is_requested = cause == MoveCause.REQUESTED
        avoided = totals.objective.avoids(slice(None), then, is_requested=is_requested)
        rise[lacking if avoided is None else lacking | avoided] = np.inf
        return rise

    def row(self, template: int, cause: MoveCause = MoveCause.ORDINARY) -> Floats:
        """What every node would cost more with one more such pod; infinite where it will not do."""
        row = self._rise(self._problem.load.demand[:, template], cause)
        row[self._refused(template, may_return=cause > MoveCause.ORDINARY)] = np.inf
        return row

    def _refused(self, template: int, may_return: bool = False) -> Bools:
        """Where plugins other than NodeResourcesFit refuse it, with the pod itself still there."""
        closed = self._problem.pods.closed_to(template, may_return)
        if not self._depends_on_pods(template):
            return closed
        refused = self._problem.checker.refused_regardless_of_room(template)
        return closed if refused is None else refused | closed

    def _depends_on_pods(self, template: int) -> bool:
        """Whether it counts which pods are where, with the pod itself still there."""
        depends = bool(self._problem.checker.depends_on_pods[template])
        return depends and self._problem.mode(template) != Mode.EVICT

    def causes(self, template: int, node: int) -> Iterator[MoveCause]:
        """What may be said for moving a pod of the template from the node, the least first."""
        yield MoveCause.ORDINARY
        if self._nodes_at_risk[node] or (template, node) in self._broken_rules:
            yield MoveCause.URGENT
        if self._problem.nodes_to_empty[node]:
            yield MoveCause.REQUESTED

    @property
    def _nodes_at_risk(self) -> Bools:
        """Nodes that pods have to leave, as things are."""
        if self._at_risk is None:
            used, movable = self._totals.used, self._totals.movable
            objective = self._problem.objective
            self._at_risk = objective.nodes_to_relieve(used, movable, at_most=Urgency.AT_RISK)
        return self._at_risk

    @cached_property
    def _broken_rules(self) -> set[tuple[int, int]]:
        """Templates and nodes of pods that break rules at the start, or may do so."""
        found: set[tuple[int, int]] = set()
        problem = self._problem
        templates, nodes = problem.groups.template, problem.groups.node
        for term in problem.violation_terms:
            broken = term.gains_of_leaving(templates, nodes, problem.conflicts) > 0
            suspects = term.suspects()
            broken = broken if suspects is None else broken | suspects
            found.update(zip(templates[broken].tolist(), nodes[broken].tolist(), strict=True))
        return found

    def least(self, templates: Ints, nodes: Ints) -> Floats:
        """What the best prospect but its own node costs a pod of each of these templates."""
        missing = np.unique(templates[self._slot_of[templates] < 0])
        if len(missing):
            self._build(missing)
        slots, columns = self._slot_of[templates], self._column_of[nodes]
        best: Floats = self._table[slots].min(axis=1, initial=np.inf)
        for index in np.flatnonzero(columns >= 0).tolist():
            row = self._table[slots[index]].copy()
            row[columns[index]] = np.inf
            best[index] = row.min(initial=np.inf)
        for index in np.flatnonzero(np.isinf(best)).tolist():
            best[index] = self._least_of_all(int(templates[index]), int(nodes[index]))
        return best

    def _least_of_all(self, template: int, node: int) -> float:
        """What the best of all other nodes costs a pod of the template."""
        for cause in self.causes(template, node):
            row = self.row(template, cause)
            row[node] = np.inf
            if (least := float(row.min(initial=np.inf))) < np.inf:
                return least
        return np.inf

    def refresh(self, template: int, nodes: tuple[int, ...]) -> None:
        """A pod of the template left or came to these nodes."""
        self._moves += 1
        self._at_risk = None
        if self._moves % _MOVES_PER_CHOICE == 0:
            self._choose_prospects()
            return
        for affected in self._problem.checker.affected_by(template):
            self._forget(affected)
        if self._problem.checker.depends_on_pods[template]:
            self._forget(template)
        for node in nodes:
            if self._column_of[node] >= 0:
                self._update_column(node)

    def _forget(self, template: int) -> None:
        slot = int(self._slot_of[template])
        if slot >= 0:
            self._slot_of[template] = -1
            self._template_of[slot] = -1

    def _build(self, templates: Ints) -> None:
        """Add rows for these templates."""
        first, last = len(self._template_of), len(self._template_of) + len(templates)
        if last > len(self._table):
            self._table = np.resize(self._table, (2 * last, len(self._prospects)))
            self._closed = np.resize(self._closed, (2 * last, len(self._prospects)))
        for slot, template in enumerate(templates.tolist(), first):
            self._closed[slot] = self._closed_prospects(template)
        table = self._rises(templates, self._prospects)
        table[self._closed[first:last]] = np.inf
        self._table[first:last] = table
        self._template_of = np.concatenate([self._template_of, templates])
        self._slot_of[templates] = np.arange(first, last)

    def _closed_prospects(self, template: int) -> Bools:
        """Prospects that will not do for the template, whatever room they have."""
        pods = self._problem.pods
        if self._depends_on_pods(template) or pods.has_past_moves(template):
            return self._refused(template)[self._prospects]
        refused = pods.always_refused(template)
        known = self._known_closed.get(id(refused))
        if known is None:
            known = self._known_closed[id(refused)] = refused[self._prospects]
        return known

    def _rises(self, templates: Ints, nodes: npt.NDArray[np.int64]) -> Floats:
        """By how much the cost of each of these nodes would rise with a pod of each template."""
        totals = self._totals
        demand = self._problem.load.demand[:, templates][:, :, None]
        then = totals.used[:, None, nodes] + demand
        movable = np.broadcast_to(totals.movable[nodes] + 1, then.shape[1:])
        rises = totals.objective.cost(nodes, then, movable) - totals.costs[nodes]
        lacking = (demand > totals.free[:, None, nodes]).any(axis=0)
        avoided = totals.objective.avoids(nodes, then)
        rises[lacking if avoided is None else lacking | avoided] = np.inf
        return rises

    def _update_column(self, node: int) -> None:
        """Bring the column of a node up to date."""
        live = np.flatnonzero(self._template_of >= 0)
        column = int(self._column_of[node])
        rises = self._rises(self._template_of[live], np.array([node]))[:, 0]
        rises[self._closed[live, column]] = np.inf
        self._table[live, column] = rises
