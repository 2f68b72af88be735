"""Objects as JSON values, their versions, and what has changed lately.

A value is never changed once it is in the store: a new version is a new value that shares what
has stayed the same with the old one. So twenty thousand pods of a few hundred templates take
little room, a list is a moment's worth of references, and nobody copies anything.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

from rescheduler.simulation.cluster.json_objects import Json

T = TypeVar("T")

Subscriber = Callable[[Json | None, Json | None], None]

FIRST_VERSION = 1000
# Enough for a watch that has been away for a while; one that was away for longer lists anew.
REMEMBERED_CHANGES = 2000


class ObjectChange:
    """What happened to one object. As a struct of some type, it is made once for all who ask."""

    __slots__ = ("_structs", "key", "kind", "new", "old", "version")

    def __init__(
        self, kind: str, key: str, version: int, old: Json | None, new: Json | None
    ) -> None:
        self.kind = kind
        self.key = key
        self.version = version
        self.old = old
        self.new = new
        self._structs: dict[Any, Any] = {}

    def struct(self, type: type[T]) -> T:
        """The object after the change; of one that is gone, the last there was of it.

        That one has the version of the change, as the server tells it.
        """
        made: T | None = self._structs.get(type)
        if made is None:
            value = self.new if self.new is not None else self.last()
            made = self._structs[type] = msgspec.convert(value, type)
        return made

    def last(self) -> Json:
        """The object before the change, at the version of the change."""
        assert self.old is not None
        metadata = {**self.old["metadata"], "resourceVersion": str(self.version)}
        return {**self.old, "metadata": metadata}


Listener = Callable[[ObjectChange], None]


class ObjectsOfKind:
    """All objects of one kind."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.objects: dict[str, Json] = {}
        self.history: deque[ObjectChange] = deque()
        self.forgotten = FIRST_VERSION
        self.listeners: list[Listener] = []


class ObjectStore:
    """All objects by kind and key, which is `namespace/name` or the name alone."""

    def __init__(self) -> None:
        self.version = FIRST_VERSION
        self._kinds: dict[str, ObjectsOfKind] = {}

    def of_kind(self, kind: str) -> ObjectsOfKind:
        """The objects of a kind."""
        found = self._kinds.get(kind)
        if found is None:
            found = self._kinds[kind] = ObjectsOfKind(kind)
        return found

    def get(self, kind: str, key: str) -> Json | None:
        """One object, if it is there."""
        return self.of_kind(kind).objects.get(key)

    def all(self, kind: str) -> dict[str, Json]:
        """The objects of a kind by key, in no particular order. Not to be changed."""
        return self.of_kind(kind).objects

    def put(self, kind: str, key: str, value: Json) -> Json:
        """Keep an object under the next version; returns it with that version."""
        self.version += 1
        metadata = {**value["metadata"], "resourceVersion": str(self.version)}
        kept = {**value, "metadata": metadata}
        objects = self.of_kind(kind)
        old = objects.objects.get(key)
        objects.objects[key] = kept
        self._notify(objects, ObjectChange(kind, key, self.version, old, kept))
        return kept

    def remove(self, kind: str, key: str) -> Json:
        """Forget an object; returns the last there was of it."""
        self.version += 1
        objects = self.of_kind(kind)
        old = objects.objects.pop(key)
        change = ObjectChange(kind, key, self.version, old, None)
        self._notify(objects, change)
        return change.last()

    def listen(self, kind: str, listener: Listener) -> None:
        """Be told of every change of a kind, in the moment it happens."""
        self.of_kind(kind).listeners.append(listener)

    def stop_listening(self, kind: str, listener: Listener) -> None:
        """No longer be told."""
        self.of_kind(kind).listeners.remove(listener)

    def since(self, kind: str, version: int) -> Iterator[ObjectChange] | None:
        """The changes of a kind after a version; None if that is too long ago."""
        objects = self.of_kind(kind)
        if version < objects.forgotten:
            return None
        return (change for change in objects.history if change.version > version)

    def forget_history(self) -> None:
        """Remember no change that has been: whoever was away has to list anew."""
        for objects in self._kinds.values():
            objects.history.clear()
            objects.forgotten = self.version

    def _notify(self, objects: ObjectsOfKind, change: ObjectChange) -> None:
        objects.history.append(change)
        if len(objects.history) > REMEMBERED_CHANGES:
            objects.forgotten = objects.history.popleft().version
        for listener in tuple(objects.listeners):
            listener(change)
