"""All the contents that nodes of a small cluster may have, and what they cost.

Where a node may have too many, those that differ least from what it holds at the start are listed.
"""

from itertools import pairwise

import numpy as np

from rescheduler.model.snapshot import Bools, Floats
from rescheduler.planning.search.columns.master_problem import DualValues
from rescheduler.planning.search.columns.node_contents import NodeContents
from rescheduler.planning.search.columns.pod_classes import Contents, Numbers

# In all, and for one node; beyond some twenty nodes fewer: what is not listed is found by pricing.
_MOST_COLUMNS, _MOST_PER_NODE, _MOST_BY_NODES = 40_000, 2_000, 800_000
# Reduced costs below the first are rounding, and so are quotients above a whole number.
_NOTHING, _ROUNDING = 1e-7, 1e-9


class CompleteColumns:
    """A list of columns, valued at once for any dual values."""

    def __init__(self, judge: NodeContents, most_moves: int) -> None:
        """No more than so many pods come to a node, or leave it."""
        count = len(judge.start)
        nodes = max(count, 1)
        most = min(_MOST_PER_NODE, _MOST_COLUMNS // nodes, _MOST_BY_NODES // nodes**2)
        nodes_of, contents, is_complete = _all_contents(judge, most_moves, most)
        self.is_complete: Bools = is_complete
        """By node, whether all of its columns are listed."""
        allowed = judge.are_allowed(nodes_of, contents)
        self.node: Numbers = nodes_of[allowed]
        self.contents: Contents = contents[allowed]
        self._counts = self.contents.astype(np.float64)
        self._arrivals = np.maximum(self._counts - judge.start[self.node], 0.0)
        bounds = np.searchsorted(self.node, np.arange(count + 1)).tolist()
        self.of_node = [slice(*each) for each in pairwise(bounds)]
        """By node, where its columns are."""
        self.prices: Floats = judge.costs(self.node, self.contents)
        self.prices += self._arrivals @ judge.classes.move_prices
        """What the node costs, and the moves of the pods that come to it."""
        sizes = self._counts.sum(axis=1)
        at_start = judge.start.sum(axis=1)[self.node]
        changes = 2.0 * self._arrivals.sum(axis=1) + at_start - sizes
        self.is_simple: Bools = (changes <= 1) | (sizes == 0)
        """Columns to begin with: at most one pod comes or leaves, or all leave."""

    def reduced_costs(self, duals: DualValues) -> Floats:
        """By how much a whole share of each column would raise the master problem's value."""
        reduced = self.prices + self._arrivals @ duals.of_move
        for node, columns in enumerate(self.of_node):
            reduced[columns] -= self._counts[columns] @ duals.of_pod[node] + duals.of_node[node]
        return np.asarray(reduced)

    def improving(self, duals: DualValues, per_node: int) -> tuple[Numbers, Contents]:
        """The best columns that lower the value, at most so many per node."""
        reduced = self.reduced_costs(duals)
        chosen = []
        for columns in self.of_node:
            found = np.flatnonzero(reduced[columns] < -_NOTHING) + columns.start
            if len(found) > per_node:
                found = found[np.argpartition(reduced[found], per_node)[:per_node]]
            chosen.append(found[np.argsort(reduced[found], kind="stable")])
        best = np.concatenate(chosen)
        return self.node[best], self.contents[best]

    def within(self, duals: DualValues, gap: float, most: int) -> tuple[Numbers, Contents]:
        """The columns that raise the value by no more than a gap, the best of them."""
        reduced = self.reduced_costs(duals)
        found = np.flatnonzero(reduced <= gap)
        chosen = found[np.argsort(reduced[found], kind="stable")[:most]]
        return self.node[chosen], self.contents[chosen]


def _all_contents(
    judge: NodeContents, most_moves: int, most: int
) -> tuple[Numbers, Contents, Bools]:
    """What nodes may hold, at most so much of each, and by node whether that is all.

    All nodes are filled at once, each with its largest pods first. A row is one way to fill a node;
    it is continued by every count of the next class that may be there.
    """
    classes, start, room = judge.classes, judge.start, judge.room
    order, limits = _order_and_limits(judge, most_moves)
    nodes = np.arange(len(start), dtype=np.int32)
    is_complete = np.ones(len(start), bool)
    contents: Contents = np.zeros(start.shape, np.int16)
    # By resource: what is left of the room.
    left = np.ascontiguousarray(room.T)
    arrivals, leaving = np.zeros((2, len(start)), np.int32)
    # By node: changes of rows that are kept. Rows only get more of them, and nodes more rows.
    most_changes = np.full(len(start), 2 * most_moves, np.int32)
    for number in order.T:
        which = number[nodes]
        here = start[nodes, which].astype(np.int32)
        changes_left = most_changes[nodes] - arrivals - leaving
        most_to_leave = np.minimum(most_moves - leaving, changes_left)
        most_to_come = np.minimum(most_moves - arrivals, changes_left)
        fewest = np.maximum(here - most_to_leave, 0)
        most_here = _most_that_fit(judge.demand[which].T, left)
        # Nodes may hold more than there is room for if no pod comes.
        np.maximum(most_here, here, out=most_here, where=arrivals == 0)
        np.minimum(most_here, limits[nodes, which], out=most_here)
        np.minimum(most_here, here + most_to_come, out=most_here)
        ways = np.maximum(most_here.astype(np.int32) - fewest + 1, 0)
        rows = np.repeat(np.arange(len(nodes)), ways)
        counts = fewest[rows] + np.arange(len(rows)) - np.repeat(np.cumsum(ways) - ways, ways)
        come = counts - here[rows]
        arrivals = arrivals[rows] + np.maximum(come, 0)
        leaving = leaving[rows] - np.minimum(come, 0)
        nodes = nodes[rows]
        crowded = np.bincount(nodes, minlength=len(start)) > most
        if crowded.any():
            changes = arrivals + leaving
            is_complete[crowded] = False
            most_changes[crowded] = _most_changes(nodes, changes, most, len(start))[crowded]
            near = np.flatnonzero(changes <= most_changes[nodes])
            nodes, rows, counts = nodes[near], rows[near], counts[near]
            arrivals, leaving = arrivals[near], leaving[near]
        which = which[rows]
        contents = contents[rows]
        contents[np.arange(len(rows)), which] = counts
        left = left[:, rows] - judge.demand[which].T * counts
    emptied = np.flatnonzero(~is_complete).astype(np.int32)
    nodes = np.concatenate([nodes, emptied])
    contents = np.concatenate([contents, np.zeros((len(emptied), len(classes)), np.int16)])
    by_node = np.argsort(nodes, kind="stable")
    return nodes[by_node], contents[by_node], is_complete


def _order_and_limits(judge: NodeContents, most_moves: int) -> tuple[Numbers, Numbers]:
    """By node: its classes, the largest pods first, and the most that it may hold of each class."""
    classes, start, room = judge.classes, judge.start, judge.room
    share = np.zeros(start.shape)
    fitting = np.full(start.shape, np.inf)
    for demand, available in zip(judge.demand.T, room.T, strict=True):
        asking = demand > 0
        np.maximum(share, demand / np.maximum(available, 1.0)[:, None], out=share)
        fits = np.floor(available[:, None] / demand[asking] + _ROUNDING)
        fitting[:, asking] = np.minimum(fitting[:, asking], fits)
    most = np.minimum(np.minimum(fitting, classes.totals), classes.most_per_node)
    most = np.where(classes.refused, start, np.minimum(most, start + float(most_moves)))
    order = np.argsort(-share, axis=1, kind="stable")
    return order.astype(np.int32), np.maximum(most, start).astype(np.int32)


def _most_changes(nodes: Numbers, changes: Numbers, most: int, count: int) -> Numbers:
    """By node: the number of changes up to which there are at most so many rows, one at least."""
    width = int(changes.max()) + 1
    rows = np.bincount(nodes * width + changes, minlength=count * width).reshape(count, width)
    within = np.cumsum(rows, axis=1) <= most
    return np.asarray(np.maximum(within.sum(axis=1) - 1, 1), np.int32)


def _most_that_fit(demand: Floats, left: Floats) -> Floats:
    """How many pods fit into what is left, by row; less than none if it is overdrawn.

    Both are whole numbers, so the quotients are exact enough.
    """
    most = np.full(left.shape[1], np.inf)
    for asked, room in zip(demand, left, strict=True):
        unasked = np.where(room < 0, -1.0, np.inf)
        fits = np.floor_divide(room, asked, out=unasked, where=asked > 0)
        np.minimum(most, fits, out=most)
    return most
