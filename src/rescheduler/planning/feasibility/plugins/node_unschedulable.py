"""NodeUnschedulable: a cordoned node takes no pods but those that tolerate being cordoned."""

from rescheduler.model.snapshot import Bools
from rescheduler.planning.feasibility.filter_plugin import ClusterView, tolerates

_CORDONED = "node.kubernetes.io/unschedulable"


class NodeUnschedulable:
    """Refuses cordoned nodes."""

    name = "NodeUnschedulable"

    def __init__(self, view: ClusterView) -> None:
        self._view = view

    def refused(self, template: int) -> Bools | None:
        if not self._view.snapshot.nodes.unschedulable.any():
            return None
        tolerations = self._view.snapshot.templates[template].tolerations
        if any(tolerates(each, _CORDONED, "", "NoSchedule") for each in tolerations):
            return None
        return self._view.snapshot.nodes.unschedulable

    def reason(self, template: int, node: int) -> str:
        return "the node is cordoned"
