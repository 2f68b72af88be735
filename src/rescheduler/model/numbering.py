"""Small numbers that stand for values while somebody uses them."""

from array import array
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

H = TypeVar("H", bound=Hashable)


class Numbering(Generic[H]):
    """Numbers values from 0 on. A value that nobody uses any more is forgotten, and its number
    goes to the next new value."""

    def __init__(self) -> None:
        self._number_of: dict[H, int] = {}
        self._values: list[H | None] = []
        self._users = array("q")
        self._free: list[int] = []
        self.added = 0
        """How many values were ever added: while it stays the same, no number has a new value."""

    def acquire(self, value: H) -> int:
        """The number of a value, which now has one user more."""
        number = self._number_of.get(value)
        if number is None:
            number = self._add(value)
        self._users[number] += 1
        return number

    def release(self, number: int) -> None:
        """One user less; with the last one the value is forgotten."""
        self._users[number] -= 1
        if self._users[number] == 0:
            value = self._values[number]
            assert value is not None, "a value without users was released"
            del self._number_of[value]
            self._values[number] = None
            self._free.append(number)

    def __getitem__(self, number: int) -> H:
        value = self._values[number]
        assert value is not None, "a value without users was asked for"
        return value

    def __len__(self) -> int:
        return len(self._number_of)

    def find(self, value: H) -> int | None:
        """The number of a value, if it has one."""
        return self._number_of.get(value)

    @property
    def values(self) -> Sequence[H | None]:
        """All values by their numbers; None where a number is free."""
        return self._values

    def _add(self, value: H) -> int:
        if self._free:
            number = self._free.pop()
            self._values[number] = value
        else:
            number = len(self._values)
            self._values.append(value)
            self._users.append(0)
        self._number_of[value] = number
        self.added += 1
        return number
