"""Cordon nodes that are labelled for maintenance, and uncordon those again that we cordoned.

Otherwise the scheduler would fill a node as fast as it is emptied. A node that was cordoned
before it was labelled is somebody else's, and stays as it is.
"""

from typing import Any

from rescheduler.labels import CORDONED_BY
from rescheduler.model.objects import Node
from rescheduler.model.rules.node_availability import NodeLabel, is_under_maintenance


def cordon_patch(node: Node, label: NodeLabel, *, may_cordon: bool) -> dict[str, Any] | None:
    """What to change on a node, if it is still as it was seen; None if all is well."""
    is_ours = bool(node.metadata.annotations.cordoned_for_maintenance)
    if is_under_maintenance(node, label) and may_cordon and not node.spec.unschedulable:
        return patch(node, {CORDONED_BY: "true"}, unschedulable=True)
    if is_ours and not is_under_maintenance(node, label):
        return patch(node, {CORDONED_BY: None}, unschedulable=None)
    return None


def patch(
    node: Node, annotations: dict[str, str | None], unschedulable: bool | None
) -> dict[str, Any]:
    """A merge patch for one version of a node."""
    version = {"resourceVersion": node.metadata.resource_version, "uid": node.metadata.uid}
    return {
        "metadata": {"annotations": annotations, **version},
        "spec": {"unschedulable": unschedulable},
    }
