"""One whole column for every node, by branch and bound on the master problem.

A node that has several columns in parts has several costs in the mean of which none may be had:
half of a node freed, half of a hole. So its columns are split at that mean: either it costs less,
or more. Where costs do not differ, columns are split by how many pods of a class they hold. Both
halves lose the mean, and few solutions of the master problem are enough.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

import numpy as np

from rescheduler.model.snapshot import Bools, Floats
from rescheduler.planning.search.columns.column_pool import ColumnPool
from rescheduler.planning.search.columns.master_problem import MasterProblem
from rescheduler.planning.search.columns.node_contents import NodeContents
from rescheduler.planning.search.columns.pod_classes import Contents, Numbers

_WHOLE, _SOME = 1 - 1e-6, 1e-6
# Costs of a node that differ by less than this share of what may be gained are not split.
_LITTLE = 0.1
# A choice is followed further while it is no worse than the best one by this share of the gap.
_MUCH_WORSE = 0.6
# By how much of the gap a split by numbers of pods makes a choice less urgent. Such splits hardly
# raise the value: without this, all of them are tried for one set of costs before the next.
_SPLITS_COUNT = 0.02


class Offered(NamedTuple):
    """What came of an offer."""

    best: float
    """The value of the best plan so far."""
    blamed: Bools
    """Nodes whose columns are to blame if no plan is as good as what was offered."""


class _Choice(NamedTuple):
    """Some columns are excluded, and the master problem was solved with the others."""

    urgency: float
    """The lowest is followed first."""
    number: int
    value: float
    splits: int
    """How often columns were split by how many pods they hold."""
    excluded: Bools
    shares: Floats


class _Halves(NamedTuple):
    """Columns of a node: these or those are to be excluded."""

    upper: Bools
    lower: Bools
    is_by_cost: bool


class BranchAndBound:
    """Chooses columns of a pool that a master problem has been solved for."""

    def __init__(
        self,
        pool: ColumnPool,
        judge: NodeContents,
        master: MasterProblem,
        offer: Callable[[Contents], Offered],
        out_of_time: Callable[[], bool],
        same_as: Numbers | None = None,
    ) -> None:
        """`offer` takes the contents of all nodes.

        `same_as`: by column, the first one with the same node and contents; by default itself.
        """
        self._pool = pool
        # Without moves: what they cost would make a difference between contents that are as good.
        self._costs = judge.costs(pool.node, pool.contents)
        self._changes = (pool.contents != judge.start[pool.node]).any(axis=1)
        self._master = master
        self._same_as = np.arange(len(pool), dtype=np.int32) if same_as is None else same_as
        self._offer = offer
        self._out_of_time = out_of_time
        self._excluded: Bools = np.zeros(len(pool), bool)
        self._open: list[_Choice] = []
        self._number = count()
        self._left = 0

    def run(self, solutions: int, best: float, least_gain: float, in_vain: int) -> bool:
        """Offer what is found with so many solutions of the master problem.

        What could only be better than the best by less than `least_gain` is not pursued. It ends
        when so many offers led to no plan that is as good as what was offered. Returns whether
        nothing is left to pursue: no choice of these columns leads to a better plan.
        """
        self._best, self._least_gain, self._left = best, least_gain, solutions
        self._in_vain_left, self._has_offered = in_vain, False
        with self._master.choosing():
            self._note(np.zeros(len(self._pool), bool), 0)
            while self._open and self._goes_on():
                choice = heappop(self._open)
                if self._is_better(choice.value):
                    self._follow(choice)
            self._exclude(np.zeros(len(self._pool), bool))
        return not self._open and self._goes_on()

    def _goes_on(self) -> bool:
        return self._left > 0 and self._in_vain_left > 0 and not self._out_of_time()

    def _is_better(self, value: float) -> bool:
        return value < self._best - self._least_gain

    def _follow(self, choice: _Choice) -> None:
        """Split, and follow the better half until it is whole, or no longer among the best.

        The first time, it is always followed to the end, to have something to compare with.
        """
        least = choice.value
        while self._is_better(choice.value) and self._goes_on():
            used = np.flatnonzero(choice.shares > _SOME)
            split = self._split(choice.value, used, choice.shares[used])
            if split is None:
                self._take(choice, used)
                return
            splits = choice.splits + (not split.is_by_cost)
            halves = [self._solved(choice.excluded | half, splits) for half in split[:2]]
            solved = sorted(half for half in halves if half)
            for other in solved[1:]:
                heappush(self._open, other)
            if not solved:
                return
            choice = solved[0]
            if self._has_offered and choice.value > least + _MUCH_WORSE * (self._best - least):
                heappush(self._open, choice)
                return

    def _solved(self, excluded: Bools, splits: int) -> _Choice | None:
        """The master problem's solution without these columns, if it is better than the best."""
        self._exclude(excluded)
        self._left -= 1
        below = self._best - self._least_gain
        if not self._master.solve(below) or not self._is_better(self._master.value):
            return None
        value = self._master.value
        gap = min(self._best - value, abs(value))
        urgency = value + splits * _SPLITS_COUNT * gap
        # The newest of equals first: that leads to whole columns soon.
        shares: Floats = np.zeros(len(self._pool))
        np.add.at(shares, self._same_as, self._master.shares)
        return _Choice(urgency, -next(self._number), value, splits, excluded, shares)

    def _note(self, excluded: Bools, splits: int) -> None:
        found = self._solved(excluded, splits)
        if found is not None:
            heappush(self._open, found)

    def _exclude(self, excluded: Bools) -> None:
        self._master.include(np.flatnonzero(self._excluded & ~excluded))
        self._master.exclude(np.flatnonzero(excluded & ~self._excluded))
        self._excluded = excluded

    def _split(self, value: float, used: Numbers, shares: Floats) -> _Halves | None:
        """Two halves of a node's columns: one of them is to be excluded. None if all are whole."""
        partly = shares < _WHOLE
        if not partly.any():
            return None
        used, shares = used[partly], shares[partly]
        node, cost = self._pool.node[used], self._costs[used]
        mean = np.bincount(node, shares * cost, self._master.nodes)
        spread = np.bincount(node, shares * np.abs(cost - mean[node]), self._master.nodes)
        widest = int(spread.argmax())
        if spread[widest] > _LITTLE * (self._best - value):
            return self._halves(widest, self._costs > mean[widest], is_by_cost=True)
        held = np.zeros((self._master.nodes, self._pool.contents.shape[1]))
        np.add.at(held, node, shares[:, None] * self._pool.contents[used])
        is_partly = np.abs(held - np.round(held))
        where, number = np.unravel_index(int(is_partly.argmax()), held.shape)
        if is_partly[where, number] > _SOME:
            return self._halves(int(where), self._pool.contents[:, number] > held[where, number])
        largest = used[shares.argmax()]
        return self._halves(int(self._pool.node[largest]), self._same_as == largest)

    def _halves(self, node: int, upper: Bools, *, is_by_cost: bool = False) -> _Halves:
        of_node = self._pool.node == node
        return _Halves(of_node & upper, of_node & ~upper, is_by_cost)

    def _take(self, choice: _Choice, used: Numbers) -> None:
        """Offer whole columns. If no plan is as good as they are, go on without those to blame."""
        chosen = used[np.argsort(self._pool.node[used])]
        self._best, blamed = self._offer(self._pool.contents[chosen])
        self._has_offered = True
        self._in_vain_left -= self._is_better(choice.value)
        fixed = choice.excluded
        for column in chosen[self._changes[chosen] & blamed].tolist():
            if not self._is_better(choice.value) or not self._goes_on():
                return
            copies = self._same_as == column
            self._note(fixed | copies, choice.splits)
            fixed = fixed | ((self._pool.node == self._pool.node[column]) & ~copies)
