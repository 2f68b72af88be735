"""The labels that migrations write on pods, apart from the pods' other labels.

They differ from pod to pod, so with them every moved pod would be a template of its own. Hardly
ever does a selector look at them. So templates do not have them, unless some selector names them;
here they are kept for that case, in 20 bytes for each pod.
"""

from array import array
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rescheduler.labels import (
    MIGRATED_FROM,
    MIGRATION_ID,
    MIGRATION_LABELS,
    MIGRATION_REASON,
    MIGRATION_STATUS,
)
from rescheduler.model.numbering import Numbering
from rescheduler.model.uids import NIL_UID, Uids

_KEYS = frozenset(MIGRATION_LABELS)


class _Values(NamedTuple):
    """What a pod's labels say, without the migration's uid: that is no other pod's."""

    has_id: bool
    status: str | None
    migrated_from: str | None
    reason: str | None


_NOTHING = _Values(has_id=False, status=None, migrated_from=None, reason=None)


def has_move_labels(labels: Mapping[str, str]) -> bool:
    """Whether any of these labels is written by migrations."""
    return not _KEYS.isdisjoint(labels)


def without_move_labels(labels: Mapping[str, str], kept: frozenset[str]) -> dict[str, str]:
    """The labels without those of migrations, except for the kept ones."""
    return {
        key: value for key, value in labels.items() if key in kept or key not in MIGRATION_LABELS
    }


class MoveLabels:
    """A column of these labels, by row. Rows without any cost nothing at the end."""

    def __init__(self) -> None:
        self._values: Numbering[_Values] = Numbering()
        self._nothing = self._values.acquire(_NOTHING)
        self._number = array("i")
        self._ids = Uids()

    def __bool__(self) -> bool:
        """Whether any row has such labels."""
        return len(self._values) > 1

    def __setitem__(self, row: int, labels: Mapping[str, str]) -> None:
        """Keep what is a migration's of a pod's labels."""
        if row >= len(self._number):
            if not has_move_labels(labels):
                return
            self._grow_to(row + 1)
        old = self._number[row]
        values = _values_of(labels)
        self._number[row] = self._nothing if values == _NOTHING else self._values.acquire(values)
        self._ids[row] = labels.get(MIGRATION_ID, NIL_UID)
        if old != self._nothing:
            self._values.release(old)

    def __getitem__(self, row: int) -> dict[str, str]:
        """The labels of migrations that the pod in a row has."""
        if row >= len(self._number):
            return {}
        values = self._values[self._number[row]]
        labels = {
            MIGRATION_ID: self._ids[row] if values.has_id else None,
            MIGRATION_STATUS: values.status,
            MIGRATED_FROM: values.migrated_from,
            MIGRATION_REASON: values.reason,
        }
        return {key: value for key, value in labels.items() if value is not None}

    def rows(self) -> list[int]:
        """The rows of all pods with such labels."""
        numbers = np.array(self._number, np.int32)
        found: list[int] = np.flatnonzero(numbers != self._nothing).tolist()
        return found

    def taken(self, rows: npt.NDArray[np.int64]) -> "MoveLabels":
        """A column of these rows, in this order."""
        taken = MoveLabels()
        if not self:
            return taken
        self._grow_to(int(rows.max(initial=-1)) + 1)
        numbers = np.array(self._number, np.int32)[rows]
        new_number = np.full(len(self._values.values), taken._nothing, np.int32)
        for number in np.unique(numbers).tolist():
            if number != self._nothing:
                new_number[number] = taken._values.acquire(self._values[number])
        taken._number = array("i", new_number[numbers].tobytes())
        taken._ids = self._ids.taken(rows)
        return taken

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MoveLabels) and self._by_row() == other._by_row()

    __hash__ = None  # type: ignore[assignment]

    def _by_row(self) -> dict[int, dict[str, str]]:
        return {row: self[row] for row in self.rows()}

    def _grow_to(self, rows: int) -> None:
        missing = rows - len(self._number)
        if missing > 0:
            self._number.extend([self._nothing] * missing)
            self._ids.grow_to(rows)


def _values_of(labels: Mapping[str, str]) -> _Values:
    return _Values(
        MIGRATION_ID in labels,
        labels.get(MIGRATION_STATUS),
        labels.get(MIGRATED_FROM),
        labels.get(MIGRATION_REASON),
    )
