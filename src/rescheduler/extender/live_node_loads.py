"""How loaded nodes are, without a snapshot: taking one would take too long for a response.

What changes with nodes is kept in columns that follow the table of nodes; what changes with pods
is read from the sums that the table of pods keeps. So a request costs a few operations on whole
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
"""The row of a node that is not in the table."""
_FIRST_SIZE = 64

NodeRows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CandidateNodes:
    """The nodes of a request, a column each, in the order of the request.

    `capacity` and `used` have a row for CPU and one for memory. A node that we do not know has
    infinite capacity. So has a node with none of a resource: no pod would fill it.
    """

    rows: NodeRows
    """Their rows in the table of nodes, or `UNKNOWN`."""
    under_maintenance: Bools
    capacity: Floats
    used: Floats

    @property
    def measurable(self) -> Bools:
        """Whether we know them, and they have some of every resource."""
        return np.asarray(np.isfinite(self.capacity).all(axis=0))

    def utilization(self, more: Floats) -> Floats:
        """How full each node is with `more` of each resource in use; 1 is full."""
        return np.clip((self.used + more) / self.capacity, 0.0, None)


class LiveNodeLoads:
    """The load of all nodes, in columns by their rows in the table."""

    def __init__(self, tables: ClusterTables, maintenance_label: NodeLabel) -> None:
        self._nodes = tables.nodes
        self._pods = tables.pods
        self._label = maintenance_label
        self._changes_seen = 0
        # Rows that no node has, or none any more, look like those of unknown nodes.
        self._is_there = np.zeros(_FIRST_SIZE, bool)
        self._number = np.zeros(_FIRST_SIZE, np.int64)
        self._capacity = np.full((len(MEASURED), _FIRST_SIZE), np.inf)
        self._under_maintenance = np.zeros(_FIRST_SIZE, bool)
        self._takes_pods = np.zeros(_FIRST_SIZE, bool)

    def candidates(self, rows: NodeRows, maintenance_label: NodeLabel) -> CandidateNodes:
        """The nodes in these rows."""
        self._refresh(maintenance_label)
        known = rows != UNKNOWN
        return CandidateNodes(
            rows=rows,
            under_maintenance=self._under_maintenance[rows] & known,
            capacity=np.where(known, self._capacity[:, rows], np.inf),
            used=self._used(rows),
        )

    def still_there(self, rows: NodeRows, maintenance_label: NodeLabel) -> NodeRows:
        """These rows, all of which nodes had, without those whose nodes are gone."""
        self._refresh(maintenance_label)
        return rows[self._is_there[rows]]

    def mean_load(self) -> float:
        """The mean load of all nodes that take pods, whether they are in a request or not."""
        rows = np.flatnonzero(self._takes_pods)
        if not len(rows):
            return 0.0
        return float(load(self._used(rows) / self._capacity[:, rows]).mean())

    def free(self, row: int, resources: Iterable[str]) -> dict[str, int]:
        """How much of some resources is free on the node in a row, which must be known."""
        found = self._nodes.at(row)
        assert found is not None, "a node that was looked up is there"
        number, allocatable = self._number[row], found[1]
        return {
            resource: allocatable.get(resource, 0) - int(self._pods.held_on(resource)[number])
            for resource in resources
        }

    def _used(self, rows: NodeRows) -> Floats:
        numbers = self._number[rows]
        held = [self._pods.held_on(resource)[numbers] for resource in MEASURED]
        return np.array(held, np.float64)

    def _refresh(self, maintenance_label: NodeLabel) -> None:
        """Update the rows that have changed since the last request."""
        if maintenance_label != self._label:
            self._label, self._changes_seen = maintenance_label, 0
        for row in self._nodes.changed_since(self._changes_seen):
            self._refresh_row(row)
        self._changes_seen = self._nodes.changes

    def _refresh_row(self, row: int) -> None:
        self._grow_to(row + 1)
        found = self._nodes.at(row)
        self._is_there[row] = found is not None
        if found is None:
            self._capacity[:, row] = np.inf
            self._under_maintenance[row] = self._takes_pods[row] = False
            return
        node, allocatable = found
        self._number[row] = self._pods.number_of_node(node.metadata.name)
        self._capacity[:, row] = [allocatable.get(name, 0) or np.inf for name in MEASURED]
        self._under_maintenance[row] = is_under_maintenance(node, self._label)
        has_capacity = bool(np.isfinite(self._capacity[:, row]).all())
        is_open = is_ready(node) and is_open_to_users(node, self._label)
        self._takes_pods[row] = has_capacity and is_open

    def _grow_to(self, rows: int) -> None:
        missing = rows - len(self._number)
        if missing <= 0:
            return
        more = max(missing, len(self._number))
        self._is_there = np.pad(self._is_there, (0, more))
        self._number = np.pad(self._number, (0, more))
        self._capacity = np.pad(self._capacity, ((0, 0), (0, more)), constant_values=np.inf)
        self._under_maintenance = np.pad(self._under_maintenance, (0, more))
        self._takes_pods = np.pad(self._takes_pods, (0, more))


def load(utilization: Floats) -> Floats:
    """One number for how loaded each node is: the mean of its CPU and memory utilisation."""
    return np.asarray(utilization.mean(axis=0))
