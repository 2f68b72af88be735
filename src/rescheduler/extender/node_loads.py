"""How loaded nodes are, for whoever cannot wait for a snapshot.

What changes with nodes is kept in columns that follow the table of nodes; what changes with pods
is read from the sums that the table of pods keeps. So a question costs a few operations on whole
columns, and a change costs its own row.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rescheduler.model.resources import CPU, MEMORY
from rescheduler.model.rules.node_availability import (
    NodeLabel,
    is_open_to_users,
    is_ready,
    is_under_maintenance,
)
from rescheduler.model.snapshot import Bools, Floats
from rescheduler.model.tables.cluster_tables import ClusterTables

MEASURED = (CPU, MEMORY)
"""The rows of every array of amounts or utilisations."""
UNKNOWN = -1
_FIRST_SIZE = 64

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Candidates:
    """The nodes of a question, a column each, in the order in which they were asked about.

    `capacity` and `used` have a row for CPU and one for memory. A node that we do not know has
    endless capacity; so has one that can give nothing of a resource, for nothing fills it.
    """

    rows: Rows
    """Where they are in the table of nodes; `UNKNOWN` if they are not."""
    under_maintenance: Bools
    capacity: Floats
    used: Floats

    @property
    def measurable(self) -> Bools:
        """Whether we know them, and they have something of every resource to give."""
        return np.asarray(np.isfinite(self.capacity).all(axis=0))

    def utilization(self, more: Floats) -> Floats:
        """How full each node is when `more` of each resource has come to it, 1 being full."""
        return np.clip((self.used + more) / self.capacity, 0.0, None)


class NodeLoads:
    """Columns of all nodes, by their rows in the table."""

    def __init__(self, tables: ClusterTables, maintenance_label: NodeLabel) -> None:
        self._nodes = tables.nodes
        self._pods = tables.pods
        self._label = maintenance_label
        self._changes_seen = 0
        # A row that is not there, and that of a node that is gone, is as an unknown node's.
        self._number = np.zeros(_FIRST_SIZE, np.int64)
        self._capacity = np.full((len(MEASURED), _FIRST_SIZE), np.inf)
        self._under_maintenance = np.zeros(_FIRST_SIZE, bool)
        self._takes_pods = np.zeros(_FIRST_SIZE, bool)

    def candidates(self, rows: Rows, maintenance_label: NodeLabel) -> Candidates:
        """What there is to know about the nodes in these rows."""
        self._follow(maintenance_label)
        known = rows != UNKNOWN
        return Candidates(
            rows=rows,
            under_maintenance=self._under_maintenance[rows] & known,
            capacity=np.where(known, self._capacity[:, rows], np.inf),
            used=self._used(rows),
        )

    def mean_load(self) -> float:
        """The mean load of all nodes that take pods, whether anyone asks about them or not."""
        rows = np.flatnonzero(self._takes_pods)
        if not len(rows):
            return 0.0
        return float(load(self._used(rows) / self._capacity[:, rows]).mean())

    def free(self, row: int, resources: Iterable[str]) -> dict[str, int]:
        """How much of any resources is left on the node in a row, which must be known."""
        found = self._nodes.at(row)
        assert found is not None, "a node that was looked up is there"
        number, allocatable = self._number[row], found[1]
        return {
            resource: allocatable.get(resource, 0) - int(self._pods.held_on(resource)[number])
            for resource in resources
        }

    def _used(self, rows: Rows) -> Floats:
        numbers = self._number[rows]
        return np.array([self._pods.held_on(each)[numbers] for each in MEASURED], np.float64)

    def _follow(self, maintenance_label: NodeLabel) -> None:
        """Take over what has changed since the last question."""
        if maintenance_label != self._label:
            self._label, self._changes_seen = maintenance_label, 0
        for row in self._nodes.changed_since(self._changes_seen):
            self._take_over(row)
        self._changes_seen = self._nodes.changes

    def _take_over(self, row: int) -> None:
        self._make_room(row + 1)
        found = self._nodes.at(row)
        if found is None:
            self._capacity[:, row] = np.inf
            self._under_maintenance[row] = self._takes_pods[row] = False
            return
        node, allocatable = found
        self._number[row] = self._pods.number_of_node(node.metadata.name)
        self._capacity[:, row] = [allocatable.get(each, 0) or np.inf for each in MEASURED]
        self._under_maintenance[row] = is_under_maintenance(node, self._label)
        gives = bool(np.isfinite(self._capacity[:, row]).all())
        is_open = is_ready(node) and is_open_to_users(node, self._label)
        self._takes_pods[row] = gives and is_open

    def _make_room(self, rows: int) -> None:
        missing = rows - len(self._number)
        if missing <= 0:
            return
        more = max(missing, len(self._number))
        self._number = np.pad(self._number, (0, more))
        self._capacity = np.pad(self._capacity, ((0, 0), (0, more)), constant_values=np.inf)
        self._under_maintenance = np.pad(self._under_maintenance, (0, more))
        self._takes_pods = np.pad(self._takes_pods, (0, more))


def load(utilization: Floats) -> Floats:
    """One number for how loaded each node is: the mean of its CPU and memory utilisation."""
    return np.asarray(utilization.mean(axis=0))
