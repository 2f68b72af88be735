"""Uids in 16 bytes each instead of a hundred: there is one for every pod.

Kubernetes' uids are UUIDs. Files written by hand may hold anything; those are kept as they are.
"""

import re
from uuid import UUID

import numpy as np
import numpy.typing as npt

NIL_UID = str(UUID(int=0))
"""Stands for none."""

_SIZE = 16
_EMPTY = bytes(_SIZE)
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class Uids:
    """A column of uids, by row."""

    def __init__(self) -> None:
        self._packed = bytearray()
        self._odd: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._packed) // _SIZE

    def __getitem__(self, row: int) -> str:
        odd = self._odd.get(row)
        if odd is not None:
            return odd
        return str(UUID(bytes=bytes(self._packed[row * _SIZE : (row + 1) * _SIZE])))

    def __setitem__(self, row: int, uid: str) -> None:
        packed = _packed(uid)
        self._packed[row * _SIZE : (row + 1) * _SIZE] = packed or _EMPTY
        if packed is None:
            self._odd[row] = uid
        else:
            self._odd.pop(row, None)

    def append(self, uid: str) -> None:
        """Add a row at the end."""
        packed = _packed(uid)
        if packed is None:
            self._odd[len(self)] = uid
        self._packed += packed or _EMPTY

    def grow_to(self, size: int) -> None:
        """Add rows without a uid at the end, until there are so many."""
        self._packed.extend(bytes(size * _SIZE - len(self._packed)))

    def is_at(self, row: int, uid: str) -> bool:
        """Whether this uid is in that row, without unpacking it."""
        packed = _packed(uid)
        if packed is None:
            return self._odd.get(row) == uid
        return self._packed[row * _SIZE : (row + 1) * _SIZE] == packed and row not in self._odd

    def taken(self, rows: npt.NDArray[np.int64]) -> "Uids":
        """A column of these rows, in this order."""
        taken = Uids()
        packed = np.frombuffer(self._packed, np.dtype((np.void, _SIZE)))
        taken._packed = bytearray(packed[rows].tobytes())
        if self._odd:
            for new, old in enumerate(rows.tolist()):
                if old in self._odd:
                    taken._odd[new] = self._odd[old]
        return taken

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Uids) and self._packed == other._packed and self._odd == other._odd

    __hash__ = None  # type: ignore[assignment]


def _packed(uid: str) -> bytes | None:
    """A uid in the usual spelling as bytes; None for any other, which must come back unchanged."""
    if _UUID.fullmatch(uid) is None:
        return None
    return bytes.fromhex(uid.replace("-", ""))
