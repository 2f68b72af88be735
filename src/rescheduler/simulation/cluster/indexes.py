"""Where to find objects without looking at all of them.

What is found is in the order in which it came to be there: sets of texts would be in another order
in every process, and no two runs alike.
"""

from collections.abc import Callable, Iterable
from typing import Any

from rescheduler.model.objects import LabelSelector
from rescheduler.simulation.cluster.json_objects import Json, controller_of
from rescheduler.simulation.cluster.object_store import ObjectChange, ObjectStore
from rescheduler.simulation.cluster.pod_counts import PodCounts


class Index:
    """Keys of objects by some word about them.

    `part` is the part of an object that the words depend on: as long as it is the same, nothing
    has to be done.
    """

    def __init__(self, part: Callable[[Json], Any], words: Callable[[Json], Iterable[str]]) -> None:
        self._part = part
        self._words = words
        self._keys: dict[str, dict[str, None]] = {}

    def keys(self, word: str) -> list[str]:
        """The objects with this word."""
        return list(self._keys.get(word, ()))

    def take(self, change: ObjectChange) -> None:
        """Follow a change."""
        old, new = change.old, change.new
        if old is not None and new is not None:
            before, after = self._part(old), self._part(new)
            if before is after or before == after:
                return
        for word in self._words(old) if old is not None else ():
            keys = self._keys[word]
            del keys[change.key]
            if not keys:
                del self._keys[word]
        for word in self._words(new) if new is not None else ():
            self._keys.setdefault(word, {})[change.key] = None


def controller_word(value: Json) -> tuple[str, ...]:
    """The uid of an object's controller."""
    owner = controller_of(value)
    return () if owner is None else (owner["uid"],)


def orphan_word(value: Json) -> tuple[str, ...]:
    """The namespace of an object that has no controller."""
    return () if controller_of(value) is not None else (value["metadata"].get("namespace", ""),)


def owner_words(value: Json) -> list[str]:
    """The uids of all owners of an object."""
    return [owner["uid"] for owner in value["metadata"].get("ownerReferences") or ()]


def node_word(value: Json) -> tuple[str, ...]:
    """The node that a pod is bound to; nothing for one that waits."""
    return (value["spec"].get("nodeName") or "",)


def namespace_word(value: Json) -> tuple[str, ...]:
    """The namespace of an object."""
    return (value["metadata"].get("namespace", ""),)


def owners_of(value: Json) -> Any:
    """The part that ownership depends on."""
    return value["metadata"].get("ownerReferences")


OWNING = ("ReplicaSet", "Job")
"""Kinds besides pods whose objects have owners that take them along."""
IN_NAMESPACES = ("PodDisruptionBudget", "ReplicaSet", "ReplicationController", "Service")


class Indexes:
    """The indexes of one store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.pods_on = Index(lambda pod: pod["spec"].get("nodeName"), node_word)
        self.pods_of = Index(owners_of, controller_word)
        self.pod_counts = PodCounts()
        self.orphans_in = Index(owners_of, orphan_word)
        self.owned = {kind: Index(owners_of, owner_words) for kind in OWNING}
        self.inside = {kind: Index(lambda value: None, namespace_word) for kind in IN_NAMESPACES}
        store.listen("Pod", self.pod_counts.take)
        for index in (self.pods_on, self.pods_of, self.orphans_in):
            store.listen("Pod", index.take)
        for kind, index in (*self.owned.items(), *self.inside.items()):
            store.listen(kind, index.take)

    def pods(self, keys: Iterable[str]) -> list[Json]:
        """The pods with these keys."""
        pods = self._store.all("Pod")
        return [pods[key] for key in keys]

    def pods_owned_by(self, uid: str) -> list[Json]:
        """The pods that a controller has."""
        return self.pods(self.pods_of.keys(uid))

    def objects_in(self, kind: str, namespace: str) -> list[Json]:
        """The objects of a kind in a namespace."""
        objects = self._store.all(kind)
        return [objects[key] for key in self.inside[kind].keys(namespace)]

    def selected_pods(self, namespace: str, selector: LabelSelector) -> list[Json]:
        """The pods of a namespace that a selector selects."""
        groups = self.pod_counts.selected(namespace, selector)
        return self.pods(key for group in groups for key in group.pods)
