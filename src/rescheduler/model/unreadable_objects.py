# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""Objects that the server has and we cannot decode, and how planning goes on without them.

Whatever such an object may say, no plan is worse for it: what it could forbid is not done. The
kinds without a consequence here are those that nothing can do without.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

from rescheduler.model import kinds
from rescheduler.model.kinds import Kind
from rescheduler.model.objects import Part


class Consequence(Enum):
    """What follows for plans."""

    LEFT_OUT = "it is left out"
    NODE_TAKES_NO_PODS = "its node takes no pods"
    PODS_STAY = "the pods of its namespace stay where they are"


CONSEQUENCES: Mapping[Kind[Any], Consequence] = {
    # Nothing is moved to a node that is not there, and nothing from it.
    kinds.NODE: Consequence.LEFT_OUT,
    # Nobody knows how much room it takes, nor which pods it keeps away.
    kinds.POD: Consequence.NODE_TAKES_NO_PODS,
    # Nobody knows how many more volumes the node can hold.
    kinds.CSI_NODE: Consequence.NODE_TAKES_NO_PODS,
    # It may protect any pod of its namespace, or own it and say how it may be replaced.
    kinds.BUDGET: Consequence.PODS_STAY,
    kinds.REPLICA_SET: Consequence.PODS_STAY,
    kinds.REPLICATION_CONTROLLER: Consequence.PODS_STAY,
    kinds.DEPLOYMENT: Consequence.PODS_STAY,
    kinds.STATEFUL_SET: Consequence.PODS_STAY,
    kinds.JOB: Consequence.PODS_STAY,
    kinds.NAMESPACE: Consequence.PODS_STAY,
    # No node is feasible for a pod with a claim of which a part is missing.
    kinds.VOLUME: Consequence.LEFT_OUT,
    kinds.CLAIM: Consequence.LEFT_OUT,
    kinds.STORAGE_CLASS: Consequence.LEFT_OUT,
    kinds.CSI_DRIVER: Consequence.LEFT_OUT,
    # Plans do not look at these.
    kinds.DAEMON_SET: Consequence.LEFT_OUT,
    kinds.PRIORITY_CLASS: Consequence.LEFT_OUT,
}


_VOLUMES_STAY = "pods with persistent volumes stay where they are"
_LIMITS_UNKNOWN = "how many volumes a node can hold is left to the scheduler"
_NOTHING = "plans are the same without them"

MISSING_KINDS: Mapping[Kind[Any], str] = {
    kinds.VOLUME: _VOLUMES_STAY,
    kinds.CLAIM: _VOLUMES_STAY,
    kinds.STORAGE_CLASS: "pods with volumes that are not bound yet stay where they are",
    kinds.CSI_NODE: _LIMITS_UNKNOWN,
    kinds.CSI_DRIVER: _LIMITS_UNKNOWN,
    kinds.DAEMON_SET: _NOTHING,
    kinds.PRIORITY_CLASS: _NOTHING,
}
"""The kinds that we can do without if we may not list them, and what follows from it."""


class UnreadableObject(Part):
    """An object of which no more than this is known."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    node: str | None = ""
    """The node that a pod is bound to; None if that cannot be read either."""
    problem: str = ""
    """The field, its value, and what was expected."""

    @property
    def key(self) -> str:
        """`namespace/name`, or the name alone for what has no namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def __str__(self) -> str:
        return f"{self.kind} {self.key}: {self.problem}"

    @property
    def consequence(self) -> Consequence | None:
        """What follows for plans; None if nothing can go on."""
        if self.kind == kinds.POD.name and not self.node:
            return None if self.node is None else Consequence.LEFT_OUT
        return CONSEQUENCES.get(kinds.KIND_BY_NAME[self.kind])

    @property
    def closed_node(self) -> str:
        """The node that takes no pods because of it, or an empty string."""
        if self.consequence is not Consequence.NODE_TAKES_NO_PODS:
            return ""
        return (self.node or "") if self.kind == kinds.POD.name else self.name

    @property
    def held_namespace(self) -> str:
        """The namespace whose pods stay because of it, or an empty string."""
        if self.consequence is not Consequence.PODS_STAY:
            return ""
        return self.name if self.kind == kinds.NAMESPACE.name else self.namespace
