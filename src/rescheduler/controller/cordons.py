"""Cordons nodes that are labelled for maintenance, and uncordons those that we have cordoned.

Otherwise the scheduler would fill a node as fast as it is emptied. A node that was cordoned before
it got the label stays cordoned.
"""

from typing import Any

from rescheduler.labels import CORDONED_BY
from rescheduler.model.objects import Node
from rescheduler.model.rules.node_availability import NodeLabel, is_under_maintenance


def cordon_patch(node: Node, label: NodeLabel, *, may_cordon: bool) -> dict[str, Any] | None:
    """The patch that cordons or uncordons a node, if nobody has changed it since; None if none."""
    is_cordoned_by_us = bool(node.metadata.annotations.cordoned_for_maintenance)
    if is_under_maintenance(node, label) and may_cordon and not node.spec.unschedulable:
        return unschedulable_patch(node, {CORDONED_BY: "true"}, unschedulable=True)
    if is_cordoned_by_us and not is_under_maintenance(node, label):
        return unschedulable_patch(node, {CORDONED_BY: None}, unschedulable=None)
    return None


def unschedulable_patch(
    node: Node, annotations: dict[str, str | None], unschedulable: bool | None
) -> dict[str, Any]:
    """A merge patch for one version of a node; None removes a field."""
    version = {"resourceVersion": node.metadata.resource_version, "uid": node.metadata.uid}
    return {
        "metadata": {"annotations": annotations, **version},
        "spec": {"unschedulable": unschedulable},
    }
