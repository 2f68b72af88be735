"""The types of options, as people write their values.

A plain number has its bounds in its type. A value with a syntax of its own, such as a duration, has
a class and a function that reads it; the function raises ValueError with what was expected.
"""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from rescheduler.model.rules.node_availability import NodeLabel
from rescheduler.model.selectors import BadSelector, parse_selector
from rescheduler.settings.int_or_percent import Limit, limit_of

EXPECTED_DURATION = "expected a duration such as '30s', '1m30s' or '500ms', longer than zero"
EXPECTED_DURATION_OR_ZERO = "expected a duration such as '30s', '1m30s' or '0s'"
EXPECTED_LABEL = "expected a label such as 'maintenance' or 'maintenance=true'"

Percent = Annotated[float, Meta(ge=0, le=100, description="a percentage from 0 to 100")]
Count = Annotated[int, Meta(ge=0, description="a whole number, 0 or more")]
AtLeastOne = Annotated[int, Meta(ge=1, description="a whole number, 1 or more")]
# Both have an upper bound so that sums and products of a few of them stay finite.
Amount = Annotated[float, Meta(ge=0, le=1e15, description="a number from 0 to 1e15")]
Weight = Annotated[float, Meta(gt=0, le=1e6, description="a number above 0, up to 1e6")]

_UNIT_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_DURATION_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ms|us|µs|ns|h|m|s)", re.ASCII)


class Options(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A block of options. Unknown ones are refused, because they are most likely misspelt."""


class BadOption(ValueError):
    """Raised by a block of options for a value that its type allows and that is still wrong.

    `keys` lead from the block to the option.
    """

    def __init__(self, keys: tuple[str, ...], what: str, value: Any = msgspec.UNSET) -> None:
        super().__init__(what)
        self.keys = keys
        self.value = value


class Seconds(float):
    """A duration, which files write as Go does: `1m30s`. Always longer than zero."""


class SecondsOrZero(float):
    """A duration that may be zero, which switches off what it is for."""


def seconds_of(text: object) -> Seconds:
    """The length of a duration as Go writes it, which must be longer than zero."""
    seconds = _total_seconds(text)
    if seconds is None or seconds <= 0:
        raise ValueError(EXPECTED_DURATION)
    return Seconds(seconds)


def seconds_or_zero_of(text: object) -> SecondsOrZero:
    """The length of a duration as Go writes it."""
    seconds = _total_seconds(text)
    if seconds is None:
        raise ValueError(EXPECTED_DURATION_OR_ZERO)
    return SecondsOrZero(seconds)


def node_label_of(text: object) -> NodeLabel:
    """A label from its key, which then must have the value `true`, or from `key=value`."""
    if not isinstance(text, str) or not re.fullmatch(r"[^=!,\s()]+(=[^=!,\s()]*)?", text):
        raise ValueError(EXPECTED_LABEL)
    try:
        parse_selector(text)
    except BadSelector as error:
        raise ValueError(EXPECTED_LABEL) from error
    return NodeLabel(text if "=" in text else f"{text}=true")


def custom_value(kind: Any, value: Any) -> Any:
    """A value of one of the classes that have a syntax of their own."""
    return _READERS[kind](value)


_READERS: Mapping[Any, Callable[[object], Any]] = {
    Seconds: seconds_of,
    SecondsOrZero: seconds_or_zero_of,
    Limit: limit_of,
    NodeLabel: node_label_of,
}


def _total_seconds(text: object) -> float | None:
    """None if it is no duration."""
    parts = _DURATION_PART.findall(text) if isinstance(text, str) else []
    if not parts or "".join(map("".join, parts)) != text:
        return None
    return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts)
