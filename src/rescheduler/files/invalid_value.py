"""A value that cannot be used, described for the person who wrote it."""

import re
from dataclasses import dataclass
from typing import Any

import msgspec

LONGEST_VALUE = 60
"""How many characters of a value a message shows."""


@dataclass(frozen=True)
class InvalidValue:
    """One value that cannot be used: where it is, what it is, and what should be there."""

    path: str
    what: str
    value: Any = msgspec.UNSET
    """Unset if there is nothing to show: the value is missing, or only its key is wrong."""

    @property
    def field(self) -> str:
        """The last part of the path: a name, or a position in a list."""
        return re.split(r"[.\[]", self.path)[-1].removesuffix("]")

    def __str__(self) -> str:
        value = "" if self.value is msgspec.UNSET else _shown(self.value)
        return ": ".join(part for part in (self.path, value, self.what) if part)


class BadValue(Exception):
    """Raised for a value that cannot be used; the text has its place and what is wrong with it."""

    def __init__(self, problem: InvalidValue) -> None:
        super().__init__(str(problem))
        self.problem = problem


def step(path: str, key: Any) -> str:
    """The path of an entry, given the path of its mapping."""
    if not isinstance(key, str) or not re.fullmatch(r"[\w-]+", key):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def _shown(value: Any) -> str:
    """The value on one line, cut if it is long."""
    text = repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"
