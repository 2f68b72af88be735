"""Tables: the objects of one kind, as lists and watches bring them.

A table takes objects in any order, remembers the newest version of each, and tells what changed
for someone who looks at it. It is the same whether a file or an API server fills it.
"""

from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar

import msgspec
import numpy as np

from rescheduler.model.kinds import NODE, POD, Kind
from rescheduler.model.objects import Identity, Node, Pod
from rescheduler.model.resources import amounts_of, in_units
from rescheduler.model.snapshot import (
    FAILED,
    NO_NODE,
    PHASES,
    SUCCEEDED,
    UNKNOWN_NODE,
    Amounts,
    PodColumns,
)
from rescheduler.model.sums import NodeSums
from rescheduler.model.templates import PooledTemplate, TemplatePool
from rescheduler.model.uids import Uids

T = TypeVar("T")


class Change(msgspec.Struct, frozen=True, gc=False):
    """What happened to one object, from the point of view of someone who watches the table."""

    type: Literal["Added", "Modified", "Deleted"]
    key: str
    uid: str


class Table(Protocol[T]):
    """What a list-watch fills."""

    kind: Kind[T]

    def put(self, obj: T) -> Sequence[Change]:
        """Take in a new or changed object; nothing happens if it is not news."""

    def remove(self, obj: T) -> Sequence[Change]:
        """Forget an object, unless another one of the same name has taken its place."""

    def begin_replace(self) -> None:
        """A complete list follows: every object that is still there will be put."""

    def finish_replace(self) -> Sequence[Change]:
        """The list is complete: forget what was not in it."""


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
        return row

    def begin_replace(self) -> None:
        self._unconfirmed = set(self.row_of)

    def finish_replace(self) -> set[str]:
        assert self._unconfirmed is not None, "finish_replace without begin_replace"
        missing, self._unconfirmed = self._unconfirmed, None
        return missing


class _TableBase(ABC, Generic[T]):
    """The bookkeeping that all tables share; a subclass says how a row is stored."""

    kind: Kind[T]

    def __init__(self) -> None:
        self._identity = _Rows()
        self.changes = 0
        """How often anything was put or removed: while it stays the same, so do the objects."""

    def put(self, obj: T) -> Sequence[Change]:
        metadata: Identity = obj.metadata  # type: ignore[attr-defined]
        key, uid = metadata.key, metadata.uid
        identity = self._identity
        version = _version_number(metadata.resource_version)
        if not identity.is_news(key, uid, version):
            return ()
        # Before anything is changed: an object that cannot be read leaves the table as it was.
        prepared = self._prepare(obj)
        self.changes += 1
        row = identity.row_of.get(key)
        if row is None:
            self._store(identity.add(key, uid, version), obj, prepared)
            return (Change("Added", key, uid),)
        if identity.uids.is_at(row, uid):
            identity.versions[row] = version
            self._store(row, obj, prepared)
            return (Change("Modified", key, uid),)
        deleted = self._drop(key)
        self._store(identity.add(key, uid, version), obj, prepared)
        return (deleted, Change("Added", key, uid))

    def remove(self, obj: T) -> Sequence[Change]:
        metadata: Identity = obj.metadata  # type: ignore[attr-defined]
        row = self._identity.row_of.get(metadata.key)
        if row is None or not self._identity.uids.is_at(row, metadata.uid):
            return ()
        return (self._drop(metadata.key),)

    def begin_replace(self) -> None:
        self._identity.begin_replace()

    def finish_replace(self) -> Sequence[Change]:
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

    def _drop(self, key: str) -> Change:
        row = self._identity.drop(key)
        self.changes += 1
        self._discard(row)
        return Change("Deleted", key, self._identity.uids[row])

    def _prepare(self, obj: T) -> Any:
        """What `_store` needs of the object that may fail to be computed."""
        return None

    @abstractmethod
    def _store(self, row: int, obj: T, prepared: Any) -> None:
        """Keep an object in a row that is new or already holds an older version of it."""

    @abstractmethod
    def _discard(self, row: int) -> None:
        """Free what the row holds."""


class ObjectTable(_TableBase[T]):
    """Objects kept as they were decoded: for the kinds of which there are thousands at most."""

    def __init__(self, kind: Kind[T]) -> None:
        super().__init__()
        self.kind = kind
        self._objects: dict[int, T] = {}

    def get(self, key: str) -> T | None:
        """The object with this key, if there is one."""
        row = self._identity.row_of.get(key)
        return None if row is None else self._objects[row]

    def by_key(self) -> dict[str, T]:
        """All objects, ordered by key."""
        row_of = self._identity.row_of
        return {key: self._objects[row_of[key]] for key in sorted(row_of)}

    def _store(self, row: int, obj: T, prepared: Any) -> None:
        self._objects[row] = obj

    def _discard(self, row: int) -> None:
        del self._objects[row]


class NodeTable(ObjectTable[Node]):
    """Nodes, and what each has to give in the scheduler's units, computed when it changes.

    Whoever keeps something of their own for every node remembers `changes`, and later asks which
    rows have changed since. A row stays a node's as long as the node is there.
    """

    def __init__(self) -> None:
        super().__init__(NODE)
        self._allocatable: dict[int, dict[str, int]] = {}
        self._changed_at = array("q")

    @property
    def row_of(self) -> Mapping[str, int]:
        """The row of each node by name."""
        return self._identity.row_of

    def changed_since(self, changes: int) -> list[int]:
        """The rows that were filled or emptied after so many changes."""
        if changes == self.changes:
            return []
        rows: list[int] = np.flatnonzero(np.array(self._changed_at) > changes).tolist()
        return rows

    def at(self, row: int) -> tuple[Node, Mapping[str, int]] | None:
        """The node in a row, and what it has to give; None where there is no longer one."""
        node = self._objects.get(row)
        return None if node is None else (node, self._allocatable[row])

    def allocatable(self) -> list[dict[str, int]]:
        """What each node can give, in the order of `by_key`."""
        row_of = self._identity.row_of
        return [self._allocatable[row_of[key]] for key in sorted(row_of)]

    def _prepare(self, obj: Node) -> dict[str, int]:
        return in_units(amounts_of(obj.status.allocatable))

    def _store(self, row: int, obj: Node, prepared: dict[str, int]) -> None:
        self._allocatable[row] = prepared
        super()._store(row, obj, prepared)
        self._note_change(row)

    def _discard(self, row: int) -> None:
        del self._allocatable[row]
        super()._discard(row)
        self._note_change(row)

    def _note_change(self, row: int) -> None:
        if row == len(self._changed_at):
            self._changed_at.append(self.changes)
        else:
            self._changed_at[row] = self.changes


READY, DELETING = 1, 2
FINISHED = (SUCCEEDED, FAILED)
_NEVER = float("nan")
_UNUSED = -1
_LONGEST_VERSION = 18  # digits, beyond which a number may not fit 64 bits
_PHASE_NUMBER = {phase: number for number, phase in enumerate(PHASES)}


class PodRows(NamedTuple):
    """Pods in the table's own rows and numbers, which stay the same while a pod changes."""

    template: "np.ndarray[Any, Any]"
    """The template's number in the pool; negative where there is no pod."""
    node: "np.ndarray[Any, Any]"
    """The node's place among `PodTable.node_names`."""
    phase: "np.ndarray[Any, Any]"
    flags: "np.ndarray[Any, Any]"


class PodTable(_TableBase[Pod]):
    """Pods as rows of numbers: about 300 bytes each, most of it their names."""

    kind = POD

    def __init__(self) -> None:
        super().__init__()
        self._pool = TemplatePool()
        self._node_number: dict[str, int] = {}
        self._name_of_node: list[str] = []
        self._template = array("i")
        self._node = array("i")
        self._phase = array("b")
        self._flags = array("B")
        self._created = array("d")
        self._sums = NodeSums()
        self._added_since_sorted = 0

    def columns(self, node_index: Mapping[str, int]) -> tuple[PodColumns, list[PooledTemplate]]:
        """The pods by key, and the templates in the order in which these pods first use them.

        That order makes equal clusters give equal columns, however they came to be.
        """
        row_of = self._sorted_rows()
        rows = np.fromiter(row_of.values(), np.int64, len(row_of))
        numbers = np.frombuffer(self._template, np.int32)[rows] if len(rows) else rows
        used, first, dense = np.unique(numbers, return_index=True, return_inverse=True)
        by_first_use = np.argsort(first, kind="stable")
        rank = np.empty(len(used), np.int32)
        rank[by_first_use] = np.arange(len(used), dtype=np.int32)
        flags = _taken(self._flags, np.uint8, rows)
        columns = PodColumns(
            keys=tuple(row_of),
            uids=self._identity.uids.taken(rows),
            template=rank[dense.reshape(-1)],
            node=self._node_indices(node_index)[_taken(self._node, np.int32, rows)],
            phase=_taken(self._phase, np.int8, rows),
            ready=(flags & READY) != 0,
            deleting=(flags & DELETING) != 0,
            created=_taken(self._created, np.float64, rows),
        )
        return columns, [self._pool[int(number)] for number in used[by_first_use]]

    def held_by(self, key: str) -> Mapping[str, int] | None:
        """What one pod takes up, or would once it is placed; None if there is no such pod."""
        row = self._identity.row_of.get(key)
        return None if row is None else self._pool[self._template[row]].held

    def is_placed(self, key: str) -> bool:
        """Whether a pod is known to be bound to any node."""
        row = self._identity.row_of.get(key)
        return row is not None and self._node[row] != self._node_number.get("")

    def node_of(self, key: str) -> str:
        """The node that a pod is known to be bound to; nothing if there is none, or no such pod."""
        row = self._identity.row_of.get(key)
        return "" if row is None else self._name_of_node[self._node[row]]

    def is_on(self, key: str, node: str) -> bool:
        """Whether a pod is known to be bound to a node."""
        row = self._identity.row_of.get(key)
        return row is not None and self._node[row] == self._node_number.get(node)

    def held_on(self, resource: str) -> Amounts:
        """What placed pods hold of a resource together, by the number of their node.

        Always what a snapshot would add up, but kept rather than computed. It changes with the
        table: read it, and at once.
        """
        return self._sums.column(resource)

    def number_of_node(self, name: str) -> int:
        """The number under which the pods of a node are counted; it never changes."""
        number = self._node_number.get(name)
        if number is None:
            number = self._node_number[name] = len(self._node_number)
            self._name_of_node.append(name)
            self._sums.make_room(number + 1)
        return number

    def rows(self) -> PodRows:
        """All rows as they are now, for someone who follows pods without taking snapshots."""
        return PodRows(
            np.array(self._template, np.int32),
            np.array(self._node, np.int32),
            np.array(self._phase, np.int8),
            np.array(self._flags, np.uint8),
        )

    def row_of(self, key: str) -> int | None:
        """The row of a pod, if there is such a pod."""
        return self._identity.row_of.get(key)

    def template_number(self, row: int) -> int:
        """The number in the pool of the template of the pod in this row."""
        return self._template[row]

    def created(self, row: int) -> float:
        """When the pod in this row was created, in seconds; NaN if that is not known."""
        return self._created[row]

    @property
    def pool(self) -> TemplatePool:
        """The templates of all pods."""
        return self._pool

    @property
    def node_names(self) -> list[str]:
        """Names that pods have given for their nodes, by number; empty if they have none yet."""
        return self._name_of_node

    def _sorted_rows(self) -> dict[str, int]:
        """Rows by key, in order. Lists arrive in order, so there is seldom much to sort."""
        row_of = self._identity.row_of
        if self._added_since_sorted:
            row_of = {key: row_of[key] for key in sorted(row_of)}
            self._identity.row_of = row_of
            self._added_since_sorted = 0
        return row_of

    def _node_indices(self, node_index: Mapping[str, int]) -> "np.ndarray[Any, Any]":
        """Our node numbers as indices into the snapshot's nodes."""
        return np.array(
            [node_index.get(name, UNKNOWN_NODE) if name else NO_NODE for name in self._node_number],
            np.int32,
        )

    def _prepare(self, obj: Pod) -> int:
        return self._pool.acquire(obj)

    def _store(self, row: int, obj: Pod, prepared: int) -> None:
        metadata, status = obj.metadata, obj.status
        node = self.number_of_node(obj.spec.node_name)
        phase = _PHASE_NUMBER.get(status.phase, 0)
        flags = DELETING if metadata.deletion_timestamp is not None else 0
        for condition in status.conditions:
            if condition.type == "Ready":
                flags |= READY if condition.status == "True" else 0
                break
        created = metadata.creation_timestamp
        seconds = created.timestamp() if created is not None else _NEVER
        if row == len(self._template):
            self._added_since_sorted += 1
            self._template.append(prepared)
            self._node.append(node)
            self._phase.append(phase)
            self._flags.append(flags)
            self._created.append(seconds)
        else:
            if self._template[row] == _UNUSED:
                self._added_since_sorted += 1
            else:
                self._let_go(row)
            self._template[row] = prepared
            self._node[row] = node
            self._phase[row] = phase
            self._flags[row] = flags
            self._created[row] = seconds
        if phase not in FINISHED:
            self._sums.add(node, self._pool[prepared].held)

    def _discard(self, row: int) -> None:
        self._let_go(row)
        self._template[row] = _UNUSED

    def _let_go(self, row: int) -> None:
        """Take back what the row's pod added to its node, and its use of the template."""
        template = self._template[row]
        if self._phase[row] not in FINISHED:
            self._sums.subtract(self._node[row], self._pool[template].held)
        self._pool.release(template)


def _taken(column: Any, dtype: Any, rows: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    return np.frombuffer(column, dtype)[rows] if len(rows) else np.empty(0, dtype)


def _version_number(resource_version: str) -> int:
    """Versions are numbers that grow; a file may have none, or nonsense, which counts as 0."""
    if resource_version.isdecimal() and len(resource_version) <= _LONGEST_VERSION:
        return int(resource_version)
    return 0
