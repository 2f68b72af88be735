"""What is wrong with a value, in words for the person who wrote it.

msgspec says which field it could not read, but neither the key within a mapping nor the value.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from rescheduler.model import quantities

LONGEST_VALUE = 60

_MESSAGE = re.compile(r"(?P<what>.*?)(?: - at (?P<key>`key` in )?`\$(?P<path>.*)`)?", re.DOTALL)
_EXPECTED = re.compile(
    r"Expected `(?P<types>[^`]+)`(?: (?P<limit>[<>]=? \S+))?(?:, got `(?P<got>\w+)`)?"
)
_FIELD = re.compile(r"Object (?P<what>missing required|contains unknown) field `(?P<field>.*)`")
_INDEX = re.compile(r"\[(\d+)\]")

_QUANTITY = "int | float | str"
_WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
    "datetime": "a time such as '2025-01-31T12:00:00Z'",
}
_PYTHON_TYPES = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "array": list,
    "object": dict,
}


@dataclass(frozen=True)
class InvalidValue:
    """One value that cannot be used: where it is, what it is, and what should be there."""

    path: str
    what: str
    value: Any = msgspec.UNSET
    unknown_field: str | None = None
    holder: str = ""
    """Where the mapping is that has the unknown field."""

    def __str__(self) -> str:
        value = "" if self.value is msgspec.UNSET else shown(self.value)
        return ": ".join(part for part in (self.path, value, self.what) if part)


def shown(value: Any) -> str:
    """A value as a message shows it: on one line, and not all of it if it is long."""
    text = repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"


def step(path: str, key: Any) -> str:
    """The path of an entry, given that of its mapping."""
    if not isinstance(key, str) or not re.fullmatch(r"[\w-]+", key):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def path_steps(path: str) -> list[str]:
    """The parts of a path: names and positions."""
    return re.findall(r"[^.\[\]]+", path)


def problem_of(error: msgspec.ValidationError, data: Any) -> InvalidValue:
    """What msgspec found wrong with `data`, which is the plain form of what it read."""
    message = _MESSAGE.fullmatch(str(error))
    assert message is not None, "every text matches"
    what, remaining = message["what"], message["path"] or ""
    if field := _FIELD.fullmatch(what):
        return _field_problem(field, next(_places(data, remaining, ""), ("", None))[0])
    expected = _EXPECTED.fullmatch(what)
    path, value = _culprit(data, remaining, expected["got"] if expected else None)
    if message["key"]:
        odd = next((key for key in value if not isinstance(key, str)), None)
        return InvalidValue(path, "expected text as a key", odd)
    return InvalidValue(path, _expectation(what, expected), value)


def _field_problem(field: re.Match[str], path: str) -> InvalidValue:
    if field["what"] == "missing required":
        return InvalidValue(step(path, field["field"]), "missing")
    return InvalidValue(
        step(path, field["field"]), "unknown", unknown_field=field["field"], holder=path
    )


def _expectation(what: str, expected: re.Match[str] | None) -> str:
    if "datetime" in what:
        return f"expected {_WORDS['datetime']}"
    if expected is None:
        return what
    if expected["types"] == _QUANTITY:
        return quantities.EXPECTED
    types = [name for name in expected["types"].split(" | ") if name != "null"]
    words = " or ".join(_WORDS.get(name, name) for name in types)
    return f"expected {words} {expected['limit'] or ''}".rstrip()


def _culprit(data: Any, remaining: str, got: str | None) -> tuple[str, Any]:
    """The place meant: msgspec does not name keys of mappings, but says what type it found."""
    places = list(_places(data, remaining, ""))
    python_type = _PYTHON_TYPES.get(got or "", object)
    odd = [place for place in places if type(place[1]) is python_type]
    return next(iter(odd or places), (remaining.lstrip("."), msgspec.UNSET))


def _places(data: Any, remaining: str, path: str) -> Iterator[tuple[str, Any]]:
    """All places that a path of msgspec's may mean, with their values."""
    if not remaining:
        yield path, data
    elif isinstance(data, dict) and remaining.startswith("[...]"):
        for key, value in data.items():
            yield from _places(value, remaining.removeprefix("[...]"), step(path, key))
    elif isinstance(data, dict):
        # Longest first, for keys may contain dots.
        for key in sorted((key for key in data if isinstance(key, str)), key=len, reverse=True):
            rest = remaining.removeprefix(f".{key}")
            if rest != remaining and (not rest or rest[0] in ".["):
                yield from _places(data[key], rest, step(path, key))
                return
    elif isinstance(data, list) and (match := _INDEX.match(remaining)):
        index = int(match[1])
        if index < len(data):
            yield from _places(data[index], remaining[match.end() :], f"{path}[{index}]")
