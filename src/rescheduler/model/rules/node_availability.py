"""Does this node take users' pods, or is it cordoned, being emptied, or the control plane's?"""

from collections.abc import Mapping

from rescheduler.labels import CONTROL_PLANE_ROLES, MAINTENANCE
from rescheduler.model.objects import Node


class NodeLabel(str):
    """A label that marks nodes, as `key=value`."""

    @property
    def key(self) -> str:
        """The label's key."""
        return self.partition("=")[0]

    @property
    def value(self) -> str:
        """The value that the label must have."""
        return self.partition("=")[2]

    def is_in(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels have it, with this value."""
        return labels.get(self.key) == self.value


DEFAULT_MAINTENANCE_LABEL = NodeLabel(f"{MAINTENANCE}=true")


def is_ready(node: Node) -> bool:
    """Whether the node's Ready condition is True."""
    return any(
        condition.type == "Ready" and condition.status == "True"
        for condition in node.status.conditions
    )


def is_control_plane(node: Node) -> bool:
    """Whether the node runs the cluster itself, tainted or not."""
    return any(role in node.metadata.labels for role in CONTROL_PLANE_ROLES)


def is_under_maintenance(node: Node, maintenance_label: NodeLabel) -> bool:
    """Whether somebody wants the node emptied."""
    return maintenance_label.is_in(node.metadata.labels)


def is_open_to_users(node: Node, maintenance_label: NodeLabel) -> bool:
    """Whether users' pods are meant for the node, Ready or not. Taints differ by pod."""
    return not (
        node.spec.unschedulable
        or is_under_maintenance(node, maintenance_label)
        or is_control_plane(node)
    )
