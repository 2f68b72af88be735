"""From counts to pods: which pods have to go where for nodes to hold so many of each class.

Pods of a class are alike but for the pods that they exclude. Where a class has several sets of pods
that exclude each other, a transport problem says how many of each set leave and come.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rescheduler.model.snapshot import Bools
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.columns.pod_classes import Contents, Numbers, PodClasses
from rescheduler.planning.search.columns.solver import INFINITY, SparseColumns, new_solver
from rescheduler.planning.search.steps import SearchStep

# What it costs to leave a pod where it is although its room was given away, in moves.
_NOT_PLACED = 50.0
# Ways for pods of a set to come to a node: beyond that, a linear program takes seconds.
_MOST_ARCS = 12_000


class _Movers(NamedTuple):
    """Pods of one set that leave their nodes, and the nodes that some of that set come to."""

    pods: list[tuple[int, int]]
    targets: list[int]


class ClassTransport:
    """Turns contents of all nodes into steps of pods."""

    def __init__(self, problem: Problem, classes: PodClasses) -> None:
        self._problem = problem
        self._classes = classes
        groups = problem.groups
        self._class_of = classes.of_template[groups.template]
        self._price = problem.move_prices[groups.template]

    def steps(self, contents: Contents) -> list[SearchStep]:
        """The steps that lead to these contents, in no order. What finds no place stays."""
        return [
            step
            for number in range(len(self._classes))
            for movers in self._movers(number, contents[:, number].astype(np.int32))
            for step in _matched(movers)
        ]

    def _movers(self, number: int, needed: Numbers) -> Iterator[_Movers]:
        groups = np.flatnonzero(self._class_of == number)
        changed = needed != self._classes.start[:, number]
        changed[self._problem.groups.node[groups[self._classes.homeless[groups] > 0]]] = True
        if not changed.any():
            return
        templates = self._problem.groups.template[groups]
        sets, set_of_group = np.unique(
            self._classes.exclusion_of_template[templates], return_inverse=True
        )
        set_of_group = set_of_group.astype(np.int32)
        settled = np.zeros((len(sets), len(needed)), np.int32)
        counts = self._problem.groups.count[groups] - self._classes.homeless[groups]
        np.add.at(settled, (set_of_group, self._problem.groups.node[groups]), counts)
        staying, coming = self._split(number, sets, settled, needed, set_of_group, groups)
        leaving = settled - staying
        for one in range(len(sets)):
            pods = list(self._leaving_pods(groups[set_of_group == one], leaving[one].copy()))
            if pods:
                yield _Movers(pods, np.repeat(np.arange(len(needed)), coming[one]).tolist())

    def _leaving_pods(self, groups: Numbers, leaving: Numbers) -> Iterator[tuple[int, int]]:
        """The pods that go and their nodes: those that break a rule, then the cheapest to move."""
        everything = self._problem.groups
        is_going = (leaving[everything.node[groups]] > 0) | (self._classes.homeless[groups] > 0)
        groups = groups[is_going]
        for group in groups[np.argsort(self._price[groups], kind="stable")].tolist():
            node = int(everything.node[group])
            homeless = int(self._classes.homeless[group])
            settled = int(everything.count[group]) - homeless
            going = min(int(leaving[node]), settled)
            leaving[node] -= going
            first = int(everything.first[group])
            for pod in everything.pods[first : first + homeless + going].tolist():
                yield pod, node

    def _split(
        self,
        number: int,
        sets: Numbers,
        settled: Numbers,
        needed: Numbers,
        set_of_group: Numbers,
        groups: Numbers,
    ) -> tuple[Numbers, Numbers]:
        """How many of each set stay on each node, and how many come."""
        here = settled.sum(axis=0)
        room = np.maximum(needed - here, 0)
        if len(sets) == 1:
            return np.minimum(settled, needed), room[None, :]
        homeless = np.zeros(len(sets), np.int64)
        np.add.at(homeless, set_of_group, self._classes.homeless[groups])
        exclusive = self._exclusive(set_of_group, len(sets), groups)
        if len(sets) * np.count_nonzero(room) > _MOST_ARCS:
            return _roughly(settled, needed, homeless, exclusive)
        return self._transport(settled, needed, homeless, exclusive)

    def _exclusive(self, set_of_group: Numbers, sets: int, groups: Numbers) -> Bools:
        """Sets of which no two pods may share a node."""
        excludes = self._problem.checker.affinity_relations.apart_on_node
        exclusive = np.zeros(sets, bool)
        for one, group in zip(*np.unique(set_of_group, return_index=True), strict=True):
            template = int(self._problem.groups.template[groups[group]])
            exclusive[one] = template in excludes.get(template, ())
        return exclusive

    def _transport(
        self,
        settled: Numbers,
        needed: Numbers,
        homeless: "np.typing.NDArray[np.int64]",
        exclusive: Bools,
    ) -> tuple[Numbers, Numbers]:
        """If some find no place, they may take that of others, which then come elsewhere."""
        here = settled.sum(axis=0)
        nobody = np.zeros(len(settled), bool)
        staying, coming = self._cheapest(
            settled, needed, homeless, exclusive, here > needed, nobody
        )
        lost = settled.sum(axis=1) + homeless > staying.sum(axis=1) + coming.sum(axis=1)
        if lost.any():
            everywhere = np.ones(len(needed), bool)
            return self._cheapest(settled, needed, homeless, exclusive, everywhere, lost)
        return staying, coming

    def _cheapest(
        self,
        settled: Numbers,
        needed: Numbers,
        homeless: "np.typing.NDArray[np.int64]",
        exclusive: Bools,
        senders: Bools,
        pushing: Bools,
    ) -> tuple[Numbers, Numbers]:
        """Pods may leave the senders. Those of sets that push may come to any node."""
        here = settled.sum(axis=0)
        receivers = here < needed
        supply = settled[:, senders].sum(axis=1) + homeless
        moving = supply > 0
        stay_set, stay_node = np.nonzero((settled > 0) & senders & moving[:, None])
        blocked = (settled > 0) & exclusive[:, None]
        may_come = (receivers & moving[:, None]) | ((needed > 0) & pushing[:, None])
        come_set, come_node = np.nonzero(may_come & ~blocked)
        capacity = np.where(senders, needed, needed - here)
        stays, comes, sets = len(stay_set), len(come_set), len(settled)
        arcs = stays + comes
        # Never interrupted: it takes no time, and without it the whole search was in vain.
        solver = new_solver()
        lower = np.concatenate([supply, np.full(len(needed), -INFINITY)]).astype(np.float64)
        upper = np.concatenate([supply, np.maximum(capacity, 0)]).astype(np.float64)
        rows, none = len(lower), np.empty(0, np.int32)
        solver.addRows(rows, lower, upper, 0, np.zeros(rows, np.int32), none, np.empty(0))
        which = np.concatenate([stay_set, come_set])
        node = np.concatenate([stay_node, come_node])
        most = np.concatenate([settled[stay_set, stay_node], supply[come_set]])
        most[exclusive[which]] = np.minimum(most[exclusive[which]], 1)
        most[:stays] = settled[stay_set, stay_node]
        entries = SparseColumns(
            arcs + sets,
            np.concatenate([np.arange(arcs), np.arange(arcs), arcs + np.arange(sets)]),
            np.concatenate([which, sets + node, np.arange(sets)]),
            np.ones(2 * arcs + sets),
        )
        solver.addCols(
            arcs + sets,
            np.concatenate([np.zeros(stays), np.ones(comes), np.full(sets, _NOT_PLACED)]),
            np.zeros(arcs + sets),
            np.concatenate([most, supply]).astype(np.float64),
            len(entries.row),
            entries.start,
            entries.row,
            entries.value,
        )
        solver.run()
        values = np.round(np.array(solver.getSolution().col_value)).astype(np.int32)
        staying, coming = np.where(senders, 0, settled), np.zeros_like(settled)
        staying[stay_set, stay_node] = values[:stays]
        coming[come_set, come_node] = values[stays:arcs]
        return staying, coming


def _roughly(
    settled: Numbers, needed: Numbers, homeless: "np.typing.NDArray[np.int64]", exclusive: Bools
) -> tuple[Numbers, Numbers]:
    """How many of each set stay and come: the sets with most to place first, to the roomiest nodes.

    Sets take turns to leave nodes, so that none has too many to place. Some pods may find no place
    because they exclude one that stays.
    """
    count = np.maximum(settled.sum(axis=0) - needed, 0)
    turn = np.cumsum(count) - count
    staying, coming = settled.copy(), np.zeros_like(settled)
    senders = np.flatnonzero(count)
    staying[:, senders] -= _leaving_in_turn(settled[:, senders], count[senders], turn[senders])
    supply = settled.sum(axis=1) - staying.sum(axis=1) + homeless
    room = needed - staying.sum(axis=0)
    nodes = np.flatnonzero(room > 0)
    nodes = nodes[np.argsort(-room[nodes], kind="stable")]
    for one in np.argsort(-supply, kind="stable").tolist():
        if not supply[one] or not len(nodes):
            break
        fits = room[nodes]
        if exclusive[one]:
            fits = (staying[one, nodes] == 0).astype(room.dtype)
        taken_before = np.cumsum(fits) - fits
        taken = np.clip(supply[one] - taken_before, 0, fits)
        coming[one, nodes] = taken
        room[nodes] -= taken
        nodes = nodes[np.argsort(-room[nodes], kind="stable")]
        nodes = nodes[: np.count_nonzero(room[nodes] > 0)]
    return staying, coming


def _leaving_in_turn(settled: Numbers, count: Numbers, turn: Numbers) -> Numbers:
    """How many of each set leave each of some nodes, if each begins with the set whose turn it is.

    `count` pods leave a node in all.
    """
    sets = len(settled)
    order = (np.arange(sets)[:, None] + turn) % sets
    here = np.take_along_axis(settled, order, axis=0)
    going = np.clip(count - (np.cumsum(here, axis=0) - here), 0, here)
    leaving = np.empty_like(settled)
    np.put_along_axis(leaving, order, going.astype(settled.dtype), axis=0)
    return leaving


def _matched(movers: _Movers) -> Sequence[SearchStep]:
    """Give every pod a target, never its own node. Too few targets: the last pods stay."""
    free = Counter(movers.targets)
    steps = []
    for pod, source in movers.pods:
        for node in free:
            if node != source:
                steps.append(SearchStep(pod, source, node))
                free[node] -= 1
                if not free[node]:
                    del free[node]
                break
    return steps
