"""The search by columns, from a problem to the steps that lead to the contents it chose."""

from collections.abc import Callable, Iterator

import numpy as np

from rescheduler.model.snapshot import Floats
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.columns.class_transport import ClassTransport
from rescheduler.planning.search.columns.column_pool import ColumnPool
from rescheduler.planning.search.columns.common_contents import CommonContents
from rescheduler.planning.search.columns.contents_cost import ContentsCost
from rescheduler.planning.search.columns.integer_choice import IntegerChoice, rounded_shares
from rescheduler.planning.search.columns.linking_rows import LinkingRows
from rescheduler.planning.search.columns.master_problem import (
    MasterProblem,
    Penalties,
)
from rescheduler.planning.search.columns.node_contents import NodeContents
from rescheduler.planning.search.columns.placement_repair import PlacementRepair
from rescheduler.planning.search.columns.pod_classes import Contents, Numbers, PodClasses
from rescheduler.planning.search.columns.pricing import Pricing, ways_at_once
from rescheduler.planning.search.columns.smoothed_dual import SmoothedDual
from rescheduler.planning.search.steps import SearchStep

# Rounds of pricing with a low penalty for unplaced pods, and then with a high one.
_FIRST_ROUNDS, _ROUNDS = 4, 30
# A round that gains less than this share of the value is one of the last.
_LITTLE = 5e-4
# Contents of all nodes that are kept, in case the best cannot be reached.
_KEPT = 8
# How often the master problem is solved for whole columns, and what is not worth another one.
_SOLUTIONS, _LEAST_GAIN = 20, 1e-3
_LAST_ROUNDS = 2
# The high penalty, in low ones: where moves are scarce, they are worth more than room.
_HIGH, _HIGH_IF_LIMITED = 4.0, 40.0
_COLUMNS_PER_NODE = 1
# Contents with one pod more or fewer than at the start, to begin with, if they are not too many.
_MOST_FIRST_COLUMNS = 20_000
_IN_USE = 1e-6
# Columns beyond which those that are far from being used are forgotten.
_MOST_COLUMNS = 60_000
# In a large cluster: common contents that each node is offered, rounds of pricing by the smoothed
# dual, the share of a column that is looked around at, and columns that are kept for the end.
_NEAREST, _SMOOTHED_ROUNDS, _LARGE_SHARE, _KEPT_PER_NODE = 12, 9, 0.2, 6
# Nodes: with more, the linear program takes too long, and dual values decide alone.
_TOO_MANY_NODES = 1_500
# The first of these rounds look around the start, for several columns per node: what takes few
# moves is near it.
_ROUNDS_AT_START, _COLUMNS_NEAR_START = 2, 3


class ColumnSearch:
    """Finds which pods should go where, all nodes at once."""

    def __init__(
        self,
        problem: Problem,
        classes: PodClasses,
        out_of_time: Callable[[], bool],
        enough_columns: Callable[[], bool] = lambda: False,
        too_late: Callable[[], bool] | None = None,
    ) -> None:
        """`enough_columns` says when it is time to choose from the columns that there are, and
        `too_late` when even that is given up. What was found until then is worth little without.
        """
        self._too_late = too_late or out_of_time
        self._problem = problem
        self._out_of_time = out_of_time
        self._enough_columns = enough_columns
        self.classes = classes
        self._judge = NodeContents(problem, self.classes)
        self._linking = LinkingRows(problem, self.classes)
        self._cost = ContentsCost(problem, self._judge, self._linking)
        # With that many nodes, many pods have no node at first.
        is_large = len(problem.snapshot.nodes) > _TOO_MANY_NODES
        hurried = enough_columns if is_large else out_of_time
        self._repair = PlacementRepair(self._judge, self._linking, hurried)
        self._found = _BestContents()
        self._nodes = np.arange(len(problem.snapshot.nodes), dtype=np.int32)

    def run(self) -> Iterator[list[SearchStep]]:
        """Steps to the best contents found, in no order; then to others nearly as good."""
        if not len(self.classes) or not self._problem.max_moves:
            return
        self._pool = self._first_columns()
        penalties = self._cost.penalties()
        self._master = MasterProblem(
            self.classes,
            self._linking,
            penalties,
            self._too_late,
        )
        at_once = ways_at_once(len(self.classes))
        self._pricing = Pricing(self._judge, at_once, out_of_time=self._enough_columns)
        is_limited = self._problem.max_moves < self.classes.totals.sum()
        high = penalties.times(_HIGH_IF_LIMITED if is_limited else _HIGH)
        if is_limited or not self._is_large or not self._generate_from_common_contents(high):
            self._generate(_FIRST_ROUNDS)
            self._master.set_penalties(high)
        if not self._found:
            self._generate(_ROUNDS)
        if self._master.is_solved:
            self._choose()
        transport = ClassTransport(self._problem, self.classes)
        for contents in self._found.best():
            yield transport.steps(contents)

    def _choose(self) -> None:
        """Settle on whole columns."""
        # Nodes that hold more than they may have costs out of proportion.
        sound = self._nodes[self._judge.have_room(self._nodes, self._judge.start)]
        at_start = float(self._judge.costs(sound, self._judge.start[sound]).sum())
        least_gain = _LEAST_GAIN * max(at_start - self._master.value, 0.0)
        choice = IntegerChoice(self._pool, self._master, self._offer, self._out_of_time)
        choice.run(_SOLUTIONS, least_gain)

    def _offer(self, contents: Contents) -> float:
        repaired = self._repair.repair(contents)
        self._found.add(repaired, self._total(repaired))
        return self._found.least

    def _total(self, contents: Contents) -> float:
        return self._cost.total(contents, self._master.penalties)

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
            if little >= _LAST_ROUNDS:
                return
            nodes, contents = self._seeds(self._master.shares, _IN_USE)
            duals = self._master.duals
            found = self._pricing.improving(nodes, contents, duals, _COLUMNS_PER_NODE)
            if len(self._pool) > _MOST_COLUMNS:
                self._forget_worst()
            if not self._pool.add(*found):
                return
        self._master.extend(self._pool)
        self._master.solve()

    def _forget_worst(self) -> None:
        """Forget columns that are far from being used: a solution takes longer with every one."""
        kept = self._ranks(self._master.reduced_costs()) < _KEPT_PER_NODE
        kept[: 2 * len(self._nodes)] = True
        columns = np.flatnonzero(kept | (self._master.shares > 0))
        self._pool.keep(columns)
        self._master.keep(columns)

    def _generate_from_common_contents(self, penalties: Penalties) -> bool:
        """Add columns by dual values that are nearly right from the start; keep the best.

        False if nodes have nothing in common.
        """
        common = CommonContents(self._problem, self._judge, penalties, self._enough_columns)
        if not common.search():
            return False
        self._pool.add(*common.nearest(_NEAREST))
        dual = SmoothedDual(
            self.classes, self._linking, penalties, common.worth_of_pods, self._enough_columns
        )
        # With so many columns to come, estimated costs are good enough, and much faster.
        pricing = Pricing(self._judge, most_exact_costs=0, out_of_time=self._enough_columns)
        for number in range(_SMOOTHED_ROUNDS):
            dual.solve(self._pool)
            if self._enough_columns():
                break
            at_start = number < _ROUNDS_AT_START
            nodes, contents = self._nodes, self._judge.start
            if not at_start:
                nodes, contents = self._seeds(dual.shares, _LARGE_SHARE)
            per_node = _COLUMNS_NEAR_START if at_start else _COLUMNS_PER_NODE
            found = pricing.improving(nodes, contents, dual.duals, per_node)
            added = self._pool.add(*found)
            if not added and not at_start:
                break
        else:
            dual.solve(self._pool)
        worth = np.abs(dual.duals.of_pod).mean(axis=0)
        likely = rounded_shares(self._pool, dual.shares, self.classes.totals, worth)
        self._keep_best(dual.reduced_costs)
        self._master.set_penalties(penalties)
        self._master.extend(self._pool)
        if len(self._nodes) > _TOO_MANY_NODES or not self._master.solve_from_nothing():
            self._offer(likely)
        return True

    def _keep_best(self, reduced_costs: Floats) -> None:
        """Forget columns that are far from being used. The first ones stay."""
        ranks, first = self._ranks(reduced_costs), np.arange(2 * len(self._nodes))
        self._pool.keep(np.union1d(first, np.flatnonzero(ranks < _KEPT_PER_NODE)))

    def _ranks(self, reduced_costs: Floats) -> Numbers:
        """For each column, how many of its node are better."""
        node = self._pool.node
        order = np.lexsort((reduced_costs, node))
        ranks = np.empty(len(node), np.int64)
        ranks[order] = np.arange(len(node)) - np.searchsorted(node[order], node[order])
        return ranks

    def _seeds(self, shares: Floats, least_share: float) -> tuple[Numbers, Contents]:
        """Where to look for columns: at those in use, and the newest of nodes to be emptied."""
        pool = self._pool
        holds_some = pool.contents.any(axis=1)
        used = np.flatnonzero((shares > least_share) & holds_some)
        newest = np.full(len(self._nodes), -1, np.int64)
        filled = np.flatnonzero(holds_some)
        newest[pool.node[filled]] = filled
        newest[pool.node[used]] = -1
        columns = np.concatenate([used, newest[newest >= 0]])
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

    def __len__(self) -> int:
        return len(self._found)

    @property
    def least(self) -> float:
        """What the best of them cost."""
        return min((total for total, _ in self._found.values()), default=np.inf)

    def best(self) -> list[Contents]:
        """The contents, the best first."""
        return [contents for _, contents in sorted(self._found.values(), key=lambda each: each[0])]
