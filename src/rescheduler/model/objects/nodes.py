# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""Nodes."""

import msgspec

from rescheduler.model.objects.parts import Condition, ObjectMeta, Part, ResourceList


class Taint(Part):
    """Keeps pods away that do not tolerate it."""

    key: str
    value: str = ""
    effect: str = ""


class NodeSpec(Part):
    """What a person or a controller wants of the node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = msgspec.field(default="", name="providerID")


class NodeStatus(Part):
    """What the node has to give, and how it is."""

    allocatable: ResourceList = {}
    conditions: tuple[Condition, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(Part):
    """A machine that pods run on."""

    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
