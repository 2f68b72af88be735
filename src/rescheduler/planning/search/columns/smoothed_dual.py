"""Dual values of a large master problem, without solving it.

The dual of the master problem has few variables: what a pod of each class is worth, and what each
limit costs. For given values, every node takes the column that is best for it. If it takes columns
in shares instead, the more of one the better it is, the dual is smooth, and Newton's method finds
its maximum in a few steps, beginning where the last one ended. The shares become sharper from one
round to the next. That takes a fraction of the time of the simplex method, and the values are
steadier, so fewer rounds are needed.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rescheduler.model.snapshot import Floats
from rescheduler.planning.search.columns.column_pool import ColumnPool
from rescheduler.planning.search.columns.linking_rows import LinkingRows
from rescheduler.planning.search.columns.master_problem import DualValues, Penalties
from rescheduler.planning.search.columns.pod_classes import PodClasses

# How far from the best a column may be and still have a share: at first, at last, and from one
# round to the next. In what a pod is worth.
_BLUR, _LEAST_BLUR, _SHARPER = 0.12, 0.01, 0.75
_STEPS = 15
# A step that promises less than this, in blurs per node, is the last.
_LITTLE = 1e-3
# Of the way to the edge of what is allowed; and what is taken off a step that does not help.
_SHORT_OF_EDGE, _SHORTER = 0.95, 0.4
_SHORTEST = 1e-6
# Shares below this do not count in the curvature.
_NO_SHARE = 1e-5


class SmoothedDual:
    """Finds out what pods are worth, from the columns of a pool."""

    def __init__(
        self,
        classes: PodClasses,
        linking: LinkingRows,
        penalties: Penalties,
        worth: Floats,
        out_of_time: Callable[[], bool] = lambda: False,
    ) -> None:
        """`worth` is a first guess of what a pod of each class is worth."""
        self._out_of_time = out_of_time
        self._classes = classes
        self._linking = linking
        # Limits that cannot be exceeded whatever is moved need no variable.
        self._links = np.flatnonzero(linking.most < classes.totals.sum())
        links = len(self._links)
        self._least = np.concatenate(
            [-penalties.placed_twice, np.full(links, -float(penalties.unplaced.max()))]
        )
        self._most = np.concatenate([penalties.unplaced, np.zeros(links)])
        width = self._most - self._least
        guess = np.concatenate([worth, np.zeros(links)])
        self._values = np.clip(guess, self._least + 0.02 * width, self._most - 0.02 * width)
        placed = classes.totals - classes.start.sum(axis=0, dtype=np.int64)
        self._rhs = np.concatenate([placed, linking.most[self._links]]).astype(np.float64)
        scale = float(np.average(np.abs(worth), weights=classes.totals))
        self._blur, self._least_blur = _BLUR * scale, _LEAST_BLUR * scale
        self._entries: Floats = np.empty((0, len(self._rhs)))
        self.shares: Floats = np.empty(0)
        """How far each column is chosen."""
        self.reduced_costs: Floats = np.empty(0)
        """How much worse each column is than the best of its node."""
        self.duals: DualValues

    @property
    def is_sharp(self) -> bool:
        """Whether shares are as sharp as they become."""
        return self._blur <= self._least_blur

    def solve(self, pool: ColumnPool) -> None:
        """Find the values for the columns that the pool has now."""
        self._extend(pool)
        columns = _Columns(pool, self._entries, len(self._classes.start))
        point = columns.at(self._values, self._blur)
        is_found = False
        for _ in range(_STEPS):
            gradient, curvature = self._derivatives(columns, point)
            direction: Floats = np.linalg.solve(curvature, gradient).astype(np.float64)
            promised = float(gradient @ direction)
            if promised < _LITTLE * self._blur * columns.nodes:
                is_found = True
                break
            point = self._step(columns, point, direction, promised)
            if self._out_of_time():
                break
        self._values = point.values
        self.shares, self.reduced_costs = columns.unsorted(point.shares, point.reduced)
        self._set_duals(point.best)
        if is_found:
            self._blur = max(self._blur * _SHARPER, self._least_blur)

    def _extend(self, pool: ColumnPool) -> None:
        """What each column has more than the start, and adds to the limits."""
        new = slice(len(self._entries), len(pool))
        node, contents = pool.node[new], pool.contents[new]
        change = contents - self._classes.start[node]
        linked = self._linking.entries(node, contents)[:, self._links]
        self._entries = np.concatenate([self._entries, np.concatenate([change, linked], axis=1)])

    def _derivatives(self, columns: "_Columns", point: "_Point") -> tuple[Floats, Floats]:
        """Of the smoothed dual, with a barrier that keeps values within their bounds."""
        below = 1.0 / (point.values - self._least)
        above = 1.0 / (self._most - point.values)
        mean, spread = columns.moments(point)
        gradient = self._rhs - mean + self._blur * (below - above)
        curvature = spread / self._blur
        diagonal = np.diag_indices(len(gradient))
        curvature[diagonal] += self._blur * (below**2 + above**2)
        return gradient, curvature

    def _step(
        self, columns: "_Columns", point: "_Point", direction: Floats, promised: float
    ) -> "_Point":
        """As far as it helps, and never to the edge."""
        bound = np.where(direction < 0, self._least, self._most)
        with np.errstate(divide="ignore", invalid="ignore"):
            to_edge = np.where(direction != 0, (bound - point.values) / direction, np.inf)
        length = min(1.0, _SHORT_OF_EDGE * float(to_edge.min()))
        now = self._value(point)
        while True:
            then = columns.at(point.values + length * direction, self._blur)
            if self._value(then) >= now + 1e-4 * length * promised or length < _SHORTEST:
                return then
            length *= _SHORTER

    def _value(self, point: "_Point") -> float:
        barrier = np.log(point.values - self._least) + np.log(self._most - point.values)
        return float(self._rhs @ point.values + point.smoothed + self._blur * barrier.sum())

    def _set_duals(self, best: Floats) -> None:
        of_link = np.zeros(len(self._linking.most))
        classes = len(self._classes)
        of_link[self._links] = self._values[classes:]
        start = self._classes.start
        worth = self._values[:classes] + self._linking.worth_of_pods(of_link)
        self.duals = DualValues(
            best - (start * self._values[:classes]).sum(axis=1),
            np.broadcast_to(worth, start.shape),
            self._linking.prices_of_moves(of_link),
        )


class _Point(NamedTuple):
    """The smoothed dual for some values."""

    values: Floats
    smoothed: float
    """What all nodes cost at these values, if they take shares of columns."""
    best: Floats
    """What the best column of each node costs."""
    reduced: Floats
    shares: Floats


class _Columns:
    """The columns of a pool, sorted by node."""

    def __init__(self, pool: ColumnPool, entries: Floats, nodes: int) -> None:
        self.nodes = nodes
        self._order = np.argsort(pool.node, kind="stable")
        self._node = pool.node[self._order]
        self._first = np.searchsorted(self._node, np.arange(nodes))
        self._entries = entries[self._order]
        self._costs = pool.costs[self._order]

    def at(self, values: Floats, blur: float) -> _Point:
        reduced = self._costs - self._entries @ values
        best = np.minimum.reduceat(reduced, self._first)
        reduced -= best[self._node]
        shares = np.exp(-reduced / blur)
        sums = np.add.reduceat(shares, self._first)
        smoothed = float((best - blur * np.log(sums)).sum())
        return _Point(values, smoothed, best, reduced, shares / sums[self._node])

    def moments(self, point: _Point) -> tuple[Floats, Floats]:
        """The sum of all nodes' entries, and how entries vary with the column that is taken."""
        some = np.flatnonzero(point.shares > _NO_SHARE)
        node, share, entries = self._node[some], point.shares[some, None], self._entries[some]
        mean = np.add.reduceat(share * entries, np.searchsorted(node, np.arange(self.nodes)))
        around = entries - mean[node]
        return mean.sum(axis=0), np.asarray(around.T @ (share * around))

    def unsorted(self, *arrays: Floats) -> list[Floats]:
        """Arrays by column, in the order of the pool."""
        back = np.empty_like(self._order)
        back[self._order] = np.arange(len(back))
        return [array[back] for array in arrays]
