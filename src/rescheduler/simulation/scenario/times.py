"""Times in workload files: a time of day, or a duration after the start."""

import re
from typing import Any

from rescheduler.settings.value_types import custom_value, seconds_or_zero_of

DAY = 86_400

EXPECTED_TIME = "expected a time of day such as '14:00'"
EXPECTED_EVENT_TIME = (
    "expected a time of day such as '14:00', or how long after the start, such as '90m'"
)

_TIME = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)", re.ASCII)


class TimeOfDay(int):
    """Seconds since midnight, which files write as `14:00`."""


class EventTime(str):
    """When something happens: `14:00`, the next one after the start, or `90m` after the start."""

    def seconds_after(self, start: TimeOfDay) -> float:
        """How long after a run that starts at this time of day."""
        if _TIME.fullmatch(self) is None:
            return float(seconds_or_zero_of(str(self)))
        return float((time_of_day(str(self)) - start) % DAY)


def time_of_day(value: object) -> TimeOfDay:
    """A time of day from its text.

    YAML reads 14:00 without quotes as a number in base sixty, so a number means minutes. Numbers
    below sixty are refused: they were written as plain numbers.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 60:
        value = f"{value // 60:02}:{value % 60:02}"
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(EXPECTED_TIME)
    return TimeOfDay(int(match[1]) * 3600 + int(match[2]) * 60)


def event_time(value: object) -> EventTime:
    """An event time from its text."""
    if isinstance(value, int) and not isinstance(value, bool) and 60 <= value < DAY // 60:
        return EventTime(f"{value // 60:02}:{value % 60:02}")
    try:
        if not isinstance(value, str):
            raise ValueError(EXPECTED_EVENT_TIME)
        EventTime(value).seconds_after(TimeOfDay(0))
    except ValueError as error:
        raise ValueError(EXPECTED_EVENT_TIME) from error
    return EventTime(value)


def workload_value(kind: Any, value: Any) -> Any:
    """A value of one of the classes above, or of the value types of policies."""
    if kind is TimeOfDay:
        return time_of_day(value)
    return event_time(value) if kind is EventTime else custom_value(kind, value)
