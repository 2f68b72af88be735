"""How loaded nodes are: what their pods ask for, as a fraction of what the nodes can give."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rescheduler.labels import CONTROL_PLANE_ROLES, MAINTENANCE
from rescheduler.model.resources import CPU, MEMORY, PODS
from rescheduler.model.snapshot import Bools, Floats, Snapshot
from rescheduler.planning.feasibility.taint_toleration import hard_taints

MEASURED = (CPU, MEMORY, PODS)
"""What utilisation is told of, in the order of every utilisation array's last axis."""


def load_of(utilization: Floats) -> Floats:
    """One number for how loaded a node is: the mean of its CPU and memory utilisation."""
    # Written out: a reduction over an axis of two is many times slower.
    return np.asarray((utilization[..., 0] + utilization[..., 1]) / 2)


@dataclass(frozen=True)
class NodeLoad:
    """The nodes of a snapshot as far as load is concerned."""

    snapshot: Snapshot

    @cached_property
    def capacity(self) -> Floats:
        """What each node can give of each measured resource.

        A node that can give nothing of one counts as endless, so that nothing fills it and it is
        never the fullest; it takes no pods anyway.
        """
        columns = [self.snapshot.column(resource) for resource in MEASURED]
        allocatable = self.snapshot.nodes.allocatable[:, columns].astype(np.float64)
        return np.where(allocatable > 0, allocatable, np.inf)

    @cached_property
    def demand(self) -> Floats:
        """What a pod of each template takes up of each measured resource."""
        columns = [self.snapshot.column(resource) for resource in MEASURED]
        return self.snapshot.held[:, columns].astype(np.float64)

    @cached_property
    def utilization(self) -> Floats:
        """How full each node is, 1 being full, with the pods where the snapshot has them."""
        columns = [self.snapshot.column(resource) for resource in MEASURED]
        return self.snapshot.requested[:, columns] / self.capacity

    @cached_property
    def under_maintenance(self) -> Bools:
        """Nodes that a person wants emptied."""
        nodes = self.snapshot.nodes.objects
        return np.array([node.metadata.labels.get(MAINTENANCE) == "true" for node in nodes], bool)

    @cached_property
    def takes_pods(self) -> Bools:
        """Nodes that users' pods are meant for: healthy, open, and not the control plane's."""
        nodes = self.snapshot.nodes
        control_plane = np.array(
            [
                any(role in node.metadata.labels for role in CONTROL_PLANE_ROLES)
                for node in nodes.objects
            ],
            bool,
        )
        has_room = np.isfinite(self.capacity).all(axis=-1)
        closed = nodes.unschedulable | self.under_maintenance | control_plane
        return np.asarray(nodes.ready & has_room & ~closed)

    @cached_property
    def tainted(self) -> Bools:
        """Nodes that most pods may not run on."""
        nodes = self.snapshot.nodes.objects
        return np.array([bool(hard_taints(node.spec.taints)) for node in nodes], bool)
