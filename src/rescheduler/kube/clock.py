"""The clock, as an argument: a simulation passes one that is turned by hand."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """The date and a monotonic time."""

    def now(self) -> datetime:
        """The date and time, with a time zone."""
        ...

    def seconds(self) -> float:
        """Monotonic seconds since an arbitrary moment."""
        ...


class WallClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def seconds(self) -> float:
        return time.monotonic()


WALL_CLOCK = WallClock()
