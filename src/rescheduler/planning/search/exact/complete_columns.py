"""All the contents that nodes of a small cluster may have, and what they cost.

Where a node may have too many, those that differ least from what it holds at the start are listed.
"""

import numpy as np

from rescheduler.model.snapshot import Bools, Floats
from rescheduler.planning.search.columns.master_problem import DualValues
from rescheduler.planning.search.columns.node_contents import NodeContents
from rescheduler.planning.search.columns.pod_classes import Contents, Numbers

# In all, and for one node; beyond some twenty nodes fewer: what is not listed is found by pricing.
_MOST_COLUMNS, _MOST_PER_NODE, _MOST_BY_NODES = 40_000, 5_000, 800_000
# Reduced costs below the first are rounding, and so are quotients above a whole number.
_NOTHING, _ROUNDING = 1e-7, 1e-9


class CompleteColumns:
    """A list of columns, valued at once for any dual values."""

    def __init__(self, judge: NodeContents, most_moves: int) -> None:
        """No more than so many pods come to a node, or leave it."""
        self._judge = judge
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
        self._arrivals = judge.arrivals(self.node, self.contents).astype(np.float64)
        self._counts = self.contents.astype(np.float64)
        self._costs = judge.costs(self.node, self.contents)
        changes = np.abs(self.contents - judge.start[self.node]).sum(axis=1)
        self.is_simple: Bools = (changes <= 1) | ~self.contents.any(axis=1)
        """Columns to begin with: at most one pod comes or leaves, or all leave."""

    def reduced_costs(self, duals: DualValues) -> Floats:
        """By how much a whole share of each column would raise the master problem's value."""
        prices = self._judge.classes.move_prices + duals.of_move
        worth = np.einsum("ij,ij->i", self._counts, duals.of_pod[self.node])
        return np.asarray(self._costs + self._arrivals @ prices - worth - duals.of_node[self.node])

    def improving(self, duals: DualValues, per_node: int) -> tuple[Numbers, Contents]:
        """The best columns that lower the value, at most so many per node."""
        reduced = self.reduced_costs(duals)
        found = np.flatnonzero(reduced < -_NOTHING)
        found = found[np.lexsort((reduced[found], self.node[found]))]
        nodes = self.node[found]
        chosen = found[np.arange(len(found)) - np.searchsorted(nodes, nodes) < per_node]
        return self.node[chosen], self.contents[chosen]

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
    held, arrivals, leaving = np.zeros((1, len(room))), np.zeros(1, int), np.zeros(1, int)
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
        counts = np.arange(max(most_here, here, 0) + 1)
        then_held = held[:, None, :] + counts[:, None] * judge.demand[number]
        then_arrivals = arrivals[:, None] + np.maximum(counts - here, 0)
        then_leaving = leaving[:, None] + np.maximum(here - counts, 0)
        fits = (then_held <= room).all(axis=2) | (then_arrivals == 0)
        fits &= (then_arrivals <= most_moves) & (then_leaving <= most_moves)
        row, which = np.nonzero(fits)
        rows = rows[row]
        rows[:, number] = counts[which]
        held, arrivals = then_held[row, which], then_arrivals[row, which]
        leaving = then_leaving[row, which]
        if len(rows) > most:
            complete = False
            changes = arrivals + leaving
            fewer = np.searchsorted(np.cumsum(np.bincount(changes)), most, side="right")
            near = np.flatnonzero(changes < max(int(fewer), 2))
            rows, held = rows[near], held[near]
            arrivals, leaving = arrivals[near], leaving[near]
    if not complete:
        rows = np.concatenate([rows, np.zeros_like(rows[:1])])
    return rows, complete
