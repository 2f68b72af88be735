"""What the contents of all nodes cost together, with penalties for pods that have no node."""

import numpy as np

from rescheduler.model.snapshot import Bools, Floats
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.columns.linking_rows import LinkingRows
from rescheduler.planning.search.columns.master_problem import Penalties
from rescheduler.planning.search.columns.node_contents import NodeContents
from rescheduler.planning.search.columns.pod_classes import Contents


class ContentsCost:
    """Adds up what the master problem minimizes, for whole columns."""

    def __init__(self, problem: Problem, judge: NodeContents, linking: LinkingRows) -> None:
        self._problem = problem
        self._judge = judge
        self._linking = linking
        self._classes = judge.classes
        self._nodes = np.arange(len(judge.start), dtype=np.int32)

    def total(self, contents: Contents, penalties: Penalties) -> float:
        """What these contents cost, with penalties for unplaced pods and exceeded limits."""
        arrivals = self._judge.arrivals(self._nodes, contents)
        cost = self._judge.costs(self._nodes, contents).sum()
        cost += float((arrivals @ self._classes.move_prices).sum())
        unplaced = self._classes.totals - contents.sum(axis=0, dtype=np.int64)
        excess = self._linking.excess(contents) * float(penalties.unplaced.max())
        return float(cost + np.maximum(unplaced, 0) @ penalties.unplaced + excess)

    def penalties(self) -> Penalties:
        """About what it is worth to have no room to find for a pod of each class."""
        start, demand = self._judge.start, self._classes.demand
        costs = self._judge.costs(self._nodes, start)
        saved = np.maximum(costs - self._judge.costs(self._nodes, np.zeros_like(start)), 0.0)
        has_room = self._judge.have_room(self._nodes, start)
        saved = saved[has_room] * (len(saved) / max(int(has_room.sum()), 1))
        size = (demand / np.maximum(self._problem.load.allocatable.mean(axis=1), 1e-9)).max(axis=1)
        worth = 1.5 * saved.sum() * size / max(float(size @ self._classes.totals), 1e-9)
        changes = 2.0 * self._typical_changes(costs, has_room) + 1e-6
        return Penalties(unplaced=worth + changes, placed_twice=changes)

    def _typical_changes(self, costs: Floats, has_room: Bools) -> Floats:
        """By how much a node's cost changes in the mean when a pod of each class leaves.

        Not counting nodes whose cost is out of proportion, because they hold more than they may.
        """
        start, changes = self._judge.start, np.zeros(len(self._classes))
        for number in range(len(changes)):
            nodes = self._nodes[(start[:, number] > 0) & has_room]
            if len(nodes):
                then = start[nodes]
                then[:, number] -= 1
                difference = np.abs(self._judge.costs(nodes, then) - costs[nodes])
                changes[number] = difference.mean()
        return np.asarray(np.maximum(changes, changes.max() / 2))
