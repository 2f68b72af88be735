"""The search for small clusters, from a problem to plans that are as good as can be."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rescheduler.model.snapshot import Bools, Floats
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.best_plan import BestPlan
from rescheduler.planning.search.columns.class_transport import ClassTransport
from rescheduler.planning.search.columns.column_pool import ColumnPool
from rescheduler.planning.search.columns.contents_cost import ContentsCost
from rescheduler.planning.search.columns.linking_rows import LinkingRows
from rescheduler.planning.search.columns.master_problem import MasterProblem
from rescheduler.planning.search.columns.node_contents import NodeContents
from rescheduler.planning.search.columns.placement_repair import PlacementRepair
from rescheduler.planning.search.columns.pod_classes import STAYS, Contents, Numbers, PodClasses
from rescheduler.planning.search.columns.pricing import Pricing
from rescheduler.planning.search.exact.branch_and_bound import BranchAndBound, Offered
from rescheduler.planning.search.exact.complete_columns import CompleteColumns
from rescheduler.planning.search.exact.guided_columns import GuidedColumns
from rescheduler.planning.search.exact.pair_exchange import PairExchange
from rescheduler.planning.search.exact.staged_columns import StagedColumns, StagedRows
from rescheduler.planning.search.steps import SearchStep

# Nodes times classes: what is larger is searched by `columns`.
_SMALL = 1_000
# Unplaced pods cost so much more than is likely that none stays unplaced if there is any room.
_SEVERE = 40.0
_COLUMNS_PER_NODE, _ROUNDS = 6, 60
# Of what there is to gain: less is not worth another solution.
_LEAST_GAIN = 3e-4
# Exchanges are quick, so they are made for this share of that: no move is in vain.
_EXCHANGED_FOR = 0.01
_IN_USE = 1e-6
# Reduced costs below this are rounding.
_NOTHING = 1e-7
# Exchanges that are tried from one plan, the best first: not all of them have an order.
_EXCHANGES = 12
# Columns that are looked at if an order is hard to find, and the stages they may be in.
_STAGED, _STAGES = 600, 4


class _Effort(NamedTuple):
    """How many columns are added, and how long it is then searched for whole ones."""

    listed: int
    """Columns that may be better."""
    nearby: int
    """Such columns of nodes that have more than are listed, near those in use."""
    guided: int
    """Such columns of each of these nodes, wherever they are."""
    solutions: int
    """Of the master problem, at least."""
    shares: int
    """Solutions times columns, if that makes more: few columns are solved for in no time."""
    in_vain: int
    """Offers without an order after which ordered ones are looked for."""


# First with the columns that solve the master problem, then with more and more.
_EFFORTS = (
    _Effort(0, 0, 0, 150, 0, 5),
    _Effort(500, 300, 30, 150, 0, 10),
    _Effort(2_500, 1_500, 100, 300, 240_000, 30),
)


class ExactSearch:
    """Offers the plans that lead to the best contents of all nodes."""

    def __init__(
        self,
        problem: Problem,
        classes: PodClasses,
        best_plan: BestPlan,
        out_of_time: Callable[[], bool],
    ) -> None:
        self._problem = problem
        self._classes = classes
        self._interchangeable = classes.interchangeable
        self._best_plan = best_plan
        self._out_of_time = out_of_time
        self._judge = NodeContents(problem, classes)
        self._linking = LinkingRows(problem, classes)
        self._repair = PlacementRepair(self._judge, self._linking)
        self._cost = ContentsCost(problem, self._judge, self._linking)
        self._penalties = self._cost.penalties().times(_SEVERE)
        self._transport = ClassTransport(problem, classes)
        self._nodes = np.arange(len(problem.snapshot.nodes), dtype=np.int32)
        self._blamed: dict[bytes, Bools] = {}
        self._without_order = False
        self.is_solved = False
        """Whether none of the columns that were looked at leads to a much better plan."""
        # By how much plans are worth more than their contents: what columns do not see.
        self._beyond_columns: float | None = None
        if not classes.homeless.any():
            self._beyond_columns = best_plan.value_of([]) - self._total(self._judge.start)

    @staticmethod
    def suits(classes: PodClasses) -> bool:
        """Whether a problem with these classes is small enough."""
        return 0 < classes.start.size <= _SMALL

    def run(self) -> None:
        """Offer plans until none can be much better than the best."""
        self._listed = CompleteColumns(self._judge, self._problem.max_moves)
        self._pool = ColumnPool(self._judge)
        self._pool.add(self._nodes, self._judge.start)
        simple = self._listed.is_simple
        self._pool.add(self._listed.node[simple], self._listed.contents[simple])
        self._master = MasterProblem(
            self._classes, self._linking, self._penalties, self._out_of_time
        )
        self._pricing = Pricing(self._judge)
        # For load, what differs little from the start is enough.
        far = ~self._listed.is_complete & self._problem.objective.needs_combined_moves
        incomplete = self._nodes[far]
        self._guided = GuidedColumns(
            self._judge, incomplete, self._problem.max_moves, self._out_of_time
        )
        if not self._generate(guided=False):
            return
        start = float(self._judge.costs(self._nodes, self._judge.start).sum())
        self._least_gain = _LEAST_GAIN * max(start - self._master.value, 0.0)
        self._exchange = PairExchange(self._listed, self._linking)
        self._improve()
        self.is_solved = self._choose_with_more_and_more()

    def _choose_with_more_and_more(self) -> bool:
        """Returns whether none of the columns looked at leads to a much better plan."""
        is_exhausted = False
        for effort in _EFFORTS:
            known = len(self._pool)
            if effort.listed and not self._extend(effort):
                return False
            if is_exhausted and len(self._pool) == known:
                return True
            is_exhausted = self._branch(effort)
            self._improve()
            if self._gap <= self._least_gain:
                return True
        return is_exhausted

    @property
    def _best(self) -> float:
        """The value of the best plan, as columns see it."""
        if self._beyond_columns is None:
            return np.inf
        return self._best_plan.value - self._beyond_columns

    def _total(self, contents: Contents) -> float:
        return self._cost.total(contents, self._penalties)

    def _generate(self, *, guided: bool) -> bool:
        """Add columns until none helps; False if there was no time to."""
        for _ in range(_ROUNDS):
            self._master.extend(self._pool)
            if self._out_of_time() or not self._master.solve():
                return False
            duals = self._master.duals
            added = self._pool.add(*self._listed.improving(duals, _COLUMNS_PER_NODE))
            if not added and not self._listed.is_complete.all():
                added = self._pool.add(*self._pricing.improving(*self._in_use(), duals, 1))
            if not added and guided:
                added = self._pool.add(*self._guided.within(duals, -_NOTHING, _COLUMNS_PER_NODE))
            if not added:
                return True
        return True

    def _in_use(self) -> tuple["np.typing.NDArray[np.signedinteger]", Contents]:
        """Columns with a share, of nodes that have columns which are not listed."""
        used = np.flatnonzero(self._master.shares > _IN_USE)
        used = used[~self._listed.is_complete[self._pool.node[used]]]
        return self._pool.node[used], self._pool.contents[used]

    @property
    def _gap(self) -> float:
        """By how much the best plan may be worse than what columns in parts are worth."""
        return self._best - self._master.value

    def _extend(self, effort: _Effort) -> bool:
        """Add columns that could be part of something better than the best plan."""
        if not self._generate(guided=True):
            return False
        duals, gap = self._master.duals, self._gap
        self._pool.add(*self._listed.within(duals, gap, effort.listed))
        nodes, contents = self._in_use()
        if len(nodes):
            self._pool.add(*self._pricing.nearby(nodes, contents, duals, gap, effort.nearby))
        self._pool.add(*self._guided.within(duals, gap, effort.guided))
        self._master.extend(self._pool)
        return self._master.solve()

    def _branch(self, effort: _Effort) -> bool:
        """Choose among the columns so far; then, if what was chosen has no order, such that has.

        Returns whether no choice is left that could be better.
        """
        is_exhausted = self._choose(self._master, effort, self._pool)
        if self._without_order and not is_exhausted:
            self._choose_in_stages(effort)
        return is_exhausted

    def _choose_in_stages(self, effort: _Effort) -> None:
        """Choose among the best columns so that all moves have an order."""
        reduced = self._reduced_costs()
        best = np.argsort(reduced, kind="stable")[:_STAGED]
        best = best[reduced[best] <= self._gap]
        # Every node needs one: the first of the pool are the contents at the start.
        best = np.union1d(best, np.arange(len(self._nodes)))
        stages = min(_STAGES, max(self._problem.max_moves - 1, 1))
        columns = StagedColumns(self._pool, best, self._judge, stages)
        rows = StagedRows(self._problem, self._linking, self._judge, columns)
        master = MasterProblem(self._classes, rows, self._penalties, self._out_of_time)
        master.extend(columns)
        if master.solve():
            self._choose(master, effort, columns, columns.same_as)

    def _reduced_costs(self) -> Floats:
        """By how much each column of the pool would raise the master problem's value."""
        duals, pool = self._master.duals, self._pool
        worth = (pool.contents * duals.of_pod[pool.node]).sum(axis=1) + duals.of_node[pool.node]
        arrivals = self._judge.arrivals(pool.node, pool.contents)
        return np.asarray(pool.costs + arrivals @ duals.of_move - worth)

    def _improve(self) -> None:
        """Exchange pods between two nodes for as long as that gives a better plan."""
        contents, least_gain = self._contents_of_best(), _EXCHANGED_FOR * self._least_gain
        while contents is not None:
            before, then = self._best_plan.value, None
            for exchange in self._exchange.improving(contents, least_gain)[:_EXCHANGES]:
                if self._out_of_time():
                    return
                self._offer(exchange.contents)
                if self._best_plan.value < before:
                    then = self._contents_of_best()
                    break
            contents = then

    def _contents_of_best(self) -> Contents | None:
        """What nodes hold after the best plan; None if classes do not say all of it."""
        pods, sources, targets = np.array(self._best_plan.steps, np.int64).reshape(-1, 3).T
        classes = self._classes.of_template[self._problem.snapshot.pods.template[pods]]
        if self._classes.homeless.any() or (classes == STAYS).any():
            return None
        contents = self._judge.start.copy()
        np.subtract.at(contents, (sources, classes), 1)
        np.add.at(contents, (targets, classes), 1)
        return contents

    def _choose(
        self,
        master: MasterProblem,
        effort: _Effort,
        pool: ColumnPool,
        same_as: Numbers | None = None,
    ) -> bool:
        tree = BranchAndBound(pool, self._judge, master, self._offer, self._out_of_time, same_as)
        solutions = max(effort.solutions, effort.shares // len(pool))
        return tree.run(solutions, self._best, self._least_gain, effort.in_vain)

    def _offer(self, contents: Contents) -> Offered:
        """Offer the plan that leads to these contents."""
        contents = self._repair.repair(contents)
        key = contents.tobytes()
        if key not in self._blamed:
            steps = self._transport.steps(contents)
            if not self._best_plan.offer(steps, self._interchangeable):
                self._without_order = True
            if self._beyond_columns is None:
                self._beyond_columns = self._best_plan.value_of(steps) - self._total(contents)
            self._blamed[key] = self._to_blame(self._best_plan.stuck)
        return Offered(self._best, self._blamed[key])

    def _to_blame(self, stuck: list[SearchStep]) -> Bools:
        """The nodes at both ends of steps that wait for each other; all if there are none."""
        blamed = np.full(len(self._nodes), not stuck)
        blamed[[step.source for step in stuck] + [step.target for step in stuck]] = True
        return blamed
