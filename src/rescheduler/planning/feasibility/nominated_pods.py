"""Pods without a node that are nominated to one: the scheduler keeps their room.

When it asks whether a node accepts a pod, pods of the same or a higher priority that are nominated
to that node count as if they ran there. They may end up elsewhere, so the node must accept the pod
without them, too. Pods that are nominated to other nodes do not count, not even in the same zone.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from rescheduler.model.snapshot import Snapshot


class NominatedPod(NamedTuple):
    """What counts of a nominated pod."""

    template: int
    priority: int
    terminating: bool


class NominatedPods:
    """The nominated pods of a snapshot, by their node and row."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._on: defaultdict[int, dict[int, NominatedPod]] = defaultdict(dict)
        pods = snapshot.pods
        for row in np.flatnonzero(pods.promised).tolist():
            template = int(pods.template[row])
            priority = snapshot.templates[template].priority
            nominated = NominatedPod(template, priority, bool(pods.deleting[row]))
            self._on[int(pods.nominated[row])][row] = nominated

    def nodes(self, priority: int) -> Iterator[int]:
        """The nodes on which room is kept from a pod of this priority."""
        return (node for node in self._on if self.ahead_of(priority, node))

    def ahead_of(self, priority: int, node: int) -> list[NominatedPod]:
        """The pods whose room on a node is kept from a pod of this priority."""
        if node not in self._on:
            return []
        return [pod for pod in self._on[node].values() if pod.priority >= priority]

    def remove(self, row: int, node: int) -> NominatedPod | None:
        """Forget the pod in a row if it is nominated to the node."""
        return self._on[node].pop(row, None) if node in self._on else None

    def restore(self, row: int, node: int, pod: NominatedPod) -> None:
        """Undo `remove`."""
        self._on[node][row] = pod
