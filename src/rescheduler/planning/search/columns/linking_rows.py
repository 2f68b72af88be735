"""What links nodes with each other besides the pods they share: limits on moves, and spread."""

import numpy as np

from rescheduler.model.snapshot import Floats
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.columns.pod_classes import Contents, Numbers, PodClasses
from rescheduler.planning.search.columns.spread_rows import MOST_SPREAD_ROWS, SpreadRows


class LinkingRows:
    """Constraints of the master problem: first the limits on moves, then topology spread."""

    def __init__(
        self, problem: Problem, classes: PodClasses, most_spread_rows: int = MOST_SPREAD_ROWS
    ) -> None:
        """Topology spread that would need more rows is left out."""
        self._classes = classes
        self._spread = SpreadRows(problem, classes, most_spread_rows)
        # Of which classes each limit counts the moves. The first one is that of the whole plan.
        self._counted: Floats = np.zeros((1 + len(classes.scopes), len(classes)))
        self._counted[0] = 1.0
        for row, (limited, _) in enumerate(classes.scopes, 1):
            self._counted[row, limited] = 1.0
        allowed = [problem.max_moves, *(allowance for _, allowance in classes.scopes)]
        self.most: Floats = np.concatenate([np.array(allowed, np.float64), self._spread.most])
        self._everywhere = np.arange(len(classes.start))

    def entries(self, nodes: Numbers, contents: Contents) -> Floats:
        """What each of these columns adds to each row."""
        arrivals = np.maximum(contents - self._classes.start[nodes], 0)
        moves = arrivals @ self._counted.T
        return np.concatenate([moves, self._spread.entries(nodes, contents)], axis=1)

    def worth_of_pods(self, duals: Floats) -> Floats:
        """What spread makes a pod worth: a row per node, a column per class."""
        return self._spread.worth(duals[len(self._counted) :])

    def prices_of_moves(self, duals: Floats) -> Floats:
        """What limits make one more move of each class cost."""
        return np.asarray(-duals[: len(self._counted)] @ self._counted)

    def excess(self, contents: Contents) -> float:
        """By how much these contents of all nodes exceed what is allowed."""
        total = self.entries(self._everywhere, contents).sum(axis=0)
        return float(np.maximum(total - self.most, 0.0).sum())
