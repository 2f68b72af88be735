"""Node consolidation: empty whole nodes, the expensive ones first.

A node saves its price only when its last movable pod has left, so no single move gains anything.
Instead a node is closed as a whole: its pods are unplaced, and then placed onto other nodes, where
smaller pods may have to make room and are unplaced in turn. What is still unplaced after some tries
reopens a node. The result is kept if it is cheaper, sometimes also if it costs a little more
(simulated annealing), and is taken back otherwise.
"""

from collections.abc import Callable
from itertools import combinations

import numpy as np

from rescheduler.model.snapshot import Bools, Floats, Ints
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.assignment import Assignment
from rescheduler.planning.search.best_plan import BestPlan
from rescheduler.planning.search.shadow_prices import shadow_prices
from rescheduler.planning.search.unplaced_pods import UnplacedPods
from rescheduler.planning.strategies.strategy import NodePrices

# How many others may make room in a trial.
_TRIES = 60
# How much more, in mean prices of a node, a result may cost at first.
_TEMPERATURE = 0.02
# Plans of so few moves are brought into order at once; longer ones only at the end.
_FEW_MOVES = 40
# With so few groups, trials start again after so many, from the best plan so often.
_SMALL, _TRIALS_PER_START, _FROM_BEST = 500, 8, 0.3
# Then so many nodes may be closed at once, whatever that costs at first.
_MOST_AT_ONCE, _UNLIMITED = 6, 1e3
# With so few nodes that could be freed, sets of them are tried one by one, each so often, and with
# so many of the cheapest empty nodes in their stead.
_FEW_NODES, _ATTEMPTS, _BARGAINS = 14, 4, 3
# In mean prices: some moves more than hoped for.
_NEAR = 0.02
# How often an empty node is open as well.
_OPENING = 0.3


class NodeConsolidation:
    """Frees nodes of an assignment, trial by trial."""

    def __init__(
        self,
        assignment: Assignment,
        best_plan: BestPlan,
        node_prices: NodePrices,
        seed: int,
        out_of_time: Callable[[], bool],
    ) -> None:
        self._assignment = assignment
        self._problem: Problem = assignment.problem
        self._best_plan = best_plan
        self._prices = node_prices.prices
        self._kept_in_use = node_prices.kept_in_use
        self._move_price = node_prices.move_price
        self._random = np.random.default_rng(seed)
        self._out_of_time = out_of_time
        self._closing: Bools = np.zeros(len(assignment.now), bool)
        self._opening: Bools = np.zeros(len(assignment.now), bool)
        self._is_limited = self._problem.max_moves < self._problem.movable_on.sum()
        movable_used = self._movable_used()
        self._fixed: Floats = self._problem.load.used - movable_used
        room = np.maximum(self._problem.load.allocatable - self._fixed, 0.0)
        self._shadow = shadow_prices(room, node_prices.prices, movable_used.sum(axis=1))
        self._worth: Floats = self._shadow @ room
        size = self._shadow @ self._problem.load.demand
        self._unplaced = UnplacedPods(assignment, size, self._available, self._random)
        self._value = assignment.value()

    def _movable_used(self) -> Floats:
        groups, demand = self._problem.groups, self._problem.load.demand
        nodes = len(self._assignment.now)
        amounts = groups.count * demand[:, groups.template]
        return np.array([np.bincount(groups.node, weights=row, minlength=nodes) for row in amounts])

    def run(self, trials: int) -> None:
        """Try so often, offering what is good on the way."""
        self._sweep()
        if len(self._freeable()) <= _FEW_NODES:
            trials -= self._try_all(trials // 2)
        for trial in range(trials):
            if self._out_of_time():
                break
            if self._is_small and trial % _TRIALS_PER_START == 0:
                self._start_again()
            self._admit_some()
            count = int(self._random.choice([1, 2, 3], p=[0.6, 0.25, 0.15]))
            self._try(self._nodes_to_close(count), tries=_TRIES, temperature=1.0 - trial / trials)
        self._best_plan.offer(self._assignment)

    # ------------------------------------------------------------ few nodes: one by one

    def _freeable(self) -> list[int]:
        """Nodes that could be freed within the limit, if it were only for them."""
        movable = self._problem.movable_on
        may_go = (movable > 0) & (movable <= self._problem.max_moves) & ~self._kept_in_use
        return [int(node) for node in np.flatnonzero(may_go)]

    def _try_all(self, most: int) -> int:
        """Try sets of nodes, those that save most first; returns how many were tried."""
        tried = 0
        for saving, closed, opened in self._sets():
            value = self._problem.start_value - saving
            if value >= self._best_plan.value or tried >= most or self._out_of_time():
                break
            for _ in range(_ATTEMPTS):
                tried += 1
                self._assignment.rewind(0)
                self._value = np.inf
                self._opening[:] = False
                self._opening[list(opened)] = True
                self._try(list(closed), tries=_TRIES, temperature=0.0)
                if self._best_plan.value <= value + _NEAR:
                    break
        self._assignment.rewind(0)
        self._assignment.apply(self._best_plan.steps)
        self._value = self._assignment.value()
        return tried

    def _sets(self) -> list[tuple[float, tuple[int, ...], tuple[int, ...]]]:
        """Nodes to close and to open instead, and what that saves, the most first."""
        prices, movable = self._prices, self._problem.movable_on
        nodes = self._freeable()
        start_in_use = (movable > 0) | self._kept_in_use
        empty = np.flatnonzero(self._problem.load.takes_pods & ~start_in_use)
        bargains = empty[np.argsort((prices - self._worth)[empty])][:_BARGAINS].tolist()
        found: list[tuple[float, tuple[int, ...], tuple[int, ...]]] = []
        for size in range(1, _MOST_AT_ONCE):
            for closed in combinations(nodes, size):
                moves = int(movable[list(closed)].sum())
                if moves <= self._problem.max_moves:
                    saving = float(prices[list(closed)].sum()) - self._move_price * moves
                    found.append((saving, closed, ()))
                    found += [(saving - float(prices[node]), closed, (node,)) for node in bargains]
        return sorted(found, key=lambda found: -found[0])

    @property
    def _is_small(self) -> bool:
        return len(self._problem.groups) <= _SMALL

    def _start_again(self) -> None:
        """From the start or from the best plan so far: what was closed first decides much."""
        self._best_plan.offer(self._assignment)
        self._assignment.rewind(0)
        if self._random.random() < _FROM_BEST:
            self._assignment.apply(self._best_plan.steps)
        self._value = self._assignment.value()
        self._admit_some()
        count = int(self._random.integers(1, _MOST_AT_ONCE))
        self._try(self._nodes_to_close(count), tries=_TRIES, temperature=_UNLIMITED)

    def _admit_some(self) -> None:
        """Let pods come to an empty node, sometimes: it may be cheaper than one in use."""
        self._opening[:] = False
        nodes = np.flatnonzero(self._problem.load.takes_pods & ~self._in_use())
        if len(nodes) and self._random.random() < _OPENING:
            bargain = _normal(self._worth[nodes] - self._prices[nodes])
            bargain += self._random.gumbel(scale=0.5, size=len(nodes))
            self._opening[nodes[bargain.argmax()]] = True

    def _sweep(self) -> None:
        """Close what can be closed without others making room, the worst bargains first."""
        score = self._prices - self._worth
        if self._is_limited:
            score = self._prices / np.maximum(self._problem.movable_on, 1)
        for node in np.argsort(-score).tolist():
            if self._out_of_time():
                break
            if self._may_close()[node]:
                self._try([node], tries=0, temperature=0.0)

    # ------------------------------------------------------------ one trial

    def _try(self, nodes: list[int], tries: int, temperature: float) -> None:
        """Close these nodes; keep the result if it is cheaper or, early on, nearly as cheap."""
        before = len(self._assignment.journal)
        for node in nodes:
            self._close(node)
        done = self._unplaced.place_all(tries) or (tries > 0 and self._use_empty_nodes())
        self._closing[:] = False
        allowed = done and self._assignment.is_allowed()
        value = self._assignment.value() if allowed else np.inf
        if value >= self._value + _TEMPERATURE * temperature * float(self._random.exponential()):
            self._assignment.rewind(before)
            self._unplaced.clear()
            return
        self._value = value
        if self._assignment.moves <= _FEW_MOVES:
            self._best_plan.offer(self._assignment)

    def _may_close(self) -> Bools:
        """Nodes in use whose pods may all go, as far as the limit is concerned."""
        movable = self._assignment.totals.movable
        left = self._problem.max_moves - self._assignment.moves
        may_go = (movable > 0) & ~self._kept_in_use
        return np.asarray(may_go & (movable - self._surplus_on() <= left))

    def _nodes_to_close(self, count: int) -> list[int]:
        """Nodes that cost more than their room is worth, or that are nearly empty, by chance."""
        prices, candidates = self._prices, np.flatnonzero(self._may_close())
        if not len(candidates):
            return []
        held = self._shadow @ (self._assignment.totals.used - self._fixed)[:, candidates]
        emptiness = _normal(prices[candidates] - held)
        bargain = _normal(prices[candidates] - self._worth[candidates])
        blend = self._random.random()
        score = blend * emptiness + (1 - blend) * bargain
        if self._is_limited:
            moves = np.maximum(self._assignment.totals.movable[candidates], 1)
            score += 2 * self._random.random() * _normal(prices[candidates] / moves)
        score += self._random.gumbel(scale=0.5, size=len(score))
        return [int(node) for node in candidates[np.argsort(-score)[:count]]]

    def _surplus_on(self) -> Ints:
        assignment = self._assignment
        counts = np.bincount(assignment.nodes[assignment.surpluses], minlength=len(assignment.now))
        return counts.astype(np.int32)

    def _close(self, node: int) -> None:
        self._closing[node] = True
        self._unplaced.empty(node)

    def _in_use(self) -> Bools:
        return np.asarray((self._assignment.totals.movable > 0) | self._kept_in_use)

    def _available(self) -> Bools:
        """Nodes that unplaced pods may come to."""
        return np.asarray((self._in_use() | self._opening) & ~self._closing)

    def _use_empty_nodes(self) -> bool:
        """Whether all that is unplaced finds room on nodes that are not in use."""
        totals, load = self._assignment.totals, self._problem.load
        while self._unplaced:
            template = self._unplaced.largest()
            nodes = self._unplaced.fitting(template, load.takes_pods & (totals.movable == 0))
            if not len(nodes):
                return False
            bargain = self._prices[nodes] - 0.5 * self._worth[nodes]
            cheapest = int(nodes[bargain.argmin()])
            self._closing[cheapest] = False
            if not self._unplaced.insert(template, cheapest):
                return False
            self._unplaced.place_what_fits()
        return True


def _normal(values: Floats) -> Floats:
    deviation = float(values.std())
    return (values - values.mean()) / deviation if deviation > 0 else np.zeros(len(values))
