"""Indexes of the objects in a store.

Keys are kept in insertion order: sets of text have another order in every process, and runs could
not be repeated.
"""

from collections.abc import Callable, Iterable
from typing import Any

from rescheduler.model.objects import LabelSelector
from rescheduler.simulation.cluster.json_objects import Json, controller_of
from rescheduler.simulation.cluster.object_store import ObjectChange, ObjectStore
from rescheduler.simulation.cluster.pod_counts import PodCounts


class Index:
    """Keys of objects by values that are derived from them.

    `part` is the part of an object that the values depend on: while it is the same, a change of
    the object costs nothing.
    """

    def __init__(
        self, part: Callable[[Json], Any], values: Callable[[Json], Iterable[str]]
    ) -> None:
        self._part = part
        self._values = values
        self._keys: dict[str, dict[str, None]] = {}

    def keys(self, value: str) -> list[str]:
        """The keys of the objects with this value."""
        return list(self._keys.get(value, ()))

    def update(self, change: ObjectChange) -> None:
        """An object was created, changed or deleted."""
        old, new = change.old, change.new
        if old is not None and new is not None:
            before, after = self._part(old), self._part(new)
            if before is after or before == after:
                return
        for value in self._values(old) if old is not None else ():
            keys = self._keys[value]
            del keys[change.key]
            if not keys:
                del self._keys[value]
        for value in self._values(new) if new is not None else ():
            self._keys.setdefault(value, {})[change.key] = None


def controller_uid(value: Json) -> tuple[str, ...]:
    """The uid of an object's controller."""
    owner = controller_of(value)
    return () if owner is None else (owner["uid"],)


def orphan_namespace(value: Json) -> tuple[str, ...]:
    """The namespace of an object that has no controller."""
    return () if controller_of(value) is not None else (value["metadata"].get("namespace", ""),)


def owner_uids(value: Json) -> list[str]:
    """The uids of all owners of an object."""
    return [owner["uid"] for owner in value["metadata"].get("ownerReferences") or ()]


def node_name(value: Json) -> tuple[str, ...]:
    """The node that a pod is bound to; empty for a pending pod."""
    return (value["spec"].get("nodeName") or "",)


def namespace_of(value: Json) -> tuple[str, ...]:
    """The namespace of an object."""
    return (value["metadata"].get("namespace", ""),)


def owners_of(value: Json) -> Any:
    """The part of an object that its owners depend on."""
    return value["metadata"].get("ownerReferences")


OWNED_KINDS = ("ReplicaSet", "Job")
"""Kinds besides pods whose objects are deleted with their owners."""
INDEXED_BY_NAMESPACE = ("PodDisruptionBudget", "ReplicaSet", "ReplicationController", "Service")


class Indexes:
    """The indexes of one store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.pods_on = Index(lambda pod: pod["spec"].get("nodeName"), node_name)
        self.pods_of = Index(owners_of, controller_uid)
        self.pod_counts = PodCounts()
        self.orphans_in = Index(owners_of, orphan_namespace)
        self.owned = {kind: Index(owners_of, owner_uids) for kind in OWNED_KINDS}
        self.by_namespace = {
            kind: Index(lambda value: None, namespace_of) for kind in INDEXED_BY_NAMESPACE
        }
        store.listen("Pod", self.pod_counts.update)
        for index in (self.pods_on, self.pods_of, self.orphans_in):
            store.listen("Pod", index.update)
        for kind, index in (*self.owned.items(), *self.by_namespace.items()):
            store.listen(kind, index.update)

    def pods(self, keys: Iterable[str]) -> list[Json]:
        """The pods with these keys."""
        pods = self._store.all("Pod")
        return [pods[key] for key in keys]

    def pods_owned_by(self, uid: str) -> list[Json]:
        """The pods that a controller owns."""
        return self.pods(self.pods_of.keys(uid))

    def objects_in(self, kind: str, namespace: str) -> list[Json]:
        """The objects of a kind in a namespace."""
        objects = self._store.all(kind)
        return [objects[key] for key in self.by_namespace[kind].keys(namespace)]

    def selected_pods(self, namespace: str, selector: LabelSelector) -> list[Json]:
        """The pods of a namespace that a selector selects."""
        groups = self.pod_counts.selected(namespace, selector)
        return self.pods(key for group in groups for key in group.pods)
