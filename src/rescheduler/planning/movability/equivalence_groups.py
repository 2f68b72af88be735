"""Movable pods that are interchangeable: those of one template on one node.

Searches decide how many pods of a group go where. Which of them that are is decided by age.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rescheduler.model.snapshot import Bools, Floats, Ints, Snapshot


@dataclass(frozen=True, eq=False)
class EquivalenceGroups:
    """The groups, sorted by node and then by template: a row of each column per group."""

    template: Ints
    node: Ints
    count: Ints
    first: Ints
    """Where the pods of each group begin in `pods`."""
    pods: npt.NDArray[np.int64]
    """Pods group by group, in the order in which they should go."""
    start_of_node: Ints
    """Where the groups of each node begin; one entry more than there are nodes."""

    def of_node(self, node: int) -> slice:
        """The groups on a node."""
        return slice(int(self.start_of_node[node]), int(self.start_of_node[node + 1]))

    def pods_of(self, group: int) -> list[int]:
        """The pods of a group, in the order in which they should go."""
        first = int(self.first[group])
        return [int(pod) for pod in self.pods[first : first + int(self.count[group])]]

    def __len__(self) -> int:
        return len(self.template)


def equivalence_groups(snapshot: Snapshot, movable: Bools, order: Floats) -> EquivalenceGroups:
    """Group the movable pods; within a group they are in the given order."""
    pods = np.flatnonzero(movable)
    key = snapshot.pods.node[pods].astype(np.int64) * max(len(snapshot.templates), 1)
    key += snapshot.pods.template[pods]
    by_group = np.lexsort((order[pods], key))
    pods, key = pods[by_group], key[by_group]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    nodes = snapshot.pods.node[pods[first]]
    return EquivalenceGroups(
        template=snapshot.pods.template[pods[first]],
        node=nodes,
        count=np.diff(first, append=len(pods)).astype(np.int32),
        first=first.astype(np.int32),
        pods=pods,
        start_of_node=np.searchsorted(nodes, np.arange(len(snapshot.nodes) + 1)).astype(np.int32),
    )
