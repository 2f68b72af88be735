"""NodeUnschedulable: a cordoned node takes no pods but those that tolerate being cordoned.

Neither does a node about which something cannot be decoded: it takes no pods at all.
"""

import numpy as np

from rescheduler.labels import UNSCHEDULABLE_TAINT
from rescheduler.model.snapshot import Bools
from rescheduler.planning.feasibility.filter_plugin import SharedLister, tolerates


class NodeUnschedulable:
    """Refuses cordoned nodes, and those of which not everything is known."""

    name = "NodeUnschedulable"

    def __init__(self, lister: SharedLister) -> None:
        self._lister = lister
        nodes = lister.snapshot.nodes
        unreadable = {obj.closed_node: obj for obj in lister.snapshot.unreadable}
        self._unreadable_on = {
            nodes.index[name]: obj for name, obj in unreadable.items() if name in nodes.index
        }
        self._closed: Bools = np.zeros(len(nodes), bool)
        self._closed[list(self._unreadable_on)] = True

    def refused(self, template: int) -> Bools | None:
        # A simulated scheduler cordons nodes while the plugin is there.
        cordoned = self._lister.snapshot.nodes.unschedulable
        refused: Bools = self._closed | cordoned if self._unreadable_on else cordoned
        if not refused.any():
            return None
        tolerations = self._lister.snapshot.templates[template].tolerations
        if any(
            tolerates(toleration, UNSCHEDULABLE_TAINT, "", "NoSchedule")
            for toleration in tolerations
        ):
            return self._closed if self._unreadable_on else None
        return refused

    def reason(self, template: int, node: int) -> str:
        unreadable = self._unreadable_on.get(node)
        if unreadable is None:
            return "the node is cordoned"
        return f"{unreadable.kind} {unreadable.key} cannot be decoded"
