"""The clock, as an argument: a simulation passes one that is turned by hand."""

import time
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Protocol

# Answers carry whole seconds and take a moment to arrive: less is no difference.
TOLERATED = timedelta(seconds=2)
OBSERVE_EVERY_SECONDS = 10.0


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


class ServerClock:
    """The time by the clock of the API server, which the answers of the server carry.

    The times of objects come from that clock. Ours may be minutes off, and then a pod that is just
    Ready would seem to have been so for long.
    """

    def __init__(self, own: Clock = WALL_CLOCK) -> None:
        self._own = own
        self._ahead = timedelta(0)
        self._observed_at = float("-inf")

    def now(self) -> datetime:
        return self._own.now() + self._ahead

    def seconds(self) -> float:
        return self._own.seconds()

    def observe(self, date: str | None) -> None:
        """Take note of the `Date` of an answer that has just arrived."""
        seconds = self._own.seconds()
        if date is None or seconds - self._observed_at < OBSERVE_EVERY_SECONDS:
            return
        self._observed_at = seconds
        try:
            ahead = parsedate_to_datetime(date) - self._own.now()
        except (ValueError, TypeError):
            return
        if abs(ahead - self._ahead) > TOLERATED:
            self._ahead = ahead if abs(ahead) > TOLERATED else timedelta(0)
