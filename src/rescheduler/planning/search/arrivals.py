"""What it would cost nodes to receive one more pod, for the templates that are looked at."""

import numpy as np
import numpy.typing as npt

from rescheduler.model.moves import Mode
from rescheduler.model.snapshot import Bools, Floats, Ints
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.occupancy import Occupancy

# Pods are compared by how well they would do on the nodes that suit most pods best.
_PROSPECTS = 256
# After so many moves these are other nodes.
_LOOK_AROUND_EVERY = 48


class Arrivals:
    """A table: a row per template, a column per prospect, infinite where the node will not do.

    A move changes two columns of it, so rows are made once and then only mended. Rows of templates
    whose neighbours changed are made anew. The table tells which pods are worth a closer look;
    `row` then looks at every node.
    """

    def __init__(self, problem: Problem, occupancy: Occupancy) -> None:
        self._problem = problem
        self._occupancy = occupancy
        self._slot_of: Ints = np.full(len(problem.snapshot.templates), -1, np.int32)
        self._template_of: Ints = np.empty(0, np.int32)
        self._moves = 0
        self._mean_demand = self._typical_demand()
        self._look_around()

    def _typical_demand(self) -> Floats:
        groups, demand = self._problem.groups, self._problem.load.demand
        if not len(groups):
            return np.zeros(len(demand))
        return np.asarray(demand[:, groups.template] @ groups.count / groups.count.sum())

    def _look_around(self) -> None:
        """Choose the nodes that a typical pod would do best on, and start anew with them."""
        row = self._rise(self._mean_demand)
        row[~self._problem.load.takes_pods] = np.inf
        few = min(_PROSPECTS, len(row))
        self._prospects = np.sort(np.argpartition(row, few - 1)[:few]) if few else np.arange(0)
        self._column_of = np.full(len(row), -1, np.int32)
        self._column_of[self._prospects] = np.arange(few)
        self._slot_of[:] = -1
        self._template_of = np.empty(0, np.int32)
        self._table: Floats = np.empty((0, few))
        self._closed: Bools = np.empty((0, few), bool)

    def _rise(self, demand: Floats) -> Floats:
        """By how much the cost of each node would rise; infinite where it has no room."""
        occupancy = self._occupancy
        then = occupancy.used + demand[:, None]
        rise = occupancy.objective.costs(then, occupancy.movable + 1) - occupancy.costs
        lacking = (demand[:, None] > occupancy.free).any(axis=0)
        avoided = occupancy.objective.avoids(slice(None), then)
        rise[lacking if avoided is None else lacking | avoided] = np.inf
        return rise

    def row(self, template: int) -> Floats:
        """What every node would cost more with one more such pod; infinite where it will not do."""
        row = self._rise(self._problem.load.demand[:, template])
        row[self._refused(template)] = np.inf
        return row

    def _refused(self, template: int) -> Bools:
        """Where rules other than room refuse it; what its own going changes is not known here."""
        checker = self._problem.checker
        if not checker.depends_on_pods[template] or self._problem.mode(template) == Mode.EVICT:
            return self._problem.pods.always_refused(template)
        closed = checker.refused_regardless_of_room(template)
        takes_none = ~self._problem.load.takes_pods
        return takes_none if closed is None else closed | takes_none

    def least(self, templates: Ints, nodes: Ints) -> Floats:
        """What the best prospect but its own node costs a pod of each of these templates."""
        missing = np.unique(templates[self._slot_of[templates] < 0])
        if len(missing):
            self._make(missing)
        slots, columns = self._slot_of[templates], self._column_of[nodes]
        best: Floats = self._table.min(axis=1, initial=np.inf)[slots]
        for index in np.flatnonzero(columns >= 0).tolist():
            row = self._table[slots[index]].copy()
            row[columns[index]] = np.inf
            best[index] = row.min(initial=np.inf)
        for index in np.flatnonzero(np.isinf(best)).tolist():
            row = self.row(int(templates[index]))
            row[nodes[index]] = np.inf
            best[index] = row.min(initial=np.inf)
        return best

    def refresh(self, template: int, nodes: tuple[int, ...]) -> None:
        """A pod of the template left or came to these nodes."""
        self._moves += 1
        if self._moves % _LOOK_AROUND_EVERY == 0:
            self._look_around()
            return
        for affected in self._problem.checker.affected_by(template):
            self._forget(affected)
        if self._problem.checker.depends_on_pods[template]:
            self._forget(template)
        for node in nodes:
            if self._column_of[node] >= 0:
                self._mend(node)

    def _forget(self, template: int) -> None:
        slot = int(self._slot_of[template])
        if slot >= 0:
            self._slot_of[template] = -1
            self._template_of[slot] = -1

    def _make(self, templates: Ints) -> None:
        """Rows for these templates."""
        first = len(self._table)
        closed = np.zeros((len(templates), len(self._prospects)), bool)
        for index, template in enumerate(templates.tolist()):
            closed[index] = self._refused(template)[self._prospects]
        table = self._rises(templates, self._prospects)
        table[closed] = np.inf
        self._table = np.concatenate([self._table, table])
        self._closed = np.concatenate([self._closed, closed])
        self._template_of = np.concatenate([self._template_of, templates])
        self._slot_of[templates] = np.arange(first, first + len(templates))

    def _rises(self, templates: Ints, nodes: npt.NDArray[np.int64]) -> Floats:
        """By how much the cost of each of these nodes would rise with a pod of each template."""
        occupancy = self._occupancy
        demand = self._problem.load.demand[:, templates][:, :, None]
        then = occupancy.used[:, None, nodes] + demand
        movable = np.broadcast_to(occupancy.movable[nodes] + 1, then.shape[1:])
        rises = occupancy.objective.cost(nodes, then, movable) - occupancy.costs[nodes]
        lacking = (demand > occupancy.free[:, None, nodes]).any(axis=0)
        avoided = occupancy.objective.avoids(nodes, then)
        rises[lacking if avoided is None else lacking | avoided] = np.inf
        return rises

    def _mend(self, node: int) -> None:
        """Bring the column of a node up to date."""
        live = np.flatnonzero(self._template_of >= 0)
        column = int(self._column_of[node])
        rises = self._rises(self._template_of[live], np.array([node]))[:, 0]
        rises[self._closed[live, column]] = np.inf
        self._table[live, column] = rises
