"""Columns in stages: constraints that make an order certain, however long its chains are.

A column is *crowded* if its pods cannot come before others have left. In which order nodes get
their pods is said by stages. In stage 0 are columns that are not crowded. A crowded one may be in
any later stage, and some of the pods that leave it must go first: to nodes of earlier stages. So
there are several copies of it, for its stage and for who goes first. If all that go first find
targets in earlier stages, class by class, all moves have an order: stage after stage. Pods that are
to be spread must also be welcome where they come to while all others are where they are.
"""

from itertools import product

import numpy as np

from rescheduler.model.snapshot import Bools, Floats
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.columns.column_pool import ColumnPool
from rescheduler.planning.search.columns.linking_rows import LinkingRows
from rescheduler.planning.search.columns.node_contents import NodeContents
from rescheduler.planning.search.columns.pod_classes import STAYS, Contents, Numbers, PodClasses

# Of one column: sets of pods that go first which are looked at, and of which copies are made.
_MOST_SETS, _MOST_COPIES = 64, 2


class StagedColumns(ColumnPool):
    """Copies of columns: each in a stage, and with pods that have to go first."""

    def __init__(
        self, pool: ColumnPool, columns: Numbers, judge: NodeContents, stages: int
    ) -> None:
        """Of these columns of a pool, with so many stages after the first."""
        super().__init__(judge)
        self.stages = stages
        original, self.goes_first = _goers(judge, pool.node[columns], pool.contents[columns])
        is_crowded: Bools = np.asarray(self.goes_first.any(axis=1))
        copies = np.repeat(np.arange(len(original)), np.where(is_crowded, stages, 1))
        first_copy = np.searchsorted(copies, np.arange(len(original)))
        self.stage: Numbers = np.where(
            is_crowded[copies], np.arange(len(copies)) - first_copy[copies] + 1, 0
        ).astype(np.int32)
        """By column: 0 if its pods may come at once."""
        self.goes_first = self.goes_first[copies]
        """By column, which pods must have left before others come."""
        original = columns[original[copies]]
        self.node = pool.node[original]
        self.contents = pool.contents[original]
        self.costs = pool.costs[original]
        _, first, inverse = np.unique(original, return_index=True, return_inverse=True)
        self.same_as: Numbers = first[inverse].astype(np.int32)
        """By column, the first one with the same contents."""


class StagedRows(LinkingRows):
    """The constraints of the master problem, more for each class and stage, and one for spread."""

    def __init__(
        self, problem: Problem, rows: LinkingRows, judge: NodeContents, columns: StagedColumns
    ) -> None:
        self._rows = rows
        self._judge = judge
        self._columns = columns
        self._unwelcome = _unwelcome(problem, judge.classes)
        more = len(judge.classes) * columns.stages + 1
        self.most: Floats = np.concatenate([rows.most, np.zeros(more)])

    def entries(self, nodes: Numbers, contents: Contents) -> Floats:
        """Of all staged columns, in their order."""
        columns = self._columns
        assert len(nodes) == len(columns)
        coming = self._judge.arrivals(nodes, contents)
        stage = columns.stage[:, None]
        # Who goes first up to a stage must find a target before it.
        order = [
            np.where(stage <= number, columns.goes_first, 0) - np.where(stage < number, coming, 0)
            for number in range(1, columns.stages + 1)
        ]
        unwelcome = (coming * self._unwelcome[nodes]).sum(axis=1)[:, None]
        return np.concatenate([self._rows.entries(nodes, contents), *order, unwelcome], axis=1)

    def worth_of_pods(self, duals: Floats) -> Floats:
        return self._rows.worth_of_pods(duals[: len(self._rows.most)])

    def prices_of_moves(self, duals: Floats) -> Floats:
        return self._rows.prices_of_moves(duals[: len(self._rows.most)])


def _goers(judge: NodeContents, nodes: Numbers, contents: Contents) -> tuple[Numbers, Contents]:
    """Numbers of columns, some of them more than once, and which pods go first in each."""
    start = judge.start[nodes]
    meanwhile = np.maximum(contents, start)
    waits = ~judge.are_allowed(nodes, meanwhile) & (meanwhile > start).any(axis=1)
    crowded = np.flatnonzero(waits)
    sets = [_sets(leaving) for leaving in np.maximum(start - contents, 0)[crowded]]
    column = np.repeat(crowded, [len(each) for each in sets])
    free = np.flatnonzero(~waits)
    none = np.zeros((len(free), contents.shape[1]), np.int16)
    if not len(column):
        return free, none
    goers = np.concatenate(sets)
    enough = judge.are_allowed(nodes[column], meanwhile[column] - goers)
    column, goers = column[enough], goers[enough]
    fewest = _fewest(column, goers)
    return np.concatenate([free, column[fewest]]), np.concatenate([none, goers[fewest]])


def _sets(leaving: Contents) -> Contents:
    """All or some of the pods that leave a node; only all if there are too many ways."""
    if np.prod(leaving + 1.0) > _MOST_SETS:
        return leaving[None]
    ranges = [range(count + 1) for count in leaving.tolist()]
    return np.array(list(product(*ranges))[1:], np.int16)


def _fewest(column: Numbers, goers: Contents) -> Numbers:
    """For each column those sets of which no part is enough, a few of them."""
    order = np.lexsort((goers.sum(axis=1), column))
    chosen: list[int] = []
    of_column: list[int] = []
    for row in order.tolist():
        if of_column and column[of_column[0]] != column[row]:
            of_column = []
        if len(of_column) < _MOST_COPIES and not any(
            (goers[other] <= goers[row]).all() for other in of_column
        ):
            of_column.append(row)
            chosen.append(row)
    return np.array(chosen, np.int64)


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
