"""Pricing by neighbourhood: columns near those in use that would lower the master problem's value.

From a content, some pods are taken out and some others put in. What a pod is worth is known from
the dual values, so the value of all ways to put some in is a product of two matrices; only what
the node then costs is asked of the objective.
"""

from collections.abc import Callable
from itertools import combinations_with_replacement
from math import comb

import numpy as np
import numpy.typing as npt

from rescheduler.model.snapshot import Bools, Floats
from rescheduler.planning.search.columns.master_problem import DualValues
from rescheduler.planning.search.columns.node_contents import NodeContents
from rescheduler.planning.search.columns.pod_classes import Contents, Numbers

Float32s = npt.NDArray[np.float32]

# Pods taken out and put in at once. More of them where that makes few ways.
_AT_ONCE, _MORE_AT_ONCE = 2, (4, 3)
_FEW_WAYS = 300
# Where there are many ways, only those of classes with some pods, and of the largest classes.
_MANY_WAYS, _LEAST_PODS, _MOST_CLASSES_IN_PAIRS = 300, 10, 48
# Pairs of an out and an in whose cost is asked of the objective, in a round; beyond that, it is
# estimated by what each pod costs alone.
_MOST_EXACT_COSTS = 3_000_000
# Pairs looked at together: what fits into the cache of a processor.
_BLOCK = 1_000_000
# Where that is too many, pairs to take out have their turn in every fourth round: new dual values
# are worth more than a complete answer. The prime scatters them.
_TURNS, _SCATTERED = 4, 7919
_FORBIDDEN = np.float32(-1e8)
# Columns per node that are looked at in case the best are not allowed.
_SPARE = 3


def ways_at_once(classes: int) -> int:
    """How many pods are taken out and put in at once, of so many classes."""
    return next(
        (size for size in _MORE_AT_ONCE if comb(classes + size, size) <= _FEW_WAYS), _AT_ONCE
    )


class Pricing:
    """Finds columns of negative reduced cost."""

    def __init__(
        self,
        contents: NodeContents,
        at_once: int = _AT_ONCE,
        most_exact_costs: int = _MOST_EXACT_COSTS,
        out_of_time: Callable[[], bool] = lambda: False,
    ) -> None:
        """So many pods are taken out and put in at once; so many costs are asked for in a round.

        When there is no time left, a round ends with what was found by then.
        """
        self._most_exact_costs = most_exact_costs
        self._out_of_time = out_of_time
        self._judge = contents
        self._classes = contents.classes
        self._ways: Contents = self._combinations(at_once)
        self._ways_demand = (self._ways @ contents.demand).astype(np.float32)
        self._ways_size = self._ways.sum(axis=1)
        self._rounds = 0
        at_once = int(self._ways_size.max(initial=1))
        # The first, second and further pods of each class, as far as some way brings them, and
        # for each way whether it brings them.
        brought = [(self._ways >= count).T for count in range(1, at_once + 1)]
        self._which = [np.flatnonzero(each.any(axis=1)) for each in brought]
        self._brings = np.concatenate(
            [each[which] for each, which in zip(brought, self._which, strict=True)]
        ).astype(np.float32)

    def _combinations(self, at_once: int) -> Contents:
        """All ways to put in some pods, the first being none."""
        classes, totals = len(self._classes), self._classes.totals
        common = np.arange(classes)
        if comb(classes + at_once, at_once) > _MANY_WAYS:
            least = min(_LEAST_PODS, int(np.sort(totals)[::-1][:_MOST_CLASSES_IN_PAIRS][-1]))
            common = np.flatnonzero(totals >= least)[:_MOST_CLASSES_IN_PAIRS]
        sizes: list[tuple[int, ...]] = [(), *((each,) for each in range(classes))]
        for size in range(2, at_once + 1):
            sizes += combinations_with_replacement(common.tolist(), size)
        ways = np.zeros((len(sizes), classes), np.int16)
        for row, pods in enumerate(sizes):
            np.add.at(ways[row], list(pods), 1)
        apart = self._classes.apart.astype(np.float32)
        present = (ways > 0).astype(np.float32)
        alone = ((present @ apart) * present).sum(axis=1) == 0
        return np.asarray(ways[alone & (ways <= self._classes.most_per_node).all(axis=1)])

    def improving(
        self, nodes: Numbers, contents: Contents, duals: DualValues, per_node: int
    ) -> tuple[Numbers, Contents]:
        """New contents near these, at most so many per node, that lower the total."""
        seed, way_out = self._ways_out(contents)
        self._rounds += 1
        if len(seed) * len(self._ways) > _MOST_EXACT_COSTS:
            turn = (np.arange(len(seed)) * _SCATTERED + self._rounds) % _TURNS == 0
            chosen = turn | (self._ways_size[way_out] < _AT_ONCE)
            seed, way_out = seed[chosen], way_out[chosen]
        node, rest = nodes[seed], contents[seed] - self._ways[way_out]
        promising, best = self._best_ways_in(node, rest, duals)
        node, found = node[promising], rest[promising] + self._ways[best]
        gains = self.gains(node, found, duals)
        order = np.lexsort((-gains, node))
        order = order[gains[order] > _tolerance(duals)]
        # Some are not allowed after all, such as those that a strategy avoids.
        order = order[_rank(node[order]) < per_node + _SPARE]
        order = order[self._judge.are_allowed(node[order], found[order])]
        chosen = order[_rank(node[order]) < per_node]
        return node[chosen], found[chosen]

    def gains(self, nodes: Numbers, contents: Contents, duals: DualValues) -> Floats:
        """By how much a whole share of each column would lower the total."""
        without_costs = self._gains_without_costs(nodes, contents, duals)
        return np.asarray(without_costs - self._judge.costs(nodes, contents))

    def _ways_out(self, contents: Contents) -> tuple[Numbers, Numbers]:
        """For each content, the ways to take pods out of it."""
        found = []
        step = max(1, _BLOCK // len(self._ways))
        for first in range(0, len(contents), step):
            block = contents[first : first + step]
            lacks = [block[:, which] < number for number, which in enumerate(self._which, 1)]
            lacking = np.concatenate(lacks, axis=1).astype(np.float32) @ self._brings
            seed, way = np.nonzero(lacking == 0)
            found.append((seed + first, way))
        return _joined(found)

    def _best_ways_in(
        self, nodes: Numbers, rest: Contents, duals: DualValues
    ) -> tuple[Numbers, Numbers]:
        """Contents that may be worth it, and the best way to put pods into each of them."""
        is_exact = len(nodes) * len(self._ways) <= self._most_exact_costs
        best_of = self._exactly_best if is_exact else self._roughly_best
        step = max(1, _BLOCK // len(self._ways))
        found = []
        for first in range(0, len(nodes), step):
            if self._out_of_time():
                break
            block = slice(first, first + step)
            rows, best = best_of(nodes[block], rest[block], duals)
            found.append((rows + first, best))
        return _joined(found)

    def _exactly_best(
        self, nodes: Numbers, rest: Contents, duals: DualValues
    ) -> tuple[Numbers, Numbers]:
        row, way, gains = self._exact_gains(nodes, rest, duals)
        table = np.full((len(nodes), len(self._ways)), _FORBIDDEN)
        table[row, way] = gains
        return np.arange(len(nodes)), np.asarray(table.argmax(axis=1))

    def _exact_gains(
        self, nodes: Numbers, rest: Contents, duals: DualValues
    ) -> tuple[Numbers, Numbers, Floats]:
        """All ways to put pods into these contents, and what they gain apart from the contents."""
        fits = self._fitting(nodes, rest, self._ways_demand)
        values = self._gains_of_pods(nodes, rest, duals, None) @ self._brings
        row, way = np.nonzero(fits & (values > _FORBIDDEN / 2))
        costs = self._judge.costs(nodes[row], rest[row] + self._ways[way])
        return row, way, np.asarray(values[row, way] - costs)

    def nearby(
        self, nodes: Numbers, contents: Contents, duals: DualValues, most_lost: float, most: int
    ) -> tuple[Numbers, Contents]:
        """The best contents near these, also such that lose a little, up to so many."""
        seed, way_out = self._ways_out(contents)
        node, rest = nodes[seed], contents[seed] - self._ways[way_out]
        at_rest = self._gains_without_costs(node, rest, duals)
        found = [(nodes[:0], contents[:0], np.empty(0))]
        step = max(1, _BLOCK // len(self._ways))
        for first in range(0, len(node), step):
            block = slice(first, first + step)
            row, way, gains = self._exact_gains(node[block], rest[block], duals)
            gains = gains + at_rest[block][row]
            good = np.flatnonzero(gains >= -most_lost)
            good = good[np.argsort(-gains[good], kind="stable")[: 4 * most]]
            row, way = row[good], way[good]
            found.append((node[block][row], rest[block][row] + self._ways[way], gains[good]))
        everything = [np.concatenate(parts) for parts in zip(*found, strict=True)]
        keys = np.column_stack([everything[0], everything[1]])
        _, first_of_each = np.unique(keys, axis=0, return_index=True)
        order = first_of_each[np.argsort(-everything[2][first_of_each], kind="stable")][:most]
        return everything[0][order], everything[1][order]

    def _gains_without_costs(self, nodes: Numbers, contents: Contents, duals: DualValues) -> Floats:
        arrivals = self._judge.arrivals(nodes, contents)
        worth = (contents * duals.of_pod[nodes]).sum(axis=1) + duals.of_node[nodes]
        return np.asarray(worth - arrivals @ (self._classes.move_prices + duals.of_move))

    def _roughly_best(
        self, nodes: Numbers, rest: Contents, duals: DualValues
    ) -> tuple[Numbers, Numbers]:
        """What the node costs with several pods more is estimated by what it costs with each."""
        before = self._judge.costs(nodes, rest)
        one_fits = self._fitting(nodes, rest, self._judge.demand.astype(np.float32))
        rise = self._rise(nodes, rest, one_fits, before)
        gains = self._gains_of_pods(nodes, rest, duals, rise)
        # At best, the two pods that gain most alone can come together.
        alone = np.where(one_fits, gains[:, : len(self._classes)], 0.0)
        at_once = min(_AT_ONCE, len(self._classes))
        most = np.partition(alone, -at_once, axis=1)[:, -at_once:].clip(min=0.0).sum(axis=1)
        now = self._gains_without_costs(nodes, rest, duals) - before
        rows = np.flatnonzero(now + most > _tolerance(duals))
        values = gains[rows] @ self._brings
        fits = self._fitting(nodes[rows], rest[rows], self._ways_demand)
        np.copyto(values, _FORBIDDEN, where=~fits)
        return rows, np.asarray(values.argmax(axis=1))

    def _fitting(self, nodes: Numbers, rest: Contents, demands: Float32s) -> Bools:
        """Which of these demands each node has room for."""
        room = self._judge.room[nodes] - rest @ self._judge.demand
        room = np.maximum(room, 0.0).astype(np.float32)
        fits = np.ones((len(nodes), len(demands)), bool)
        for resource, demand in enumerate(demands.T):
            if len(nodes) and demand.max() > room[:, resource].min():
                fits &= demand <= room[:, resource, None]
        return fits

    def _gains_of_pods(
        self, nodes: Numbers, rest: Contents, duals: DualValues, rise: Floats | None
    ) -> Float32s:
        """What each further pod of each class would gain; the first of all classes come first."""
        classes = self._classes
        price = classes.move_prices + duals.of_move
        at_home = self._judge.start[nodes] - rest
        worth = duals.of_pod[nodes]
        refused = classes.refused[nodes]
        in_the_way = np.zeros(rest.shape, bool)
        if classes.apart.any():
            present = (rest > 0).astype(np.float32)
            in_the_way = present @ classes.apart.astype(np.float32) > 0
        gains = []
        for number, which in enumerate(self._which, 1):
            returns = at_home[:, which] >= number
            gain = worth[:, which] - np.where(returns, 0.0, price[which])
            if rise is not None:
                gain -= rise[:, which]
            too_many = rest[:, which] + number > classes.most_per_node[which]
            gain[(refused[:, which] | too_many) & ~returns | in_the_way[:, which]] = _FORBIDDEN
            gains.append(gain.astype(np.float32))
        return np.concatenate(gains, axis=1)

    def _rise(self, nodes: Numbers, rest: Contents, fits: Bools, before: Floats) -> Floats:
        """By how much each node's cost rises with one more pod of each class that fits."""
        row, number = np.nonzero(fits)
        costs = self._judge.costs_with_one_more(nodes, rest, row, number)
        # An empty node may cost nothing: a price that any first pod brings counts only once.
        with_one = np.full(len(nodes), np.inf)
        np.minimum.at(with_one, row, costs)
        is_empty = rest.sum(axis=1) == 0
        before[:] = np.where(is_empty & np.isfinite(with_one), with_one, before)
        rise = np.zeros(rest.shape)
        rise[row, number] = costs - before[row]
        return rise


def _joined(pairs: list[tuple[Numbers, Numbers]]) -> tuple[Numbers, Numbers]:
    empty = np.empty(0, np.int64)
    first, second = zip((empty, empty), *pairs, strict=True)
    return np.concatenate(first), np.concatenate(second)


def _rank(nodes: Numbers) -> Numbers:
    """For each entry of a sorted array, how many equal ones come before it."""
    return np.asarray(np.arange(len(nodes)) - np.searchsorted(nodes, nodes))


def _tolerance(duals: DualValues) -> float:
    return 1e-6 * (1.0 + float(np.abs(duals.of_pod).max(initial=0.0)))
