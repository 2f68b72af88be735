"""Descent: the best single move, again and again.

Every move is judged with all earlier ones made, so the moves are in an order in which they can be
carried out.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from rescheduler.model.snapshot import Bools, Floats, Ints
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.allowances import Allowances
from rescheduler.planning.search.arrivals import Arrivals
from rescheduler.planning.search.occupancy import Occupancy
from rescheduler.planning.search.steps import Step
from rescheduler.planning.strategies.constraint_repair import BROKEN

# Pods are looked for on the nodes with most to gain; those further down have less.
_NODES_LOOKED_AT = 8
# Gains this close to the best count as equal, and then the pod of lower priority goes.
_ABOUT_AS_GOOD = 0.95
# Of the objective: not worth a search.
_NOTHING = 1e-4
# Targets tried for a pod that a rule keeps from the best ones.
_TRIES = 8


class Descent:
    """Makes one move after another, each the best there is at its turn."""

    def __init__(self, problem: Problem, out_of_time: Callable[[], bool]) -> None:
        self._problem = problem
        self._out_of_time = out_of_time
        self._cells = problem.cells
        self.occupancy = Occupancy(problem.load, problem.objective, problem.movable_on)
        self._arrivals = Arrivals(problem, self.occupancy)
        self._allowances = Allowances(problem)
        self._conflicts = problem.conflicts.copy() if problem.repairs else None
        self._broken_beyond: Bools = np.zeros(len(problem.cells), bool)
        if problem.repairs:
            self._broken_beyond[problem.broken_beyond] = True
        self._left: Ints = problem.cells.count.copy()
        self._gain_of_leaving = self._gains(np.arange(len(self._cells)))
        self._hopeless: Bools = np.zeros(len(self._cells), bool)
        self._promise = self._best_of_nodes()
        self.steps: list[Step] = []

    def run(self) -> list[Step]:
        """Moves until nothing is gained any more, the limit is reached or the time is up."""
        while len(self.steps) < self._problem.max_moves and not self._out_of_time():
            found = self._best()
            if found is None:
                break
            self._make(*found)
        return self.steps

    def left_something(self) -> bool:
        """Whether there could be more to gain than single moves have."""
        if self._conflicts is not None:
            trouble = self._problem.trouble(self._conflicts, self._cells.template, self._cells.node)
            if (trouble * (self._left > 0)).any():
                return True
        return bool(self.occupancy.total() > _NOTHING)

    # ------------------------------------------------------------ what leaving gains

    def _gains(self, cells: npt.NDArray[np.int64]) -> Floats:
        """By how much things get better if a pod of each of these cells goes, for its price."""
        occupancy, load = self.occupancy, self._problem.load
        nodes, templates = self._cells.node[cells], self._cells.template[cells]
        then = occupancy.used[:, nodes] - load.demand[:, templates]
        cost = occupancy.objective.cost(nodes, then, occupancy.movable[nodes] - 1)
        gains = occupancy.costs[nodes] - cost - self._problem.move_prices[templates]
        if self._conflicts is not None:
            gains += self._problem.trouble(self._conflicts, templates, nodes)
            gains += BROKEN * self._broken_beyond[cells]
        for term in self._problem.pod_terms:
            gains += term.promise(templates, nodes)
        return np.asarray(gains)

    def _best_of_nodes(self) -> Floats:
        best = np.full(len(self._problem.snapshot.nodes), -np.inf)
        np.maximum.at(best, self._cells.node, self._gain_of_leaving)
        return best

    def _refresh(self, node: int) -> None:
        cells = self._cells.of_node(node)
        self._gain_of_leaving[cells] = self._gains(np.arange(cells.start, cells.stop))
        self._promise[node] = self._promise_of(node)

    def _promise_of(self, node: int) -> float:
        cells = self._cells.of_node(node)
        live = ~self._hopeless[cells] & (self._left[cells] > 0)
        return float(self._gain_of_leaving[cells][live].max(initial=-np.inf))

    # ------------------------------------------------------------ finding the best move

    def _best(self) -> tuple[int, int] | None:
        """The cell and the target of the best move, or None if no move gains anything."""
        while True:
            cells = self._candidates()
            if not len(cells):
                return None
            arrival = self._arrivals.least(self._cells.template[cells], self._cells.node[cells])
            gains = self._gain_of_leaving[cells] - arrival
            for cell in self._in_order(cells, gains):
                target = self._verified_target(cell)
                if target is not None:
                    return cell, target
                self._give_up(cell)
            for cell in cells[gains <= 0].tolist():
                self._give_up(cell)

    def _candidates(self) -> npt.NDArray[np.int64]:
        """Cells with pods that could go, on the nodes that promise most."""
        promising = np.flatnonzero(self._promise > 0)
        if len(promising) > _NODES_LOOKED_AT:
            most = np.argpartition(-self._promise[promising], _NODES_LOOKED_AT - 1)
            promising = promising[most[:_NODES_LOOKED_AT]]
        ranges = [
            np.arange(*self._cells.of_node(node).indices(len(self._cells)))
            for node in promising.tolist()
        ]
        cells = np.concatenate(ranges) if ranges else np.empty(0, np.int64)
        live = ~self._hopeless[cells] & (self._left[cells] > 0) & (self._gain_of_leaving[cells] > 0)
        allowed = self._allowances.may_go[self._cells.template[cells]]
        allowed &= ~self._allowances.used_up[self._cells.node[cells]]
        for cell in cells[live & ~allowed].tolist():
            self._give_up(cell)
            live &= cells != cell
        return cells[live]

    def _in_order(self, cells: npt.NDArray[np.int64], gains: Floats) -> list[int]:
        """Cells that gain, the best first; of those about as good, lower priority goes first."""
        gainful = np.flatnonzero(gains > 0)
        if not len(gainful):
            return []
        about_best = gains[gainful] >= _ABOUT_AS_GOOD * gains[gainful].max()
        priority = np.where(
            about_best, self._problem.priorities[self._cells.template[cells[gainful]]], 0
        )
        order = np.lexsort((-gains[gainful], priority, ~about_best))
        return [int(cell) for cell in cells[gainful[order]]]

    def _verified_target(self, cell: int) -> int | None:
        """The best target that takes the pod at every moment of its move."""
        pod, source = self._pod(cell), int(self._cells.node[cell])
        template = int(self._cells.template[cell])
        if self._broken_beyond[cell] and not self._problem.judge.breaks_a_rule(pod):
            # Another pod that left has mended it.
            self._broken_beyond[cell] = False
            self._refresh(source)
        row = self._arrivals.row(template)
        gain = float(self._gain_of_leaving[cell])
        for term in self._problem.pod_terms:
            cost = term.arrival(template, source)
            row += 0.0 if cost is None else cost
            promised = term.promise(self._cells.template[[cell]], self._cells.node[[cell]])
            gain += term.relief(template, source) - float(promised[0])
        row[source] = np.inf
        row[self._allowances.used_up] = np.inf
        for _ in range(_TRIES):
            target = int(row.argmin())
            if gain - row[target] <= 0:
                return None
            if self._problem.accepts(self._problem.judge, pod, target):
                return target
            row[target] = np.inf
        return None

    def _pod(self, cell: int) -> int:
        """The next pod of the cell to go."""
        taken = int(self._cells.count[cell] - self._left[cell])
        return int(self._cells.pods[self._cells.first[cell] + taken])

    def _give_up(self, cell: int) -> None:
        self._hopeless[cell] = True
        node = int(self._cells.node[cell])
        self._promise[node] = self._promise_of(node)

    # ------------------------------------------------------------ making it

    def _make(self, cell: int, target: int) -> None:
        pod, source = self._pod(cell), int(self._cells.node[cell])
        template = int(self._cells.template[cell])
        self._problem.judge.move(pod, target)
        self._left[cell] -= 1
        self._allowances.take(template, 1)
        self._allowances.touch(source, 1)
        self._allowances.touch(target, 1)
        self.steps.append(Step(pod, source, target))
        for node, count in ((source, -1), (target, 1)):
            self.occupancy.add(template, node, count)
            if self._conflicts is not None:
                self._conflicts.add(template, node, count)
        self._arrivals.refresh(template, (source, target))
        touched = {source, target}
        for term in self._problem.pod_terms:
            touched |= term.follow(template, source, target)
        for node in touched:
            self._refresh(node)
