"""Whether anything but pods has changed in a way that matters for placing them."""

from typing import Any

from rescheduler.model import kinds
from rescheduler.model.cluster import ClusterTables

_LOOKED_INTO = (kinds.NODE, kinds.NAMESPACE)
_STORAGE = (
    kinds.VOLUME,
    kinds.CLAIM,
    kinds.STORAGE_CLASS,
    kinds.CSI_NODE,
    kinds.CSI_DRIVER,
)


class Surroundings:
    """Nodes, namespaces and volumes as they were when last looked at.

    Nodes report in every few seconds, so it takes more than a new version of one. Of volumes any
    change counts: they are many, and change seldom.
    """

    def __init__(self, tables: ClusterTables) -> None:
        self._tables = tables
        self._changes = self._count_changes()
        self._seen = self._look()

    def have_changed(self) -> bool:
        """Whether they are different from the last time this was asked."""
        changes = self._count_changes()
        if changes == self._changes:
            return False
        of_storage = slice(len(_LOOKED_INTO), None)
        is_other_storage = changes[of_storage] != self._changes[of_storage]
        self._changes = changes
        before, self._seen = self._seen, self._look()
        return is_other_storage or before != self._seen

    def _count_changes(self) -> list[int]:
        return [self._tables.of(kind).changes for kind in (*_LOOKED_INTO, *_STORAGE)]

    def _look(self) -> list[Any]:
        nodes = self._tables.nodes.by_key()
        namespaces = self._tables.of(kinds.NAMESPACE).by_key()
        return [
            (
                name,
                node.metadata.labels,
                node.spec,
                node.status.allocatable,
                node.status.declared_features,
            )
            for name, node in nodes.items()
        ] + [(name, namespace.metadata.labels) for name, namespace in namespaces.items()]
