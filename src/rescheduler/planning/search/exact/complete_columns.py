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
        listed = [_contents_of(judge, node, most_moves, most) for node in range(count)]
        self.is_complete: Bools = np.array([complete for _, complete in listed], bool)
        """By node, whether all of its columns are listed."""
        nodes_of = np.repeat(np.arange(count, dtype=np.int32), [len(each) for each, _ in listed])
        contents = np.concatenate([each for each, _ in listed])
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


def _contents_of(
    judge: NodeContents, node: int, most_moves: int, most: int
) -> tuple[Contents, bool]:
    """What a node may hold, and whether that is all: class by class, the largest pods first."""
    classes, start, room = judge.classes, judge.start[node], judge.room[node]
    rows: Contents = np.zeros((1, len(classes)), np.int16)
    # By resource: what is left of the room.
    left = room[:, None].copy()
    arrivals, leaving = np.zeros(1, np.int32), np.zeros(1, np.int32)
    complete = True
    share = (judge.demand / np.maximum(room, 1.0)).max(axis=1, initial=0.0)
    # By class: how many fit into the empty node, and how many there are at all.
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(judge.demand > 0, room / judge.demand, np.inf).min(axis=1, initial=np.inf)
    limits = np.minimum(np.floor(ratio + _ROUNDING), classes.totals)
    for number in np.argsort(-share, kind="stable").tolist():
        here = int(start[number])
        most_here = min(int(classes.most_per_node[number]), here + most_moves, int(limits[number]))
        if classes.refused[node, number]:
            most_here = here
        counts = np.arange(max(most_here, here, 0) + 1, dtype=np.int32)
        come, go = np.maximum(counts - here, 0), np.maximum(here - counts, 0)
        fits = arrivals[:, None] + come == 0
        fits |= counts <= _most_that_fit(judge.demand[number], left)[:, None]
        fits &= (come <= most_moves - arrivals[:, None]) & (go <= most_moves - leaving[:, None])
        row, which = np.nonzero(fits)
        arrivals, leaving = arrivals[row] + come[which], leaving[row] + go[which]
        if len(row) > most:
            complete = False
            changes = arrivals + leaving
            fewer = np.searchsorted(np.cumsum(np.bincount(changes)), most, side="right")
            near = np.flatnonzero(changes < max(int(fewer), 2))
            row, which, arrivals, leaving = row[near], which[near], arrivals[near], leaving[near]
        rows = rows[row]
        rows[:, number] = counts[which]
        left = left[:, row] - judge.demand[number][:, None] * counts[which]
    if not complete:
        rows = np.concatenate([rows, np.zeros_like(rows[:1])])
    return rows, complete


def _most_that_fit(demand: Floats, left: Floats) -> Floats:
    """How many pods of a class fit into what is left; less than none if it is overdrawn.

    Both are whole numbers, so the quotients are exact enough.
    """
    most = np.full(left.shape[1], np.inf)
    for asked, room in zip(demand.tolist(), left, strict=True):
        most = np.minimum(most, np.floor(room / asked) if asked else np.where(room < 0, -1, np.inf))
    return most
