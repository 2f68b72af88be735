"""NodeUnschedulable: a cordoned node takes no pods but those that tolerate being cordoned."""

from rescheduler.labels import UNSCHEDULABLE_TAINT
from rescheduler.model.snapshot import Bools
from rescheduler.planning.feasibility.filter_plugin import SharedLister, tolerates


class NodeUnschedulable:
    """Refuses cordoned nodes."""

    name = "NodeUnschedulable"

    def __init__(self, lister: SharedLister) -> None:
        self._lister = lister

    def refused(self, template: int) -> Bools | None:
        if not self._lister.snapshot.nodes.unschedulable.any():
            return None
        tolerations = self._lister.snapshot.templates[template].tolerations
        if any(
            tolerates(toleration, UNSCHEDULABLE_TAINT, "", "NoSchedule")
            for toleration in tolerations
        ):
            return None
        return self._lister.snapshot.nodes.unschedulable

    def reason(self, template: int, node: int) -> str:
        return "the node is cordoned"
