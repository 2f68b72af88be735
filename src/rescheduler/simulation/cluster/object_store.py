"""Objects as JSON values, their resource versions, and the recent changes.

A value never changes once it is in the store: a new version is a new value that shares unchanged
parts with the old one. So twenty thousand pods of a few hundred templates take little memory, and
lists need no copies.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

from rescheduler.simulation.cluster.json_objects import Json

T = TypeVar("T")

Subscriber = Callable[[Json | None, Json | None], None]

FIRST_VERSION = 1000
# Per kind. A watch that resumes from before these has to list again.
HISTORY_LENGTH = 2000


class ObjectChange:
    """A change of one object. It is decoded once per struct type, for all listeners."""

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
        """The object after the change; for a deleted one, its last state."""
        decoded: T | None = self._structs.get(type)
        if decoded is None:
            value = self.new if self.new is not None else self.last()
            decoded = self._structs[type] = msgspec.convert(value, type)
        return decoded

    def last(self) -> Json:
        """The object before the change, with the resource version of the change."""
        assert self.old is not None
        metadata = {**self.old["metadata"], "resourceVersion": str(self.version)}
        return {**self.old, "metadata": metadata}


Listener = Callable[[ObjectChange], None]


class ObjectsOfKind:
    """The objects of one kind, their recent changes, and who listens to them."""

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
        """An object, or None."""
        return self.of_kind(kind).objects.get(key)

    def all(self, kind: str) -> dict[str, Json]:
        """The objects of a kind by key, oldest first. Do not modify."""
        return self.of_kind(kind).objects

    def put(self, kind: str, key: str, value: Json) -> Json:
        """Store an object with the next resource version; returns it with that."""
        self.version += 1
        metadata = {**value["metadata"], "resourceVersion": str(self.version)}
        stored = {**value, "metadata": metadata}
        objects = self.of_kind(kind)
        old = objects.objects.get(key)
        objects.objects[key] = stored
        self._notify(objects, ObjectChange(kind, key, self.version, old, stored))
        return stored

    def remove(self, kind: str, key: str) -> Json:
        """Remove an object; returns its last state."""
        self.version += 1
        objects = self.of_kind(kind)
        old = objects.objects.pop(key)
        change = ObjectChange(kind, key, self.version, old, None)
        self._notify(objects, change)
        return change.last()

    def listen(self, kind: str, listener: Listener) -> None:
        """Call a listener at every change of a kind, before the write returns."""
        self.of_kind(kind).listeners.append(listener)

    def stop_listening(self, kind: str, listener: Listener) -> None:
        """Undo `listen`."""
        self.of_kind(kind).listeners.remove(listener)

    def since(self, kind: str, version: int) -> Iterator[ObjectChange] | None:
        """The changes of a kind after a version; None if they are no longer known."""
        objects = self.of_kind(kind)
        if version < objects.forgotten:
            return None
        return (change for change in objects.history if change.version > version)

    def _notify(self, objects: ObjectsOfKind, change: ObjectChange) -> None:
        objects.history.append(change)
        if len(objects.history) > HISTORY_LENGTH:
            objects.forgotten = objects.history.popleft().version
        for listener in tuple(objects.listeners):
            listener(change)
