"""Constraints that make an order certain: who must leave first goes where there is room already.

A column is *crowded* if its pods cannot come before others have left. If every pod that leaves a
crowded node goes to one that is not crowded, two waves are enough: these pods first, then all
others. That is more than an order needs, but it can be said of columns, class by class. Pods that
are to be spread must also be welcome where they come to while all others are where they are.
"""

import numpy as np

from rescheduler.model.snapshot import Bools, Floats
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.columns.linking_rows import LinkingRows
from rescheduler.planning.search.columns.node_contents import NodeContents
from rescheduler.planning.search.columns.pod_classes import STAYS, Contents, Numbers, PodClasses


class OrderedRows(LinkingRows):
    """The constraints of the master problem, one more for each class, and one for spread."""

    def __init__(self, problem: Problem, rows: LinkingRows, judge: NodeContents) -> None:
        self._rows = rows
        self._judge = judge
        self._unwelcome = _unwelcome(problem, judge.classes)
        self.most: Floats = np.concatenate([rows.most, np.zeros(len(judge.classes) + 1)])

    def entries(self, nodes: Numbers, contents: Contents) -> Floats:
        start = self._judge.start[nodes]
        crowded = self._are_crowded(nodes, contents)[:, None]
        leaving, coming = np.maximum(start - contents, 0), np.maximum(contents - start, 0)
        order = np.where(crowded, leaving, -coming)
        unwelcome = (coming * self._unwelcome[nodes]).sum(axis=1)[:, None]
        return np.concatenate([self._rows.entries(nodes, contents), order, unwelcome], axis=1)

    def _are_crowded(self, nodes: Numbers, contents: Contents) -> Bools:
        """Whether pods of these columns have to wait until others have left."""
        start = self._judge.start[nodes]
        meanwhile = np.maximum(contents, start)
        return ~self._judge.are_allowed(nodes, meanwhile) & (meanwhile > start).any(axis=1)

    def worth_of_pods(self, duals: Floats) -> Floats:
        return self._rows.worth_of_pods(duals[: len(self._rows.most)])

    def prices_of_moves(self, duals: Floats) -> Floats:
        return self._rows.prices_of_moves(duals[: len(self._rows.most)])


def _unwelcome(problem: Problem, classes: PodClasses) -> Bools:
    """Nodes that refuse pods of a class because of pods elsewhere: a row per node."""
    unwelcome = np.zeros(classes.start.shape, bool)
    beyond = problem.checker.depends_beyond_node
    for template in np.flatnonzero(classes.of_template != STAYS).tolist():
        if beyond[template]:
            refused = problem.checker.refused_regardless_of_room(template)
            if refused is not None:
                unwelcome[:, classes.of_template[template]] |= refused
    return unwelcome
