"""Tables of whole objects, and the table of nodes."""

from array import array
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from rescheduler.model.kinds import NODE, Kind
from rescheduler.model.numbering import Numbering
from rescheduler.model.objects import Node
from rescheduler.model.resources import amounts_of, in_units
from rescheduler.model.selected_labels import SelectedLabels, named_by_selector
from rescheduler.model.tables.table import TableBase

T = TypeVar("T")


class ObjectTable(TableBase[T]):
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


class SelectorTable(ObjectTable[T]):
    """Objects with a selector of pods. It counts the labels of migrations that they name."""

    def __init__(
        self, kind: Kind[T], selected: SelectedLabels, on_change: Callable[[], None]
    ) -> None:
        """`on_change` is called whenever other labels may be named."""
        super().__init__(kind)
        self._selected = selected
        self._on_change = on_change

    def _store(self, row: int, obj: T, prepared: Any) -> None:
        before = self._objects.get(row)
        super()._store(row, obj, prepared)
        self._selected.add(_named_by(obj))
        if before is not None:
            self._selected.remove(_named_by(before))
        self._on_change()

    def _discard(self, row: int) -> None:
        self._selected.remove(_named_by(self._objects[row]))
        super()._discard(row)
        self._on_change()


def _named_by(obj: Any) -> frozenset[str]:
    return named_by_selector(obj.spec.selector)


class NodeTable(ObjectTable[Node]):
    """Nodes, and what each has to give in the scheduler's units, computed when it changes.

    Whoever keeps something of their own for every node remembers `changes`, and later asks which
    rows have changed since. A row stays a node's as long as the node is there.
    """

    def __init__(self) -> None:
        super().__init__(NODE)
        self.numbers: Numbering[str] = Numbering()
        """The numbers of nodes by name. They have one while they, or pods on them, are there."""
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
        if row not in self._objects:
            self.numbers.acquire(obj.metadata.name)
        self._allocatable[row] = prepared
        super()._store(row, obj, prepared)
        self._note_change(row)

    def _discard(self, row: int) -> None:
        number = self.numbers.find(self._objects[row].metadata.name)
        assert number is not None, "a node has a number while it is there"
        self.numbers.release(number)
        del self._allocatable[row]
        super()._discard(row)
        self._note_change(row)

    def _note_change(self, row: int) -> None:
        if row == len(self._changed_at):
            self._changed_at.append(self.changes)
        else:
            self._changed_at[row] = self.changes
