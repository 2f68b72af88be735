"""The search by columns, from a problem to the steps that lead to the contents it chose."""

from collections.abc import Callable, Iterator

import numpy as np

from rescheduler.model.snapshot import Bools, Floats
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.columns.class_transport import ClassTransport
from rescheduler.planning.search.columns.column_pool import ColumnPool
from rescheduler.planning.search.columns.common_contents import CommonContents
from rescheduler.planning.search.columns.integer_choice import IntegerChoice
from rescheduler.planning.search.columns.linking_rows import LinkingRows
from rescheduler.planning.search.columns.master_problem import (
    DualValues,
    MasterProblem,
    Penalties,
)
from rescheduler.planning.search.columns.node_contents import NodeContents
from rescheduler.planning.search.columns.placement_repair import PlacementRepair
from rescheduler.planning.search.columns.pod_classes import Contents, Numbers, pod_classes
from rescheduler.planning.search.columns.pricing import pricings
from rescheduler.planning.search.columns.smoothed_dual import SmoothedDual
from rescheduler.planning.search.steps import SearchStep

# Rounds of pricing with a low penalty for unplaced pods, and then with a high one.
_FIRST_ROUNDS, _ROUNDS = 4, 30
# A round that gains less than this share of the value is one of the last. Not in a small cluster,
# of so many nodes times classes: there, rounds take no time.
_LITTLE, _SMALL = 5e-4, 1_000
# How often columns are added and chosen from in a small cluster, and how many at once.
_CHOICES, _MOST_NEARBY = 3, 1_500
_NOTHING = 1e-9
# Contents of all nodes that are kept, in case the best cannot be reached.
_KEPT = 8
# How often the master problem is solved for whole columns, and what is not worth another one.
_SOLUTIONS, _SOLUTIONS_IF_SMALL, _LEAST_GAIN = 20, 120, 1e-3
_LAST_ROUNDS = 2
# The high penalty, in low ones: where moves are scarce, they are worth more than room.
_HIGH, _HIGH_IF_LIMITED = 4.0, 40.0
_COLUMNS_PER_NODE = 1
# Contents with one pod more or fewer than at the start, to begin with, if they are not too many.
_MOST_FIRST_COLUMNS = 20_000
_IN_USE = 1e-6
# In a large cluster: common contents that each node is offered, rounds of pricing by the smoothed
# dual, the share of a column that is looked around at, and columns that are kept for the end.
_NEAREST, _SMOOTHED_ROUNDS, _LARGE_SHARE, _KEPT_PER_NODE = 6, 9, 0.2, 6


class ColumnSearch:
    """Finds which pods should go where, all nodes at once."""

    def __init__(
        self,
        problem: Problem,
        out_of_time: Callable[[], bool],
        enough_columns: Callable[[], bool] = lambda: False,
    ) -> None:
        """`enough_columns` says when it is time to choose from the columns that there are."""
        self._problem = problem
        self._out_of_time = out_of_time
        self._enough_columns = enough_columns
        self.classes = pod_classes(problem)
        self._judge = NodeContents(problem, self.classes)
        self._linking = LinkingRows(problem, self.classes)
        self._repair = PlacementRepair(self._judge, self._linking)
        self._found = _BestContents()
        self._nodes = np.arange(len(problem.snapshot.nodes), dtype=np.int32)

    def run(self) -> Iterator[list[SearchStep]]:
        """Steps to the best contents found, in no order; then to others nearly as good."""
        if not len(self.classes) or not self._problem.max_moves:
            return
        self._pool = self._first_columns()
        penalties = self._penalties()
        self._master = MasterProblem(
            self.classes,
            self._linking,
            penalties,
            self._out_of_time,
        )
        self._pricings = pricings(self._judge, self._enough_columns, is_small=self._is_small)
        is_limited = self._problem.max_moves < self.classes.totals.sum()
        high = penalties.times(_HIGH_IF_LIMITED if is_limited else _HIGH)
        if is_limited or not self._is_large or not self._generate_from_common_contents(high):
            self._generate(_FIRST_ROUNDS)
            self._master.set_penalties(high)
        self._generate(_ROUNDS)
        if self._master.is_solved:
            self._choose()
        transport = ClassTransport(self._problem, self.classes)
        for contents in self._found.best():
            yield transport.steps(contents)

    def _choose(self) -> None:
        """Whole columns, with those added that are not worth it in part but may be as a whole."""
        # Nodes that hold more than they may have costs out of proportion.
        sound = self._nodes[self._judge.have_room(self._nodes, self._judge.start)]
        at_start = float(self._judge.costs(sound, self._judge.start[sound]).sum())
        least_gain = _LEAST_GAIN * max(at_start - self._master.value, 0.0)
        for _ in range(_CHOICES if self._is_small else 1):
            before = self._found.least
            choice = IntegerChoice(self._pool, self._master, self._offer, self._out_of_time)
            choice.run(_SOLUTIONS_IF_SMALL if self._is_small else _SOLUTIONS, least_gain)
            if not self._is_small or self._found.least >= before - _NOTHING:
                break
            if not self._enrich(self._found.best()[0], least_gain):
                break

    def _offer(self, contents: Contents) -> float:
        repaired = self._repair.repair(contents)
        self._found.add(repaired, self._total(repaired))
        return self._found.least

    def _enrich(self, contents: Contents, least_gain: float) -> bool:
        """Add the columns that could be part of something better than these contents."""
        gap = self._found.least - self._master.value
        if gap <= least_gain:
            return False
        nodes, used = self._seeds(self._master.shares)
        nodes, used = np.concatenate([nodes, self._nodes]), np.concatenate([used, contents])
        nearby = self._pricings[0].nearby(nodes, used, self._master.duals, gap, _MOST_NEARBY)
        self._pool.add(self._nodes, contents)
        self._pool.add(*nearby)
        self._master.extend(self._pool)
        return self._master.solve()

    def _total(self, contents: Contents) -> float:
        """What these contents cost, with penalties for unplaced pods and exceeded limits."""
        arrivals = self._judge.arrivals(self._nodes, contents)
        cost = self._judge.costs(self._nodes, contents).sum()
        cost += float((arrivals @ self.classes.move_prices).sum())
        unplaced = self.classes.totals - contents.sum(axis=0, dtype=np.int64)
        penalties = self._master.penalties.unplaced
        excess = self._linking.excess(contents) * float(penalties.max())
        return float(cost + np.maximum(unplaced, 0) @ penalties + excess)

    @property
    def _is_small(self) -> bool:
        return self._judge.start.size <= _SMALL

    @property
    def _is_large(self) -> bool:
        return self._judge.start.size > _MOST_FIRST_COLUMNS

    def _first_columns(self) -> ColumnPool:
        pool, start = ColumnPool(self._judge), self._judge.start
        pool.add(self._nodes, start)
        pool.add(self._nodes, np.zeros_like(start))
        if start.size <= _MOST_FIRST_COLUMNS:
            for change in (1, -1):
                for number in range(len(self.classes)):
                    then = start.copy()
                    then[:, number] += change
                    possible = then[:, number] >= 0
                    pool.add(self._nodes[possible], then[possible])
        return pool

    def _penalties(self) -> Penalties:
        """About what it is worth to have no room to find for a pod of each class."""
        start, demand = self._judge.start, self.classes.demand
        costs = self._judge.costs(self._nodes, start)
        saved = np.maximum(costs - self._judge.costs(self._nodes, np.zeros_like(start)), 0.0)
        has_room = self._judge.have_room(self._nodes, start)
        saved = saved[has_room] * (len(saved) / max(int(has_room.sum()), 1))
        size = (demand / np.maximum(self._problem.load.allocatable.mean(axis=1), 1e-9)).max(axis=1)
        worth = 1.5 * saved.sum() * size / max(float(size @ self.classes.totals), 1e-9)
        changes = 2.0 * self._typical_changes(costs, has_room) + 1e-6
        return Penalties(unplaced=worth + changes, placed_twice=changes)

    def _typical_changes(self, costs: Floats, has_room: Bools) -> Floats:
        """By how much a node's cost changes in the mean when a pod of each class leaves.

        Not counting nodes whose cost is out of proportion, because they hold more than they may.
        """
        start, changes = self._judge.start, np.zeros(len(self.classes))
        for number in range(len(changes)):
            nodes = self._nodes[(start[:, number] > 0) & has_room]
            if len(nodes):
                then = start[nodes]
                then[:, number] -= 1
                difference = np.abs(self._judge.costs(nodes, then) - costs[nodes])
                changes[number] = difference.mean()
        return np.asarray(np.maximum(changes, changes.max() / 2))

    def _generate(self, rounds: int) -> None:
        """Add columns until hardly any helps."""
        before, little = np.inf, 0
        for _ in range(rounds):
            self._master.extend(self._pool)
            if self._out_of_time() or not self._master.solve() or self._enough_columns():
                return
            value = self._master.value
            little = little + 1 if before - value < _LITTLE * abs(value) else 0
            before = value
            if little >= _LAST_ROUNDS and not self._is_small:
                return
            if not self._price(self._master.duals, self._master.shares, _IN_USE):
                return
        self._master.extend(self._pool)
        self._master.solve()

    def _generate_from_common_contents(self, penalties: Penalties) -> bool:
        """Add columns by dual values that are nearly right from the start; keep the best.

        False if nodes have nothing in common.
        """
        common = CommonContents(self._problem, self._judge, penalties, self._enough_columns)
        if not common.search():
            return False
        for nodes, contents in common.nearest(_NEAREST):
            self._pool.add(nodes, contents)
        dual = SmoothedDual(self.classes, self._linking, penalties, common.worth_of_pods)
        for _ in range(_SMOOTHED_ROUNDS):
            dual.solve(self._pool)
            if self._enough_columns():
                break
            if not self._price(dual.duals, dual.shares, _LARGE_SHARE):
                break
        else:
            dual.solve(self._pool)
        self._keep_best(dual.reduced_costs)
        self._master.set_penalties(penalties)
        self._master.extend(self._pool)
        self._master.solve_from_nothing()
        return True

    def _keep_best(self, reduced_costs: Floats) -> None:
        """Forget columns that are far from being used. The first ones stay."""
        pool, first = self._pool, 2 * len(self._nodes)
        order = np.lexsort((reduced_costs, pool.node))
        rank = np.empty(len(pool), np.int64)
        rank[order] = np.arange(len(pool)) - np.searchsorted(pool.node[order], pool.node[order])
        best = np.flatnonzero(rank < _KEPT_PER_NODE)
        pool.keep(np.union1d(np.arange(first), best))

    def _price(self, duals: DualValues, shares: Floats, least_share: float) -> bool:
        """Whether columns were added that lower the master problem's value."""
        nodes, contents = self._seeds(shares, least_share)
        return any(
            self._pool.add(*pricing.improving(nodes, contents, duals, _COLUMNS_PER_NODE))
            for pricing in self._pricings
        )

    def _seeds(self, shares: Floats, least_share: float = _IN_USE) -> tuple[Numbers, Contents]:
        """Where to look for columns: at those in use, and the newest of nodes to be emptied.

        In a small cluster also at the start: the more places, the less is overlooked.
        """
        pool = self._pool
        holds_some = pool.contents.any(axis=1)
        used = np.flatnonzero((shares > least_share) & holds_some)
        newest = np.full(len(self._nodes), -1, np.int64)
        filled = np.flatnonzero(holds_some)
        newest[pool.node[filled]] = filled
        if not self._is_small:
            newest[pool.node[used]] = -1
        columns = np.concatenate([used, newest[newest >= 0]])
        if self._is_small:
            columns = np.union1d(columns, np.arange(len(self._nodes)))
        return pool.node[columns], pool.contents[columns]


class _BestContents:
    """The best contents of all nodes that were found, no two of them the same."""

    def __init__(self) -> None:
        self._found: dict[bytes, tuple[float, Contents]] = {}

    def add(self, contents: Contents, total: float) -> None:
        self._found[contents.tobytes()] = total, contents
        if len(self._found) > _KEPT:
            worst = max(self._found, key=lambda key: self._found[key][0])
            del self._found[worst]

    @property
    def least(self) -> float:
        """What the best of them cost."""
        return min((total for total, _ in self._found.values()), default=np.inf)

    def best(self) -> list[Contents]:
        """The contents, the best first."""
        return [contents for _, contents in sorted(self._found.values(), key=lambda each: each[0])]
