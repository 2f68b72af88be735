"""One whole column for every node: by branch and bound on the master problem, or from shares alone.

Nearly all nodes have a whole column already. Of the others, one is given one of its columns, and
the master problem is solved again: its value says whether anything better than the best so far can
come of it. The most promising choice is followed first. On the way, shares are rounded and pods
placed that then have no node.

Where that takes too long, shares are all there is. If every node took the column that it has most
of, nodes that are alike would all take the same one, and many pods would have no node while others
had two. So nodes choose one after another, each the column that brings all numbers so far nearest
to what shares add up to.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

import numpy as np

from rescheduler.model.snapshot import Floats, Ints
from rescheduler.planning.search.columns.column_pool import ColumnPool
from rescheduler.planning.search.columns.master_problem import Columns, MasterProblem
from rescheduler.planning.search.columns.pod_classes import Contents

_WHOLE, _SOME = 1 - 1e-6, 1e-6
# Columns of a node that are tried one by one, those with the largest shares.
_TRIED = 3
# Without a master problem, columns with smaller shares are chosen only if they have the largest.
_LEAST_SHARE = 0.02


class IntegerChoice:
    """Chooses columns of a pool that a master problem has been solved for."""

    def __init__(
        self,
        pool: ColumnPool,
        master: MasterProblem,
        offer: Callable[[Contents], float],
        out_of_time: Callable[[], bool],
    ) -> None:
        """`offer` takes the contents of all nodes; it returns the value of the best so far."""
        self._pool = pool
        self._master = master
        self._offer = offer
        self._out_of_time = out_of_time
        self._excluded: Columns = np.empty(0, np.int64)
        self._best = np.inf
        # Choices that were not followed yet: their least value, how often they went by the smaller
        # share, and the columns that they exclude.
        self._open: list[tuple[float, int, int, Columns]] = []
        self._number = count()

    def run(self, solutions: int, least_gain: float) -> None:
        """Offer what is found by solving the master problem so many times.

        What could only be better by less than `least_gain` is not pursued.
        """
        with self._master.choosing():
            self._branch(0)
            for _ in range(solutions):
                if not self._open or self._out_of_time():
                    break
                value, detours, _, excluded = heappop(self._open)
                if value >= self._best - least_gain:
                    break
                self._exclude(excluded)
                if self._master.solve() and self._master.value < self._best - least_gain:
                    self._branch(detours)
            self._exclude(self._excluded[:0])

    def _branch(self, detours: int) -> None:
        """Offer the rounded shares, and note the choices for a node that has several columns."""
        rounded, shares = self._rounded()
        self._best = self._offer(self._pool.contents[rounded])
        fractional = np.flatnonzero(shares < _WHOLE)
        if not len(fractional):
            return
        node = int(fractional[shares[fractional].argmax()])
        columns = np.flatnonzero(self._pool.node == node)
        share = self._master.shares[columns]
        order = np.argsort(-share, kind="stable")[:_TRIED]
        tried = columns[order[share[order] > _SOME]]
        for detour, chosen in enumerate(tried.tolist()):
            self._note(detours + detour, columns[columns != chosen])
        self._note(detours + len(tried), tried)

    def _note(self, detours: int, excluded: Columns) -> None:
        everything = np.union1d(self._excluded, excluded)
        # The newest of equals first: that leads to whole columns soon.
        heappush(self._open, (self._master.value, detours, -next(self._number), everything))

    def _exclude(self, columns: Columns) -> None:
        self._master.include(np.setdiff1d(self._excluded, columns))
        self._master.exclude(np.setdiff1d(columns, self._excluded))
        self._excluded = columns

    def _rounded(self) -> tuple[Columns, Floats]:
        """The column with the largest share for each node, and that share."""
        shares, node = self._master.shares, self._pool.node
        order = np.lexsort((-shares, node))
        first = order[np.searchsorted(node[order], np.arange(self._master.nodes))]
        return first, shares[first]


def rounded_shares(pool: ColumnPool, shares: Floats, totals: Ints, worth: Floats) -> Contents:
    """Contents for every node.

    There are `totals` pods of each class, and a pod of each is worth so much.
    """
    order = np.lexsort((-shares, pool.node))
    nodes = int(pool.node.max()) + 1
    first = np.searchsorted(pool.node[order], np.arange(nodes))
    largest = order[first]
    contents = pool.contents[largest]
    expected = np.zeros(contents.shape)
    np.add.at(expected, pool.node, pool.contents * shares[:, None])
    # Shares may add up to a few pods too many or too few. Every node makes up for its part.
    expected += (totals - expected.sum(axis=0)) / nodes
    is_open = np.bincount(pool.node, shares > _LEAST_SHARE) > 1
    off = (contents - expected)[~is_open].sum(axis=0)
    likely = order[shares[order] > _LEAST_SHARE]
    likely = likely[is_open[pool.node[likely]]]
    starts = np.flatnonzero(np.diff(pool.node[likely], prepend=-1))
    for columns in np.split(likely, starts[1:]) if len(likely) else []:
        node = pool.node[columns[0]]
        then = off - expected[node] + pool.contents[columns]
        best = int(((then * worth) ** 2).sum(axis=1).argmin())
        contents[node], off = pool.contents[columns[best]], then[best]
    return contents
