"""NodeResourcesFit: what the pod asks for must be free on the node.

Free is what the node can give minus what the placed pods hold, which during a resize in place is
more than they ask for. A resource of which the pod asks nothing is not looked at, so a node that
is already overcommitted on it is no obstacle. Pod slots always count.
"""

import numpy as np

from rescheduler.model.resources import CPU, PODS
from rescheduler.model.snapshot import Bools, Int64s
from rescheduler.planning.feasibility.filter_plugin import SharedLister


class NodeResourcesFit:
    """Refuses nodes without enough room."""

    name = "NodeResourcesFit"

    def __init__(self, lister: SharedLister) -> None:
        self._lister = lister
        # A row per resource, so that a comparison runs over adjacent memory. Others only read it.
        self.free: Int64s = lister.snapshot.nodes.allocatable.T.copy()

    def refused(self, template: int) -> Bools:
        asked = self._lister.snapshot.asked[template]
        refused = np.zeros(self.free.shape[1], bool)
        for resource in np.flatnonzero(asked):
            refused |= self.free[resource] < asked[resource]
        return refused

    def refuses(self, template: int, node: int) -> bool:
        """Whether `refused` has this node, without asking about all others."""
        asked = self._lister.snapshot.asked[template]
        return bool(((self.free[:, node] < asked) & (asked != 0)).any())

    def reason(self, template: int, node: int) -> str:
        asked = self._lister.snapshot.asked[template]
        for resource in np.flatnonzero(asked):
            free = int(self.free[resource, node])
            if free < asked[resource]:
                return _shortage(
                    self._lister.snapshot.resources[resource], int(asked[resource]), free
                )
        raise AssertionError("asked why of a node that is not refused")

    def count_pods(self, template: int, node: int, count: int, terminating: bool) -> None:
        """Pods of this template came to the node, or left it if `count` is negative."""
        self.free[:, node] -= self._lister.snapshot.held[template] * count

    def place_all(self) -> None:
        """All pods of the snapshot at once, which is much faster than one by one."""
        self.free -= self._lister.snapshot.requested.T


def _shortage(resource: str, asked: int, free: int) -> str:
    if resource == PODS:
        return "the node has no pod slot left"
    unit = " millicores" if resource == CPU else ""
    return f"not enough {resource}: the pod asks for {asked}{unit}, {max(free, 0)}{unit} are free"
