"""Closing: empty whole nodes, the dear ones first.

A node saves its price only when its last movable pod has left, so no single move gains anything.
Instead a node is closed as a whole: its pods go into a bank, and from there onto other nodes,
where smaller pods may have to make room and go into the bank in turn. What is still in the bank
after some tries reopens a node. The result is kept if it is cheaper, sometimes also if it is a
little dearer, and is taken back otherwise.
"""

from bisect import insort
from collections import Counter
from collections.abc import Callable
from itertools import combinations

import numpy as np
import numpy.typing as npt

from rescheduler.model.snapshot import NO_NODE, Bools, Floats, Ints
from rescheduler.planning.problem import Problem
from rescheduler.planning.search.champion import Champion
from rescheduler.planning.search.placement import Placement, Shift
from rescheduler.planning.search.worth import shadow_prices
from rescheduler.planning.strategies.cost_optimization import CostOptimization

# How many others may make room in a trial.
_TRIES = 60
# How much dearer, in mean prices of a node, a result may be in the beginning.
_HEAT = 0.02
# Plans of so few moves are brought into order at once; longer ones only at the end.
_FEW_MOVES = 40
# With so few cells, trials start again after so many, from the best plan so often.
_SMALL, _TRIALS_PER_START, _FROM_BEST = 500, 8, 0.3
# Then so many nodes may be closed at once, whatever that costs at first.
_MOST_AT_ONCE, _ANYTHING_GOES = 6, 1e3
# With so few nodes that could be freed, sets of them are tried one by one, each so often, and with
# so many of the cheapest empty nodes in their stead.
_FEW_NODES, _ATTEMPTS, _BARGAINS = 14, 4, 3
# In mean prices: some moves more than hoped for.
_NEAR = 0.02
# How much chance has a say in where a pod goes.
_WHIM = 0.5
# How often an empty node is open as well.
_OPENING = 0.3
# Candidates for making room that are looked at more closely: can they go elsewhere at once?
_LOOKED_AT = 6


class Closing:
    """Frees nodes of a placement, trial by trial."""

    def __init__(
        self,
        placement: Placement,
        champion: Champion,
        strategy: CostOptimization,
        seed: int,
        out_of_time: Callable[[], bool],
    ) -> None:
        self._placement = placement
        self._problem: Problem = placement.problem
        self._champion = champion
        self._strategy = strategy
        self._random = np.random.default_rng(seed)
        self._out_of_time = out_of_time
        self._bank: Counter[int] = Counter()
        self._closing: Bools = np.zeros(len(placement.now), bool)
        self._opening: Bools = np.zeros(len(placement.now), bool)
        self._is_limited = self._problem.max_moves < self._problem.movable_on.sum()
        movable_used = self._movable_used()
        self._fixed: Floats = self._problem.load.used - movable_used
        room = np.maximum(self._problem.load.allocatable - self._fixed, 0.0)
        self._shadow = shadow_prices(room, strategy.prices, movable_used.sum(axis=1))
        self._size: Floats = self._shadow @ self._problem.load.demand
        self._worth: Floats = self._shadow @ room
        self._value = placement.value()

    def _movable_used(self) -> Floats:
        cells, demand = self._problem.cells, self._problem.load.demand
        nodes = len(self._placement.now)
        amounts = cells.count * demand[:, cells.template]
        return np.array([np.bincount(cells.node, weights=row, minlength=nodes) for row in amounts])

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
            self._try(self._nodes_to_close(count), tries=_TRIES, heat=1.0 - trial / trials)
        self._champion.offer(self._placement)

    # ------------------------------------------------------------ few nodes: one by one

    def _freeable(self) -> list[int]:
        """Nodes that could be freed within the limit, if it were only for them."""
        movable = self._problem.movable_on
        may_go = (movable > 0) & (movable <= self._problem.max_moves) & ~self._strategy.anchored
        return [int(node) for node in np.flatnonzero(may_go)]

    def _try_all(self, most: int) -> int:
        """Try sets of nodes, those that save most first, until none can be better; how many?"""
        tried = 0
        for saving, closed, opened in self._sets():
            value = self._problem.start_value - saving
            if value >= self._champion.value or tried >= most or self._out_of_time():
                break
            for _ in range(_ATTEMPTS):
                tried += 1
                self._placement.rewind(0)
                self._value = np.inf
                self._opening[:] = False
                self._opening[list(opened)] = True
                self._try(list(closed), tries=_TRIES, heat=0.0)
                if self._champion.value <= value + _NEAR:
                    break
        self._placement.rewind(0)
        self._placement.go(self._champion.steps)
        self._value = self._placement.value()
        return tried

    def _sets(self) -> list[tuple[float, tuple[int, ...], tuple[int, ...]]]:
        """Nodes to close and to open instead, and what that saves, the most first."""
        prices, movable = self._strategy.prices, self._problem.movable_on
        nodes = self._freeable()
        start_in_use = (movable > 0) | self._strategy.anchored
        empty = np.flatnonzero(self._problem.load.takes_pods & ~start_in_use)
        bargains = empty[np.argsort((prices - self._worth)[empty])][:_BARGAINS].tolist()
        found: list[tuple[float, tuple[int, ...], tuple[int, ...]]] = []
        for size in range(1, _MOST_AT_ONCE):
            for closed in combinations(nodes, size):
                moves = int(movable[list(closed)].sum())
                if moves <= self._problem.max_moves:
                    saving = float(prices[list(closed)].sum()) - self._strategy.move_price * moves
                    found.append((saving, closed, ()))
                    found += [(saving - float(prices[e]), closed, (e,)) for e in bargains]
        return sorted(found, key=lambda each: -each[0])

    @property
    def _is_small(self) -> bool:
        return len(self._problem.cells) <= _SMALL

    def _start_again(self) -> None:
        """From the start or from the best plan so far: what was closed first decides much."""
        self._champion.offer(self._placement)
        self._placement.rewind(0)
        if self._random.random() < _FROM_BEST:
            self._placement.go(self._champion.steps)
        self._value = self._placement.value()
        self._admit_some()
        count = int(self._random.integers(1, _MOST_AT_ONCE))
        self._try(self._nodes_to_close(count), tries=_TRIES, heat=_ANYTHING_GOES)

    def _admit_some(self) -> None:
        """Let pods come to an empty node, sometimes: it may be cheaper than one in use."""
        self._opening[:] = False
        nodes = np.flatnonzero(self._problem.load.takes_pods & ~self._in_use())
        if len(nodes) and self._random.random() < _OPENING:
            bargain = _normal(self._worth[nodes] - self._strategy.prices[nodes])
            bargain += self._random.gumbel(scale=0.5, size=len(nodes))
            self._opening[nodes[bargain.argmax()]] = True

    def _sweep(self) -> None:
        """Close what can be closed without much ado, the worst bargains first."""
        score = self._strategy.prices - self._worth
        if self._is_limited:
            score = self._strategy.prices / np.maximum(self._problem.movable_on, 1)
        for node in np.argsort(-score).tolist():
            if self._out_of_time():
                break
            if self._may_close()[node]:
                self._try([node], tries=0, heat=0.0)

    # ------------------------------------------------------------ one trial

    def _try(self, nodes: list[int], tries: int, heat: float) -> None:
        """Close these nodes; keep the result if it is cheaper or, in the heat, a little dearer."""
        before = len(self._placement.journal)
        for node in nodes:
            self._empty(node)
        done = self._place_bank(tries) or (tries > 0 and self._use_empty_nodes())
        self._closing[:] = False
        allowed = done and self._placement.is_allowed()
        value = self._placement.value() if allowed else np.inf
        if value >= self._value + _HEAT * heat * float(self._random.exponential()):
            self._placement.rewind(before)
            self._bank.clear()
            return
        self._value = value
        if self._placement.moves <= _FEW_MOVES:
            self._champion.offer(self._placement)

    def _may_close(self) -> Bools:
        """Nodes in use whose pods may all go, as far as the limit is concerned."""
        movable = self._placement.occupancy.movable
        left = self._problem.max_moves - self._placement.moves
        may_go = (movable > 0) & ~self._strategy.anchored
        return np.asarray(may_go & (movable - self._surplus_on() <= left))

    def _nodes_to_close(self, count: int) -> list[int]:
        """Nodes that cost more than their room is worth, or that are nearly empty, by chance."""
        prices, candidates = self._strategy.prices, np.flatnonzero(self._may_close())
        if not len(candidates):
            return []
        held = self._shadow @ (self._placement.occupancy.used - self._fixed)[:, candidates]
        emptiness = _normal(prices[candidates] - held)
        bargain = _normal(prices[candidates] - self._worth[candidates])
        blend = self._random.random()
        score = blend * emptiness + (1 - blend) * bargain
        if self._is_limited:
            moves = np.maximum(self._placement.occupancy.movable[candidates], 1)
            score += 2 * self._random.random() * _normal(prices[candidates] / moves)
        score += self._random.gumbel(scale=0.5, size=len(score))
        return [int(node) for node in candidates[np.argsort(-score)[:count]]]

    def _surplus_on(self) -> Ints:
        placement = self._placement
        counts = np.bincount(placement.nodes[placement.surpluses], minlength=len(placement.now))
        return counts.astype(np.int32)

    def _empty(self, node: int) -> None:
        self._closing[node] = True
        for template, count in list(self._placement.now[node].items()):
            for _ in range(count):
                self._eject(template, node)

    def _eject(self, template: int, node: int) -> None:
        self._placement.shift(Shift(template, node, NO_NODE))
        self._bank[template] += 1

    def _insert(self, template: int, node: int) -> bool:
        """Put a pod of the bank onto a node, unless a rule forbids it."""
        if not self._placement.accepts([Shift(template, NO_NODE, node)]):
            return False
        self._bank[template] -= 1
        if not self._bank[template]:
            del self._bank[template]
        return True

    # ------------------------------------------------------------ from the bank onto nodes

    def _place_bank(self, tries: int) -> bool:
        """Whether all of the bank found a place on nodes in use, so many others making room."""
        waiting = sorted(self._bank.elements(), key=self._size.__getitem__)
        while waiting:
            template = waiting.pop()
            if self._place(template):
                continue
            ejected = self._make_room(template) if tries > 0 else None
            tries -= 1
            if ejected is None:
                return False
            if not self._place(ejected):
                insort(waiting, ejected, key=self._size.__getitem__)
        return True

    def _in_use(self) -> Bools:
        return np.asarray((self._placement.occupancy.movable > 0) | self._strategy.anchored)

    def _available(self) -> Bools:
        return np.asarray((self._in_use() | self._opening) & ~self._closing)

    def _fitting(self, template: int, among: Bools) -> npt.NDArray[np.int64]:
        """Nodes of these that would take a pod of the template as they are."""
        placement = self._placement
        occupancy = placement.occupancy
        fits = among & ~self._problem.never(np.array([template]))[0]
        for amount, free in zip(
            self._problem.load.demand[:, template], occupancy.free, strict=True
        ):
            if amount > 0:
                fits &= free >= amount
        row = placement.conflicts.row_of[template]
        fits &= placement.conflicts.counts[row] == 0
        if self._placement.judge.beyond_nodes[template]:
            closed = self._placement.judge.closed(template)
            if closed is not None:
                fits &= ~closed
        return np.flatnonzero(fits)

    def _place(self, template: int, among: Bools | None = None) -> bool:
        """Put a pod of the bank onto the node in use that it suits best."""
        nodes = self._fitting(template, self._available() if among is None else among)
        if not len(nodes):
            return False
        vacant = self._placement.vacant.get(template)
        if vacant:
            at_home = np.isin(nodes, list(vacant))
            nodes = nodes[at_home] if at_home.any() else nodes
        left = self._left_over(nodes, template)
        left *= 1.0 + _WHIM * self._random.random(len(left))
        return self._insert(template, int(nodes[left.argmin()]))

    def _left_over(self, nodes: npt.NDArray[np.int64], template: int) -> Floats:
        """How unevenly the resources that stay free are left on each node: less is better."""
        load = self._problem.load
        free = self._placement.occupancy.free[:, nodes] - load.demand[:, template][:, None]
        share = free[:2] / load.capacity[:2, nodes]
        return np.asarray(share.sum(axis=0) + 2 * np.abs(share[0] - share[1]))

    def _make_room(self, template: int) -> int | None:
        """Put a pod of the bank in the place of another; which one is in the bank now?

        Best of one that can go elsewhere at once; otherwise only of a smaller one, so that the bank
        shrinks in any case.
        """
        cells = self._replaceable(template)
        if not len(cells):
            return None
        nodes, templates = self._placement.nodes[cells], self._placement.templates[cells]
        size = self._size[templates] * (1.0 + 0.1 * self._random.random(len(cells)))
        order = np.argsort(size)
        smallest = order[:_LOOKED_AT]
        by_chance = self._random.permutation(order[_LOOKED_AT:])[:_LOOKED_AT]
        for index in (*smallest.tolist(), *by_chance.tolist()):
            other, node = int(templates[index]), int(nodes[index])
            elsewhere = self._available()
            elsewhere[node] = False
            if len(self._fitting(other, elsewhere)):
                return self._trade(template, other, node)
        first = int(order[0])
        if self._size[templates[first]] < self._size[template]:
            return self._trade(template, int(templates[first]), int(nodes[first]))
        return None

    def _replaceable(self, template: int) -> npt.NDArray[np.int64]:
        """Cells on open nodes of which one pod less would be room enough."""
        placement, demand = self._placement, self._problem.load.demand
        free, nodes, templates = placement.occupancy.free, placement.nodes, placement.templates
        good = self._available()[nodes] & (templates != template)
        good &= ~self._problem.never(np.array([template]))[0][nodes]
        for row, amount in enumerate(demand[:, template]):
            if amount > 0:
                good &= free[row][nodes] + demand[row][templates] >= amount
        conflicts = placement.conflicts
        good &= conflicts.counts[conflicts.row_of[template]][nodes] == 0
        return np.flatnonzero(good)

    def _trade(self, template: int, other: int, node: int) -> int | None:
        self._eject(other, node)
        if self._insert(template, node):
            return other
        self._insert(other, node)
        return None

    def _use_empty_nodes(self) -> bool:
        """Whether what is left in the bank finds a place on nodes that are not in use."""
        occupancy, load = self._placement.occupancy, self._problem.load
        while self._bank:
            template = max(self._bank, key=lambda each: self._size[each])
            empty = load.takes_pods & (occupancy.movable == 0)
            nodes = self._fitting(template, empty)
            if not len(nodes):
                return False
            cheapest = nodes[np.argmin(self._strategy.prices[nodes] - 0.5 * self._worth[nodes])]
            self._closing[cheapest] = False
            if not self._insert(template, int(cheapest)):
                return False
            for each in sorted(self._bank.elements(), key=lambda each: -self._size[each]):
                self._place(each)
        return True


def _normal(values: Floats) -> Floats:
    deviation = float(values.std())
    return (values - values.mean()) / deviation if deviation > 0 else np.zeros(len(values))
