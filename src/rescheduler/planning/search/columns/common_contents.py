"""Contents that suit many nodes, to begin with: what nodes would hold if pods had no places yet.

Most nodes of a large cluster are of a few kinds. Which contents are best for each kind, and how
many nodes should have them, is a small problem if it does not matter where pods are at present. Its
contents and dual values save the large problem most of its rounds.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from rescheduler.model.snapshot import Floats, Ints
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.columns.column_pool import ColumnPool, ContentKeys
from rescheduler.planning.search.columns.linking_rows import LinkingRows
from rescheduler.planning.search.columns.master_problem import MasterProblem, Penalties
from rescheduler.planning.search.columns.node_contents import NodeContents
from rescheduler.planning.search.columns.pod_classes import Contents, Numbers
from rescheduler.planning.search.columns.pricing import Pricing

# Room and costs count in such parts of the largest: in few enough to have no more kinds than this.
_MOST_KINDS, _PARTS = 64, (1_000_000, 64, 32, 16, 8, 4, 2, 1)
# Contents at present that the search begins with, and columns that are added in a round, by kind.
_SAMPLES, _COLUMNS_PER_KIND = 30, 8
# Rounds, the share of the value that is hardly a gain, and how many such rounds end the search.
_ROUNDS, _LITTLE, _LAST_ROUNDS = 60, 1e-4, 4
_IN_USE = 1e-6


class CommonContents:
    """The contents that are best for each kind of node, without regard to moves."""

    def __init__(
        self,
        problem: Problem,
        judge: NodeContents,
        penalties: Penalties,
        out_of_time: Callable[[], bool],
    ) -> None:
        classes = judge.classes
        self._start = classes.start
        self._prices = classes.move_prices
        self._out_of_time = out_of_time
        self._kind_of, self._example = _kinds(judge)
        unplaced = replace(
            classes,
            start=np.zeros_like(classes.start),
            move_prices=np.zeros(len(classes)),
            scopes=[],
        )
        self._pool = ColumnPool(NodeContents(problem, unplaced))
        # With so few columns to look around, estimated costs are soon corrected.
        self._pricing = Pricing(NodeContents(problem, unplaced), most_exact_costs=0)
        alike = np.zeros(len(classes.start), np.int32)
        alike[self._example] = np.bincount(self._kind_of)
        linking = LinkingRows(problem, unplaced, most_spread_rows=0)
        self._master = MasterProblem(unplaced, linking, penalties, out_of_time, alike)

    def search(self) -> bool:
        """Find them; False if there was no time to, or if all nodes are different."""
        if len(self._example) > _MOST_KINDS:
            return False
        self._add_first_columns()
        before, little = np.inf, 0
        for _ in range(_ROUNDS):
            self._master.extend(self._pool)
            if self._out_of_time() or not self._master.solve():
                return False
            value = self._master.value
            little = little + 1 if before - value < _LITTLE * abs(value) else 0
            before = value
            if little >= _LAST_ROUNDS or not self._price():
                break
        return True

    def _add_first_columns(self) -> None:
        self._pool.add(self._example, np.zeros_like(self._start[self._example]))
        for kind, example in enumerate(self._example.tolist()):
            nodes = np.flatnonzero(self._kind_of == kind)
            sample = self._start[nodes[:: 1 + len(nodes) // _SAMPLES]]
            self._pool.add(np.full(len(sample), example, np.int32), sample)

    def _price(self) -> bool:
        used = self._used()
        return bool(
            self._pool.add(
                *self._pricing.improving(
                    self._pool.node[used],
                    self._pool.contents[used],
                    self._master.duals,
                    _COLUMNS_PER_KIND,
                )
            )
        )

    def _used(self) -> Numbers:
        holds_some = self._pool.contents.any(axis=1)
        return np.flatnonzero((self._master.shares > _IN_USE) & holds_some)

    @property
    def worth_of_pods(self) -> Floats:
        """What it is worth to place a pod of each class."""
        return np.asarray(self._master.duals.of_pod[0])

    def nearest(self, per_node: int) -> tuple[Numbers, Contents]:
        """For each node, the contents of its kind that are best with the moves to reach them.

        Not the empty one, of which every node knows.
        """
        found = []
        pool, worth = self._pool, self.worth_of_pods
        for kind, example in enumerate(self._example.tolist()):
            nodes = np.flatnonzero(self._kind_of == kind).astype(np.int32)
            columns = np.flatnonzero((pool.node == example) & pool.contents.any(axis=1))
            contents = pool.contents[columns]
            losses = pool.costs[columns] - contents @ worth
            moves = [np.maximum(each - self._start[nodes], 0) @ self._prices for each in contents]
            order = np.argsort(np.array(moves) + losses[:, None], axis=0, kind="stable")[:per_node]
            found += [(nodes, contents[row]) for row in order]
        everywhere, everything = zip(*found, strict=True)
        return np.concatenate(everywhere), np.concatenate(everything)


def _kinds(judge: NodeContents) -> tuple[Ints, Ints]:
    """The kind of each node, and one node of each kind."""
    nodes = np.arange(len(judge.start), dtype=np.int32)
    contents = np.zeros_like(judge.start)
    costs = [judge.costs(nodes, contents)]
    contents[:, 0] = 1
    costs.append(judge.costs(nodes, contents))
    amounts = np.column_stack([judge.room, *costs])
    amounts /= np.maximum(np.abs(amounts).max(axis=0), 1e-9)
    for parts in _PARTS:
        traits = np.column_stack([judge.classes.refused, np.round(amounts * parts)])
        keys = ContentKeys(traits.shape[1]).of_contents(traits.astype(np.int64))
        kind_of: Ints = np.unique(keys, return_inverse=True)[1].astype(np.int32)
        if kind_of.max() < _MOST_KINDS:
            break
    # Of nodes that are not quite alike, one in the middle.
    by_room = np.argsort(amounts.sum(axis=1), kind="stable")
    by_kind = by_room[np.argsort(kind_of[by_room], kind="stable")]
    ends = np.cumsum(np.bincount(kind_of))
    middle = (np.concatenate([[0], ends[:-1]]) + ends) // 2
    return kind_of, by_kind[middle].astype(np.int32)
