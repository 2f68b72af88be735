"""The time, for everyone who asks: an argument, so that it can be another than the wall clock's."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What tells the time."""

    def now(self) -> datetime:
        """The date and time, with a time zone."""
        ...

    def seconds(self) -> float:
        """Seconds since some moment, which only ever go on."""
        ...


class WallClock:
    """The machine's own time."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def seconds(self) -> float:
        return time.monotonic()


WALL_CLOCK = WallClock()
