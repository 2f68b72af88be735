"""The nodes of a snapshot as load sees them: what they can give, and what pods take of it."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rescheduler.model.resources import CPU, MEMORY, PODS
from rescheduler.model.rules.node_availability import (
    DEFAULT_MAINTENANCE_LABEL,
    NodeLabel,
    is_open_to_users,
    is_under_maintenance,
)
from rescheduler.model.snapshot import Bools, Floats, Ints, Snapshot
from rescheduler.planning.feasibility.plugins.taint_toleration import hard_taints

MEASURED = (CPU, MEMORY, PODS)
"""The first rows of every array of amounts, in this order; other resources follow."""
CPU_ROW, MEMORY_ROW, PODS_ROW = range(3)


@dataclass(frozen=True, eq=False)
class NodeLoad:
    """What nodes can give and what their pods hold: a row per resource, a column per node."""

    snapshot: Snapshot
    maintenance_label: NodeLabel = DEFAULT_MAINTENANCE_LABEL
    wanted: frozenset[str] = frozenset()
    """Resources that count although no pod asks for them, if some node has them."""

    @cached_property
    def resources(self) -> tuple[str, ...]:
        """The measured ones, and whatever else some pod asks for or is wanted."""
        asked = np.atleast_1d(self.snapshot.asked.any(axis=0))
        others = [
            name
            for column, name in enumerate(self.snapshot.resources)
            if (asked[column] or name in self.wanted) and name not in MEASURED
        ]
        return (*MEASURED, *others)

    @cached_property
    def columns(self) -> list[int]:
        """Where the snapshot keeps each of the resources."""
        return [self.snapshot.column(resource) for resource in self.resources]

    @cached_property
    def allocatable(self) -> Floats:
        """What each node can give of each resource."""
        return self.snapshot.nodes.allocatable[:, self.columns].T.astype(np.float64)

    @cached_property
    def capacity(self) -> Floats:
        """The same, for dividing by.

        A node that can give nothing of a resource counts as endless, so that nothing fills it and
        it is never the fullest; it takes no pods that ask for it anyway.
        """
        return np.where(self.allocatable > 0, self.allocatable, np.inf)

    @cached_property
    def demand(self) -> Floats:
        """What a pod of each template takes up of each resource."""
        return self.snapshot.held[:, self.columns].T.astype(np.float64)

    @cached_property
    def used(self) -> Floats:
        """What the pods of each node take up, with the pods where the snapshot has them."""
        return self.snapshot.requested[:, self.columns].T.astype(np.float64)

    @cached_property
    def under_maintenance(self) -> Bools:
        """Nodes that a person wants emptied."""
        nodes, label = self.snapshot.nodes.objects, self.maintenance_label
        return np.array([is_under_maintenance(node, label) for node in nodes], bool)

    @cached_property
    def takes_pods(self) -> Bools:
        """Nodes that users' pods are meant for: healthy, open, and not the control plane's."""
        nodes, label = self.snapshot.nodes, self.maintenance_label
        is_open = np.array([is_open_to_users(node, label) for node in nodes.objects], bool)
        has_room = (self.allocatable[: len(MEASURED)] > 0).all(axis=0)
        return np.asarray(nodes.ready & has_room & is_open)

    @cached_property
    def tainted(self) -> Bools:
        """Nodes that most pods may not run on."""
        nodes = self.snapshot.nodes.objects
        return np.array([bool(hard_taints(node.spec.taints)) for node in nodes], bool)

    @cached_property
    def softly_tainted(self) -> Bools:
        """Nodes that prefer not to have pods."""
        nodes = self.snapshot.nodes.objects
        soft = "PreferNoSchedule"
        return np.array(
            [any(taint.effect == soft for taint in node.spec.taints) for node in nodes], bool
        )

    def utilization(self, used: Floats) -> Floats:
        """How full nodes are of each resource, 1 being full."""
        return used / self.capacity

    def load(self, used: Floats) -> Floats:
        """One number for how loaded each node is: the mean of its CPU and memory utilisation."""
        cpu, memory = self.capacity[CPU_ROW], self.capacity[MEMORY_ROW]
        return np.asarray((used[CPU_ROW] / cpu + used[MEMORY_ROW] / memory) / 2)

    def loads_of(self, nodes: Ints, used: Floats) -> Floats:
        """How loaded each of these nodes is if it holds so much: a column per entry."""
        capacity = self.capacity[:, nodes]
        cpu, memory = used[CPU_ROW] / capacity[CPU_ROW], used[MEMORY_ROW] / capacity[MEMORY_ROW]
        return np.asarray((cpu + memory) / 2)

    def used_after(self, templates: Ints, sources: Ints, targets: Ints) -> Floats:
        """What the pods of each node take up after moves of pods of these templates."""
        used = self.used.copy()
        for row, amounts in enumerate(self.demand[:, templates]):
            used[row] += np.bincount(targets, amounts, used.shape[1])
            used[row] -= np.bincount(sources, amounts, used.shape[1])
        return used
