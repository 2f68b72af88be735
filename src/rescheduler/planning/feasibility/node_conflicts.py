"""Pods that must not share a node: how many of them are where."""

from copy import copy

import numpy as np
import numpy.typing as npt

from rescheduler.model.snapshot import Ints, Snapshot
from rescheduler.planning.feasibility.checker import FeasibilityChecker


class NodeConflicts:
    """How many pods that a template must not be with are on each node."""

    def __init__(self, snapshot: Snapshot, checker: FeasibilityChecker) -> None:
        self._apart = {
            template: np.array(sorted(others), np.int32)
            for template, others in checker.affinity_relations.apart_on_node.items()
        }
        concerned = sorted(self._apart)
        templates, nodes = len(snapshot.templates), len(snapshot.nodes)
        self.row_of: Ints = np.full(templates, len(concerned), np.int32)
        self.row_of[concerned] = np.arange(len(concerned))
        self._itself: Ints = np.zeros(templates, np.int32)
        self._itself[
            [template for template, others in self._apart.items() if template in others]
        ] = 1
        # The last row is that of templates that exclude nobody.
        self.counts: npt.NDArray[np.int16] = np.zeros((len(concerned) + 1, nodes), np.int16)
        self._rows = {template: self.row_of[others] for template, others in self._apart.items()}
        self._count_all(snapshot)

    def _count_all(self, snapshot: Snapshot) -> None:
        pods = snapshot.pods
        rows = np.flatnonzero(pods.placed)
        self.add_all(pods.template[rows], pods.node[rows], np.ones(len(rows), np.int32))

    def copy(self) -> "NodeConflicts":
        """The same, to be changed on its own."""
        other = copy(self)
        other.counts = self.counts.copy()
        return other

    def among(self, templates: Ints, nodes: Ints, counts: Ints) -> "NodeConflicts":
        """The same for these pods alone: so many of each template on its node."""
        other = copy(self)
        other.counts = np.zeros_like(self.counts)
        other.add_all(templates, nodes, counts)
        return other

    def add_all(self, templates: Ints, nodes: Ints, numbers: Ints) -> None:
        """So many pods of each of these templates came to its node, or left it if negative."""
        concerned = np.flatnonzero(self.row_of[templates] < len(self.counts) - 1)
        excluded = [self._rows[template] for template in templates[concerned].tolist()]
        if not excluded:
            return
        pod = np.repeat(concerned, [len(rows) for rows in excluded])
        place = np.concatenate(excluded).astype(np.int64) * self.counts.shape[1] + nodes[pod]
        np.add.at(self.counts.reshape(-1), place, numbers[pod].astype(np.int16))

    def add(self, template: int, node: int, count: int) -> None:
        """Pods of the template came to the node, or left it."""
        rows = self._rows.get(template)
        if rows is not None:
            self.counts[rows, node] += count

    def without(self, template: int, counts: npt.NDArray[np.int16]) -> npt.NDArray[np.int16]:
        """The counts of a node as they would be with one pod of the template less."""
        rows = self._rows.get(template)
        if rows is None:
            return counts
        counts = counts.copy()
        counts[rows] -= 1
        return counts

    def of(self, templates: Ints, nodes: Ints) -> Ints:
        """How many others a pod of each template must not be with on its node."""
        return np.asarray(self.counts[self.row_of[templates], nodes] - self._itself[templates])
