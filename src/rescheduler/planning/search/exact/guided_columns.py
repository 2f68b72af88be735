"""Contents of nodes that may have too many for a list, found with what pods are worth.

Class by class it is decided how many pods a node holds, with all other classes as at the start.
What would raise the value of the master problem least is followed, a few hundred contents at a
time. So contents are found that differ from the start in many pods: a list of those that differ
little does not have them, and a search near those in use does not come to them.
"""

from collections.abc import Callable

import numpy as np

from rescheduler.model.snapshot import Bools, Floats
from rescheduler.planning.search.columns.master_problem import DualValues
from rescheduler.planning.search.columns.node_contents import NodeContents
from rescheduler.planning.search.columns.pod_classes import Contents, Numbers

# Contents that are followed: half of them are allowed as they are, others need not be yet.
_FOLLOWED = 200


class GuidedColumns:
    """Looks for contents of these nodes."""

    def __init__(
        self,
        judge: NodeContents,
        nodes: Numbers,
        most_moves: int,
        out_of_time: Callable[[], bool],
    ) -> None:
        """No more than so many pods come to a node, or leave it."""
        self._judge = judge
        self._nodes = nodes
        self._most_moves = most_moves
        self._out_of_time = out_of_time

    def within(self, duals: DualValues, gap: float, per_node: int) -> tuple[Numbers, Contents]:
        """Columns that raise the master problem's value by less, the best of each node.

        Nodes for which there is no time left have none.
        """
        found: list[Contents] = []
        for node in self._nodes.tolist():
            if self._out_of_time():
                break
            found.append(self._of_node(node, duals, gap, per_node))
        counts = [len(contents) for contents in found]
        none = np.empty((0, len(self._judge.classes)), np.int16)
        return np.repeat(self._nodes[: len(found)], counts), np.concatenate([none, *found])

    def _of_node(self, node: int, duals: DualValues, gap: float, per_node: int) -> Contents:
        judge, start = self._judge, self._judge.start[node]
        rows: Contents = start[None].copy()
        share = (judge.demand / np.maximum(judge.room[node], 1.0)).max(axis=1, initial=0.0)
        for number in np.argsort(-share, kind="stable").tolist():
            rows = self._decided(node, number, rows)
            if len(rows) > _FOLLOWED:
                rows = self._best(node, rows, self._reduced_costs(node, rows, duals))
        rows = rows[judge.are_allowed(np.full(len(rows), node, np.int32), rows)]
        reduced = self._reduced_costs(node, rows, duals)
        order = np.argsort(reduced, kind="stable")[:per_node]
        return rows[order[reduced[order] < gap]]

    def _decided(self, node: int, number: int, rows: Contents) -> Contents:
        """The same contents with every possible number of pods of a class."""
        judge, start = self._judge, self._judge.start[node]
        classes, here = judge.classes, int(start[number])
        most = min(int(classes.most_per_node[number]), int(classes.totals[number]))
        most = here if classes.refused[node, number] else min(most, here + self._most_moves)
        counts = np.arange(max(most, here) + 1, dtype=np.int16)
        rows = np.repeat(rows, len(counts), axis=0)
        rows[:, number] = np.tile(counts, len(rows) // len(counts))
        change = rows - start
        coming, leaving = np.maximum(change, 0).sum(axis=1), np.maximum(-change, 0).sum(axis=1)
        brought = np.maximum(change, 0).astype(np.float64) @ judge.demand
        fits = (coming <= self._most_moves) & (leaving <= self._most_moves)
        fits &= (coming == 0) | (brought <= judge.room[node]).all(axis=1)
        return np.asarray(rows[fits])

    def _best(self, node: int, rows: Contents, reduced: Floats) -> Contents:
        order = np.argsort(reduced, kind="stable")
        allowed: Bools = self._judge.are_allowed(np.full(len(rows), node, np.int32), rows)[order]
        half = _FOLLOWED // 2
        followed = np.concatenate([order[allowed][:half], order[~allowed][:half]])
        return np.asarray(rows[followed])

    def _reduced_costs(self, node: int, rows: Contents, duals: DualValues) -> Floats:
        judge, nodes = self._judge, np.full(len(rows), node, np.int32)
        arrivals = judge.arrivals(nodes, rows)
        costs = judge.costs(nodes, rows) + arrivals @ (judge.classes.move_prices + duals.of_move)
        return np.asarray(costs - rows @ duals.of_pod[node] - duals.of_node[node])
