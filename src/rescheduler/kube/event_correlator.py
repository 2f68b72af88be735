"""Which Events are the same one again, and which are too many.

An Event that repeats raises the count of the one that is there. In any hour, an object gets only so
many different ones; the next says that more are left out. Each is forgotten an hour after it was
new, and all those of the objects that were reported longest ago, so the memory stays small.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

WINDOW = timedelta(hours=1)
MOST_PER_OBJECT = 10
MOST_OBJECTS = 1000
LONGEST_MESSAGE = 1000
UNPRINTABLE = "\N{REPLACEMENT CHARACTER}"

LEFT_OUT = "EventsLeftOut"
LEFT_OUT_MESSAGE = (
    f"More than {MOST_PER_OBJECT} different Events in an hour were recorded for this object. "
    "The others are left out; the log of the rescheduler has them."
)

_LEFT_OUT_KEY = (LEFT_OUT, False, "")
_WORD_WITH_DIGIT = re.compile(r"\S*\d\S*")


@dataclass
class CorrelatedEvent:
    """An Event, and how often it has happened."""

    about: Mapping[str, str]
    reason: str
    message: str
    is_warning: bool
    first: datetime
    last: datetime
    count: int = 1
    name: str = ""
    """The name of the object in the API server, once it has one."""
    is_created: bool = False
    """Whether the server has it, as far as is known."""
    is_waiting: bool = False
    """Whether it is about to be sent. What happens until then is sent with it."""


EventsOfObject = dict[tuple[str, bool, str], CorrelatedEvent]
"""By reason, whether it is a warning, and the shape of the message."""


class EventCorrelator:
    """The Events of the last hour, by object."""

    def __init__(self) -> None:
        self._objects: dict[tuple[str, ...], EventsOfObject] = {}

    def add(
        self, about: Mapping[str, str], reason: str, message: str, now: datetime, *, warning: bool
    ) -> CorrelatedEvent:
        """The Event that stands for this one: a new one, or one that has happened again."""
        events = self._events_of(about, now)
        key = (reason, warning, shape_of(message))
        if key not in events and len(events.keys() - {_LEFT_OUT_KEY}) >= MOST_PER_OBJECT:
            reason, message, warning = LEFT_OUT, LEFT_OUT_MESSAGE, False
            key = _LEFT_OUT_KEY
        found = events.get(key)
        if found is None:
            found = CorrelatedEvent(about, reason, readable(message), warning, now, now)
            events[key] = found
        else:
            found.count += 1
            found.last, found.message = now, readable(message)
        return found

    def _events_of(self, about: Mapping[str, str], now: datetime) -> EventsOfObject:
        key = tuple(about.get(part, "") for part in ("kind", "namespace", "name", "uid"))
        found = self._objects.pop(key, {})
        found = {shape: event for shape, event in found.items() if now - event.first < WINDOW}
        # The last to be reported is the last to be forgotten.
        self._objects[key] = found
        if len(self._objects) > MOST_OBJECTS:
            del self._objects[next(iter(self._objects))]
        return found


def shape_of(message: str) -> str:
    """The message without what varies: numbers, times, and names with generated parts."""
    return _WORD_WITH_DIGIT.sub("#", message)


def readable(message: str) -> str:
    """The message, cut to what the server and a reader take.

    Tenants write parts of it, and terminals show it: it has no characters that control one.
    """
    if not message.isprintable():
        message = "".join(each if each.isprintable() else UNPRINTABLE for each in message)
    if len(message) <= LONGEST_MESSAGE:
        return message
    return f"{message[: LONGEST_MESSAGE - 1]}…"
