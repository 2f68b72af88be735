"""Whether anything but pods has changed in a way that matters for placing them."""

from enum import Enum
from typing import Any

from rescheduler.model import kinds
from rescheduler.model.tables.cluster_tables import ClusterTables

_LOOKED_INTO = (kinds.NODE, kinds.NAMESPACE)
_STORAGE = (
    kinds.VOLUME,
    kinds.CLAIM,
    kinds.STORAGE_CLASS,
    kinds.CSI_NODE,
    kinds.CSI_DRIVER,
)


class Invalidated(Enum):
    """What has changed."""

    NOTHING = 0
    TAINTS = 1
    """Which nodes are cordoned, or what taints they have."""
    MORE = 2


class CacheInvalidation:
    """Nodes, namespaces and volumes as they were when last looked at.

    Nodes report in every few seconds, so it takes more than a new version of one. Of volumes any
    change counts: they are many, and change seldom.
    """

    def __init__(self, tables: ClusterTables) -> None:
        self._tables = tables
        self._changes = self._count_changes()
        self._taints, self._seen = self._look()

    def news(self) -> Invalidated:
        """What is different from the last time this was asked."""
        changes, before = self._count_changes(), self._changes
        if changes == before:
            return Invalidated.NOTHING
        self._changes = changes
        of_storage = slice(len(_LOOKED_INTO), None)
        taints, seen = self._look()
        is_more = changes[of_storage] != before[of_storage] or seen != self._seen
        is_other_taints = taints != self._taints
        self._taints, self._seen = taints, seen
        if is_more:
            return Invalidated.MORE
        return Invalidated.TAINTS if is_other_taints else Invalidated.NOTHING

    def _count_changes(self) -> list[int]:
        return [self._tables.of(kind).changes for kind in (*_LOOKED_INTO, *_STORAGE)]

    def _look(self) -> tuple[list[Any], list[Any]]:
        """What nodes say about whom they take, and all else that matters."""
        nodes = self._tables.nodes.by_key()
        namespaces = self._tables.of(kinds.NAMESPACE).by_key()
        more: list[Any] = [
            (name, node.metadata.labels, node.status.allocatable, node.status.declared_features)
            for name, node in nodes.items()
        ]
        more += [(name, each.metadata.labels) for name, each in namespaces.items()]
        return [node.spec for node in nodes.values()], more
