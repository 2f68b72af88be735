"""What all tables share: rows by key, versions, and what changed.

A table takes objects in any order, keeps the newest version of each, and returns what changed for
those who watch it. It is the same whether a file or an API server fills it.
"""

from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterator, Sequence
from typing import Any, Generic, Literal, Protocol, TypeVar

import msgspec

from rescheduler.model.kinds import Kind
from rescheduler.model.objects import Identity
from rescheduler.model.uids import Uids
from rescheduler.model.unreadable_objects import UnreadableObject

T = TypeVar("T")

_LONGEST_VERSION = 18  # digits, beyond which a number may not fit 64 bits


class TableChange(msgspec.Struct, frozen=True, gc=False):
    """What happened to one object, from the point of view of someone who watches the table."""

    type: Literal["Added", "Modified", "Deleted"]
    key: str
    uid: str


class Table(Protocol[T]):
    """What a list-watch fills."""

    kind: Kind[T]

    def put(self, obj: T) -> Sequence[TableChange]:
        """Take in a new or changed object; nothing happens if it is not news."""

    def remove(self, obj: T) -> Sequence[TableChange]:
        """Forget an object, unless another one of the same name has taken its place."""

    def begin_replace(self) -> None:
        """A complete list follows: every object that is still there will be put."""

    def finish_replace(self) -> Sequence[TableChange]:
        """The list is complete: forget what was not in it."""

    def put_unreadable(self, obj: UnreadableObject) -> Sequence[TableChange]:
        """Take in that an object is there, but cannot be read; forget what it was before."""

    def remove_unreadable(self, obj: UnreadableObject) -> Sequence[TableChange]:
        """Forget an object whose last state cannot be read."""


class _Rows:
    """Which objects there are: uid and version by key, and what a relist has yet to confirm."""

    def __init__(self) -> None:
        self.row_of: dict[str, int] = {}
        self.uids = Uids()
        self.versions = array("q")
        self._free: list[int] = []
        self._unconfirmed: set[str] | None = None

    def is_news(self, key: str, uid: str, version: int) -> bool:
        """Whether an object of this version says anything that is not known already."""
        if self._unconfirmed is not None:
            self._unconfirmed.discard(key)
        row = self.row_of.get(key)
        if row is None or version == 0:
            return True
        if self._unconfirmed is not None:
            # A list is the truth even where it is older: the server may have been restored.
            return version != self.versions[row] or not self.uids.is_at(row, uid)
        return version > self.versions[row]

    def add(self, key: str, uid: str, version: int) -> int:
        """A row for a new object."""
        if self._free:
            row = self._free.pop()
            self.uids[row], self.versions[row] = uid, version
        else:
            row = len(self.uids)
            self.uids.append(uid)
            self.versions.append(version)
        self.row_of[key] = row
        return row

    def drop(self, key: str) -> int:
        """The row that is no longer in use."""
        row = self.row_of.pop(key)
        self._free.append(row)
        if self._unconfirmed is not None:
            self._unconfirmed.discard(key)
        return row

    def begin_replace(self) -> None:
        self._unconfirmed = set(self.row_of)

    def finish_replace(self) -> set[str]:
        assert self._unconfirmed is not None, "finish_replace without begin_replace"
        missing, self._unconfirmed = self._unconfirmed, None
        return missing


class TableBase(ABC, Generic[T]):
    """The bookkeeping that all tables share; a subclass says how a row is stored."""

    kind: Kind[T]

    def __init__(self) -> None:
        self._identity = _Rows()
        self.changes = 0
        """How often anything was put or removed: while it stays the same, so do the objects."""
        self.unreadable: dict[str, UnreadableObject] = {}
        """The objects that are there and cannot be read, by key."""
        self._listed_as_unreadable: set[str] | None = None

    def put(self, obj: T) -> Sequence[TableChange]:
        metadata: Identity = obj.metadata  # type: ignore[attr-defined]
        key, uid = metadata.key, metadata.uid
        identity = self._identity
        version = version_number(metadata.resource_version)
        if not identity.is_news(key, uid, version):
            return ()
        # Before anything is changed: an object that cannot be read leaves the table as it was.
        prepared = self._prepare(obj)
        self.changes += 1
        if self.unreadable:
            self.unreadable.pop(key, None)
        row = identity.row_of.get(key)
        if row is None:
            self._store(identity.add(key, uid, version), obj, prepared)
            return (TableChange("Added", key, uid),)
        if identity.uids.is_at(row, uid):
            identity.versions[row] = version
            self._store(row, obj, prepared)
            return (TableChange("Modified", key, uid),)
        # In one step, as what was prepared is true of the table as it is now: it may not be once
        # the old object is gone.
        deleted = TableChange("Deleted", key, identity.uids[row])
        identity.uids[row], identity.versions[row] = uid, version
        self._store(row, obj, prepared)
        return (deleted, TableChange("Added", key, uid))

    def remove(self, obj: T) -> Sequence[TableChange]:
        metadata: Identity = obj.metadata  # type: ignore[attr-defined]
        self._drop_unreadable(metadata.key, metadata.uid)
        return self._drop_if_same(metadata.key, metadata.uid)

    def put_unreadable(self, obj: UnreadableObject) -> Sequence[TableChange]:
        self.changes += 1
        self.unreadable[obj.key] = obj
        if self._listed_as_unreadable is not None:
            self._listed_as_unreadable.add(obj.key)
        # Whatever it was before, it may be that no longer.
        return (self._drop(obj.key),) if obj.key in self else ()

    def remove_unreadable(self, obj: UnreadableObject) -> Sequence[TableChange]:
        self._drop_unreadable(obj.key, obj.uid)
        return self._drop_if_same(obj.key, obj.uid)

    def begin_replace(self) -> None:
        self._identity.begin_replace()
        self._listed_as_unreadable = set()

    def finish_replace(self) -> Sequence[TableChange]:
        listed, self._listed_as_unreadable = self._listed_as_unreadable or set(), None
        for obj in [obj for key, obj in self.unreadable.items() if key not in listed]:
            self._drop_unreadable(obj.key, obj.uid)
        return [self._drop(key) for key in sorted(self._identity.finish_replace())]

    def __len__(self) -> int:
        return len(self._identity.row_of)

    def __contains__(self, key: str) -> bool:
        return key in self._identity.row_of

    def versions(self) -> Iterator[tuple[str, str, int]]:
        """Key, uid and version of every object, in no particular order."""
        identity = self._identity
        for key, row in identity.row_of.items():
            yield key, identity.uids[row], identity.versions[row]

    def _drop_unreadable(self, key: str, uid: str) -> None:
        if key in self.unreadable and self.unreadable[key].uid == uid:
            self.changes += 1
            del self.unreadable[key]

    def _drop_if_same(self, key: str, uid: str) -> Sequence[TableChange]:
        row = self._identity.row_of.get(key)
        if row is None or not self._identity.uids.is_at(row, uid):
            return ()
        return (self._drop(key),)

    def _drop(self, key: str) -> TableChange:
        row = self._identity.drop(key)
        self.changes += 1
        self._discard(row)
        return TableChange("Deleted", key, self._identity.uids[row])

    def _prepare(self, obj: T) -> Any:
        """What `_store` needs of the object that may fail to be computed."""
        return None

    @abstractmethod
    def _store(self, row: int, obj: T, prepared: Any) -> None:
        """Keep an object in a row that is new, or that holds an older version of the object or
        another one of the same key, which is to be let go."""

    @abstractmethod
    def _discard(self, row: int) -> None:
        """Free what the row holds."""


def version_number(resource_version: str) -> int:
    """Versions are numbers that grow; a file may have none, or nonsense, which counts as 0."""
    if resource_version.isdecimal() and len(resource_version) <= _LONGEST_VERSION:
        return int(resource_version)
    return 0
