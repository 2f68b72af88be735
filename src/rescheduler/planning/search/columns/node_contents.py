"""What nodes may hold, and what that costs."""

import numpy as np

from rescheduler.model.snapshot import Bools, Floats
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.columns.pod_classes import STAYS, Contents, Numbers, PodClasses

# Steps of a bisection: enough to find a threshold among whole numbers of bytes.
_HALVINGS = 48
_ROUNDING = 1e-6


class NodeContents:
    """Judges contents of nodes: rows of node numbers go with rows of contents."""

    def __init__(self, problem: Problem, classes: PodClasses) -> None:
        self._problem = problem
        self._objective = problem.objective
        self.classes = classes
        self._fixed_used, self._fixed_movable = self._without_classes()
        available = problem.load.allocatable
        self._is_any_avoided = self._objective.avoids(slice(None), available) is not None
        self._ceilings = self._most_used()
        unit = np.gcd.reduce(classes.demand.astype(np.int64), axis=0)
        measured = np.flatnonzero(unit > 0)
        self._measured = measured
        whole = unit[measured].astype(np.float64)
        # Whole numbers of a common unit, so that what fits exactly fits.
        self.demand: Floats = np.round(classes.demand[:, measured] / whole)
        free = (self._ceilings - self._fixed_used)[measured].T
        self.room: Floats = np.floor(free / whole + _ROUNDING)
        limits = [problem.limits.per_node(node) for node in range(len(self.room))]
        self._moves_at_node = np.array([np.inf if most is None else most for most in limits])
        self._is_limited_by_node = bool(np.isfinite(self._moves_at_node).any())

    def _without_classes(self) -> tuple[Floats, Numbers]:
        """What nodes hold besides the pods of the classes."""
        problem, groups = self._problem, self._problem.groups
        moving = self.classes.of_template[groups.template] != STAYS
        templates, nodes = groups.template[moving], groups.node[moving]
        counts = groups.count[moving]
        used, movable = problem.load.used.copy(), problem.movable_on.copy()
        for row, demand in enumerate(problem.load.demand):
            held = np.bincount(nodes, weights=demand[templates] * counts, minlength=len(movable))
            used[row] -= held
        np.subtract.at(movable, nodes, counts)
        return used, movable

    def _most_used(self) -> Floats:
        """How much nodes may hold of each resource: what there is, and what strategies allow."""
        most = self._problem.load.allocatable.copy()
        if not self._is_any_avoided:
            return most
        for row, available in enumerate(most):
            if not self._avoids(row, available).any():
                continue
            low, high = np.zeros(len(available)), available.copy()
            for _ in range(_HALVINGS):
                middle = (low + high) / 2
                is_avoided = self._avoids(row, middle)
                high = np.where(is_avoided, middle, high)
                low = np.where(is_avoided, low, middle)
            most[row] = np.where(self._avoids(row, available), low, available)
        return most

    def _avoids(self, row: int, amounts: Floats) -> Bools:
        """Nodes that some strategy does not want to hold so much of one resource."""
        used = np.zeros_like(self._problem.load.allocatable)
        used[row] = amounts
        avoided = self._objective.avoids(slice(None), used)
        return np.zeros(len(amounts), bool) if avoided is None else avoided

    @property
    def start(self) -> Contents:
        """What nodes hold of the classes at the start."""
        return self.classes.start

    def used(self, nodes: Numbers, contents: Contents) -> Floats:
        """What these nodes hold altogether: a row per resource."""
        # Whole numbers and others together would be multiplied one by one.
        held = self.classes.demand.T @ contents.astype(np.float64).T
        return np.asarray(self._fixed_used[:, nodes] + held)

    def costs(self, nodes: Numbers, contents: Contents) -> Floats:
        """What these contents cost, without the moves that lead there."""
        return self._objective.cost(
            nodes, self.used(nodes, contents), self.movable(nodes, contents)
        )

    def movable(self, nodes: Numbers, contents: Contents) -> Numbers:
        """How many pods that could move these nodes hold."""
        return np.asarray(self._fixed_movable[nodes] + contents.sum(axis=1, dtype=np.int32))

    def costs_with_one_more(
        self, nodes: Numbers, contents: Contents, rows: Numbers, which: Numbers
    ) -> Floats:
        """What these rows of the contents cost with one more pod, of the class given for each."""
        used = self.used(nodes, contents)[:, rows] + self.classes.demand[which].T
        movable = self.movable(nodes, contents)[rows] + 1
        return self._objective.cost(nodes[rows], used, movable)

    def arrivals(self, nodes: Numbers, contents: Contents) -> Contents:
        """How many pods of each class come to these nodes."""
        return np.asarray(np.maximum(contents - self.start[nodes], 0))

    def have_room(self, nodes: Numbers, contents: Contents) -> Bools:
        """Whether nodes with these contents hold no more than they may."""
        held = contents.astype(np.float64) @ self.demand
        return np.asarray((held <= self.room[nodes]).all(axis=1))

    def are_allowed(self, nodes: Numbers, contents: Contents) -> Bools:
        """Whether nodes may hold these contents. To hold less than at the start is allowed."""
        classes, start = self.classes, self.start[nodes]
        bad = self._are_too_full(nodes, contents)
        coming = contents > start
        unwelcome = coming & (classes.refused[nodes] | (contents > classes.most_per_node))
        if classes.apart.any():
            others = (contents > 0).astype(np.float32) @ classes.apart.astype(np.float32)
            unwelcome |= coming & (others > 0)
        # Few are, so this is faster than to ask row by row.
        bad[np.nonzero(unwelcome)[0]] = True
        if self._is_limited_by_node:
            changes = np.abs(contents.astype(np.int32) - start).sum(axis=1)
            bad |= changes > self._moves_at_node[nodes]
        if self._is_any_avoided:
            avoided = self._objective.avoids(nodes, self.used(nodes, contents))
            if avoided is not None:
                bad |= avoided & coming.any(axis=1)
        return np.asarray(~bad)

    def _are_too_full(self, nodes: Numbers, contents: Contents) -> Bools:
        """Whether pods come that need what there is too little of."""
        bad = np.zeros(len(nodes), bool)
        exceeded = contents.astype(np.float64) @ self.demand > self.room[nodes]
        rows = np.unique(np.nonzero(exceeded)[0])
        brought = self.arrivals(nodes[rows], contents[rows]).astype(np.float64) @ self.demand
        bad[rows] = (exceeded[rows] & (brought > 0)).any(axis=1)
        return bad
