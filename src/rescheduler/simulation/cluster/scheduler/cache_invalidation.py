"""Whether objects other than pods have changed in a way that matters for scheduling."""

from enum import Enum
from typing import Any

from rescheduler.model import kinds
from rescheduler.model.tables.cluster_tables import ClusterTables

_COMPARED = (kinds.NODE, kinds.NAMESPACE)
_STORAGE = (
    kinds.VOLUME,
    kinds.CLAIM,
    kinds.STORAGE_CLASS,
    kinds.CSI_NODE,
    kinds.CSI_DRIVER,
)


class Invalidated(Enum):
    """What of the cache is out of date."""

    NOTHING = 0
    TAINTS = 1
    """Which nodes are cordoned or tainted."""
    EVERYTHING = 2


class CacheInvalidation:
    """Compares nodes, namespaces and volumes with how they were at the last call.

    Nodes get a new version with every heartbeat, so their fields are compared. Of volumes, which
    are many and change rarely, any change counts.
    """

    def __init__(self, tables: ClusterTables) -> None:
        self._tables = tables
        self._changes = self._count_changes()
        self._taints, self._others = self._read()

    def since_last_call(self) -> Invalidated:
        """What has changed since the last call."""
        changes, before = self._count_changes(), self._changes
        if changes == before:
            return Invalidated.NOTHING
        self._changes = changes
        of_storage = slice(len(_COMPARED), None)
        taints, others = self._read()
        others_differ = changes[of_storage] != before[of_storage] or others != self._others
        taints_differ = taints != self._taints
        self._taints, self._others = taints, others
        if others_differ:
            return Invalidated.EVERYTHING
        return Invalidated.TAINTS if taints_differ else Invalidated.NOTHING

    def _count_changes(self) -> list[int]:
        return [self._tables.of(kind).changes for kind in (*_COMPARED, *_STORAGE)]

    def _read(self) -> tuple[list[Any], list[Any]]:
        """The specs of nodes, and everything else that scheduling depends on."""
        nodes = self._tables.nodes.by_key()
        namespaces = self._tables.of(kinds.NAMESPACE).by_key()
        others: list[Any] = [
            (name, node.metadata.labels, node.status.allocatable, node.status.declared_features)
            for name, node in nodes.items()
        ]
        others += [(name, namespace.metadata.labels) for name, namespace in namespaces.items()]
        return [node.spec for node in nodes.values()], others
