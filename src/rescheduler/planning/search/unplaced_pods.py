"""Pods that have no node at the moment, and how they get one.

A pod goes where it fits best. Where it fits nowhere, another may make room for it and is then
unplaced itself (an ejection chain).
"""

from bisect import insort
from collections import Counter
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from rescheduler.model.snapshot import NO_NODE, Bools, Floats
from rescheduler.planning.search.assignment import Assignment, Shift

# Candidates for making room that are looked at more closely: can they go elsewhere at once?
_LOOKED_AT = 6
# How much chance decides where a pod goes.
_NOISE = 0.5


class UnplacedPods:
    """Pods of an assignment that are on no node."""

    def __init__(
        self,
        assignment: Assignment,
        size: Floats,
        available: Callable[[], Bools],
        random: np.random.Generator,
    ) -> None:
        self._assignment = assignment
        self._problem = assignment.problem
        self._size = size
        self._available = available
        self._random = random
        self._pods: Counter[int] = Counter()

    def __bool__(self) -> bool:
        return bool(self._pods)

    def clear(self) -> None:
        """Forget the pods: somebody has put them back."""
        self._pods.clear()

    def empty(self, node: int) -> None:
        """Take all pods off a node."""
        for template, count in list(self._assignment.now[node].items()):
            for _ in range(count):
                self._eject(template, node)

    def largest(self) -> int:
        """The template of the largest pod."""
        return max(self._pods, key=self._size.__getitem__)

    def _eject(self, template: int, node: int) -> None:
        self._assignment.shift(Shift(template, node, NO_NODE))
        self._pods[template] += 1

    def insert(self, template: int, node: int) -> bool:
        """Put a pod onto a node, unless a plugin refuses it."""
        if not self._assignment.try_shifts([Shift(template, NO_NODE, node)]):
            return False
        self._pods[template] -= 1
        if not self._pods[template]:
            del self._pods[template]
        return True

    def place_all(self, tries: int) -> bool:
        """Whether all found a node, with so many others making room."""
        waiting = sorted(self._pods.elements(), key=self._size.__getitem__)
        while waiting:
            template = waiting.pop()
            if self._place(template):
                continue
            ejected = self._make_room(template) if tries > 0 else None
            tries -= 1
            if ejected is None:
                return False
            if not self._place(ejected):
                insort(waiting, ejected, key=self._size.__getitem__)
        return True

    def place_what_fits(self) -> None:
        """Put those onto nodes that fit somewhere, the largest first."""
        for template in sorted(self._pods.elements(), key=lambda template: -self._size[template]):
            self._place(template)

    def fitting(self, template: int, among: Bools) -> npt.NDArray[np.int64]:
        """Nodes of these that would take a pod of the template as they are."""
        assignment = self._assignment
        totals = assignment.totals
        fits = among & ~self._problem.pods.refused_masks(np.array([template]))[0]
        for amount, free in zip(self._problem.load.demand[:, template], totals.free, strict=True):
            if amount > 0:
                fits &= free >= amount
        row = assignment.conflicts.row_of[template]
        fits &= assignment.conflicts.counts[row] == 0
        if self._assignment.checker.depends_beyond_node[template]:
            refused = self._assignment.checker.refused_regardless_of_room(template)
            if refused is not None:
                fits &= ~refused
        return np.flatnonzero(fits)

    def _place(self, template: int) -> bool:
        """Put a pod onto the available node that it suits best."""
        nodes = self.fitting(template, self._available())
        if not len(nodes):
            return False
        vacant = self._assignment.vacant.get(template)
        if vacant:
            at_home = np.isin(nodes, list(vacant))
            nodes = nodes[at_home] if at_home.any() else nodes
        left = self._left_over(nodes, template)
        left *= 1.0 + _NOISE * self._random.random(len(left))
        return self.insert(template, int(nodes[left.argmin()]))

    def _left_over(self, nodes: npt.NDArray[np.int64], template: int) -> Floats:
        """How unevenly the resources that stay free are left on each node: less is better."""
        load = self._problem.load
        free = self._assignment.totals.free[:, nodes] - load.demand[:, template][:, None]
        share = free[:2] / load.capacity[:2, nodes]
        return np.asarray(share.sum(axis=0) + 2 * np.abs(share[0] - share[1]))

    def _make_room(self, template: int) -> int | None:
        """Replace another pod by an unplaced one; returns the template of the other.

        Best of one that can go elsewhere at once; otherwise only of a smaller one, so that less is
        unplaced in any case.
        """
        groups = self._replaceable(template)
        if not len(groups):
            return None
        nodes, templates = self._assignment.nodes[groups], self._assignment.templates[groups]
        size = self._size[templates] * (1.0 + 0.1 * self._random.random(len(groups)))
        order = np.argsort(size)
        smallest = order[:_LOOKED_AT]
        by_chance = self._random.permutation(order[_LOOKED_AT:])[:_LOOKED_AT]
        for index in (*smallest.tolist(), *by_chance.tolist()):
            other, node = int(templates[index]), int(nodes[index])
            elsewhere = self._available()
            elsewhere[node] = False
            if len(self.fitting(other, elsewhere)) and self._trade(template, other, node):
                return other
        first = int(order[0])
        other, node = int(templates[first]), int(nodes[first])
        if self._size[other] < self._size[template] and self._trade(template, other, node):
            return other
        return None

    def _replaceable(self, template: int) -> npt.NDArray[np.int64]:
        """Groups on open nodes of which one pod less would be room enough."""
        assignment, demand = self._assignment, self._problem.load.demand
        free, nodes, templates = assignment.totals.free, assignment.nodes, assignment.templates
        good = self._available()[nodes] & (templates != template)
        good &= ~self._problem.pods.refused_masks(np.array([template]))[0][nodes]
        for row, amount in enumerate(demand[:, template]):
            if amount > 0:
                good &= free[row][nodes] + demand[row][templates] >= amount
        conflicts = assignment.conflicts
        good &= conflicts.counts[conflicts.row_of[template]][nodes] == 0
        return np.flatnonzero(good)

    def _trade(self, template: int, other: int, node: int) -> bool:
        """Replace a pod by another, unless a plugin refuses it."""
        length = len(self._assignment.journal)
        self._eject(other, node)
        if self.insert(template, node):
            return True
        self._assignment.rewind(length)
        self._pods[other] -= 1
        if not self._pods[other]:
            del self._pods[other]
        return False
