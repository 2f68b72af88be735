"""The master problem: a linear program that chooses columns, in parts, for every node.

Each node gets exactly one column, each class has all its pods placed, and no limit on moves is
exceeded. Pods may also stay unplaced, or be placed twice, at a penalty: that bounds the dual values
while there are few columns.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rescheduler.model.snapshot import Bools, Floats, Ints
from rescheduler.planning.search.columns.column_pool import ColumnPool
from rescheduler.planning.search.columns.linking_rows import LinkingRows
from rescheduler.planning.search.columns.pod_classes import PodClasses
from rescheduler.planning.search.columns.solver import INFINITY, SparseColumns, new_solver

if TYPE_CHECKING:
    import highspy

Columns = npt.NDArray[np.int64]
"""Numbers of columns of a pool."""

_DUAL_SIMPLEX, _PRIMAL_SIMPLEX = 1, 4


@dataclass(frozen=True, eq=False)
class Penalties:
    """What it costs, for each class, not to place exactly as many pods as there are."""

    unplaced: Floats
    placed_twice: Floats

    def times(self, factor: float) -> "Penalties":
        """The same, more severe."""
        return Penalties(self.unplaced * factor, self.placed_twice * factor)


@dataclass(frozen=True, eq=False)
class DualValues:
    """What the constraints are worth."""

    of_node: Floats
    """What a node costs at present, less what its pods are worth."""
    of_pod: Floats
    """What it is worth to place one more pod: a row per node, a column per class."""
    of_move: Floats
    """What the limits make one more move of each class cost, above its price."""


class MasterProblem:
    """Chooses among the columns of a pool that were handed over by `extend`."""

    def __init__(
        self,
        classes: PodClasses,
        linking: LinkingRows,
        penalties: Penalties,
        out_of_time: Callable[[], bool],
        alike: Ints | None = None,
    ) -> None:
        """`alike`: how many nodes each node stands for, itself included; by default only itself."""
        self._classes = classes
        self._linking = linking
        self.nodes = nodes = len(classes.start)
        columns = np.ones(nodes) if alike is None else alike.astype(np.float64)
        count, totals = len(classes), classes.totals.astype(np.float64)
        unbounded = np.full(len(linking.most), -INFINITY)
        self.lower = np.concatenate([columns, totals, unbounded])
        self.upper = np.concatenate([columns, totals, linking.most])
        self._solver = new_solver(out_of_time)
        self._solver.setOptionValue("presolve", "off")
        # Added columns leave the last solution feasible.
        self._solver.setOptionValue("simplex_strategy", _PRIMAL_SIMPLEX)
        rows, none = len(self.lower), np.empty(0, np.int32)
        self._solver.addRows(
            rows, self.lower, self.upper, 0, np.zeros(rows, np.int32), none, np.empty(0)
        )
        self.add_penalties(self._solver, penalties, np.full(2 * count, INFINITY))
        self.penalties = penalties
        self.value = INFINITY
        self.shares: Floats = np.empty(0)
        """How far each column is chosen."""
        self.duals: DualValues
        self._known = 0
        self._is_excluded: Bools = np.empty(0, bool)

    def add_penalties(self, solver: "highspy.Highs", penalties: Penalties, most: Floats) -> None:
        """Let a solver with these constraints leave pods unplaced, or place them twice."""
        count = len(self._classes)
        of_class = self.nodes + np.arange(count)
        solver.addCols(
            2 * count,
            np.concatenate([penalties.unplaced, penalties.placed_twice]),
            np.zeros(2 * count),
            most,
            2 * count,
            np.arange(2 * count, dtype=np.int32),
            np.concatenate([of_class, of_class]).astype(np.int32),
            np.repeat([1.0, -1.0], count),
        )

    def set_penalties(self, penalties: Penalties) -> None:
        """Change what it costs to leave a pod of each class unplaced, or to place it twice."""
        costs = np.concatenate([penalties.unplaced, penalties.placed_twice])
        self._solver.changeColsCost(len(costs), np.arange(len(costs), dtype=np.int32), costs)
        self.penalties = penalties

    def extend(self, pool: ColumnPool) -> None:
        """Take over the columns that were added to the pool."""
        new = slice(self._known, len(pool))
        count = len(pool) - self._known
        if not count:
            return
        entries = self.entries(pool, np.arange(self._known, len(pool)))
        self._solver.addCols(
            count,
            pool.costs[new],
            np.zeros(count),
            np.full(count, INFINITY),
            len(entries.row),
            entries.start,
            entries.row,
            entries.value,
        )
        self._known = len(pool)
        self.shares = np.append(self.shares, np.zeros(count))
        self._is_excluded = np.zeros(len(pool), bool)

    def reduced_costs(self) -> Floats:
        """By how much a whole share of each column would raise the value, at the last solution."""
        duals = np.array(self._solver.getSolution().col_dual)
        return duals[2 * len(self._classes) :]

    def keep(self, columns: Columns) -> None:
        """Forget all columns but these, of which none is excluded."""
        gone = np.setdiff1d(np.arange(self._known), columns)
        numbers = (2 * len(self._classes) + gone).astype(np.int32)
        self._solver.deleteCols(len(numbers), numbers)
        self.shares = self.shares[columns]
        self._known = len(columns)
        self._is_excluded = np.zeros(len(columns), bool)

    @property
    def is_solved(self) -> bool:
        """Whether it was ever solved; later columns then have no share."""
        return self.value < INFINITY

    def solve_from_nothing(self) -> bool:
        """Like `solve`, and faster if there are many columns and no solution yet."""
        self._solver.setOptionValue("simplex_strategy", _DUAL_SIMPLEX)
        is_solved = self.solve()
        self._solver.setOptionValue("simplex_strategy", _PRIMAL_SIMPLEX)
        return is_solved

    @contextmanager
    def choosing(self) -> Iterator[None]:
        """While columns are excluded and included, the dual simplex method is the faster one."""
        self._solver.setOptionValue("simplex_strategy", _DUAL_SIMPLEX)
        known = self.value, self.shares, self.duals
        try:
            yield
        finally:
            self._solver.setOptionValue("simplex_strategy", _PRIMAL_SIMPLEX)
            self.value, self.shares, self.duals = known

    def exclude(self, columns: Columns) -> Columns:
        """Do not use these columns; returns those of them that could be used so far."""
        columns = columns[~self._is_excluded[columns]]
        self._set_excluded(columns, excluded=True)
        return columns

    def include(self, columns: Columns) -> None:
        """Let these columns be used again."""
        self._set_excluded(columns, excluded=False)

    def _set_excluded(self, columns: Columns, *, excluded: bool) -> None:
        self._is_excluded[columns] = excluded
        numbers = (2 * len(self._classes) + columns).astype(np.int32)
        most = np.full(len(columns), 0.0 if excluded else INFINITY)
        self._solver.changeColsBounds(len(columns), numbers, np.zeros(len(columns)), most)

    def entries(self, pool: ColumnPool, columns: Columns) -> SparseColumns:
        """Where these columns appear in the constraints."""
        contents, node = pool.contents[columns], pool.node[columns]
        column, placed = np.nonzero(contents)
        limited = self._linking.entries(node, contents)
        moving, limit = np.nonzero(limited)
        first_limit = self.nodes + len(self._classes)
        return SparseColumns(
            len(columns),
            np.concatenate([np.arange(len(columns)), column, moving]),
            np.concatenate([node, self.nodes + placed, first_limit + limit]),
            np.concatenate(
                [np.ones(len(columns)), contents[column, placed], limited[moving, limit]]
            ),
        )

    def solve(self, below: float = INFINITY) -> bool:
        """Solve with all columns so far; False if there was no time to, or if it is not `below`.

        While choosing, the solver stops as soon as it knows that a solution is not.
        """
        import highspy

        self._solver.setOptionValue("objective_bound", below)
        self._solver.run()
        if self._solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return False
        solution, count = self._solver.getSolution(), len(self._classes)
        self.shares = np.array(solution.col_value)[2 * count :]
        self.value = float(self._solver.getInfo().objective_function_value)
        duals = np.array(solution.row_dual)
        of_node, of_class, of_link = np.split(duals, [self.nodes, self.nodes + count])
        worth = of_class + self._linking.worth_of_pods(of_link)
        self.duals = DualValues(of_node, worth, self._linking.prices_of_moves(of_link))
        return True
