"""How fast we ask, and how long we wait after a failure."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

# Beyond this many doublings every limit is long reached, and floats would overflow.
MOST_DOUBLINGS = 32


@dataclass(frozen=True)
class Backoff:
    """Waits that double with every failure in a row."""

    first_seconds: float = 0.5
    limit_seconds: float = 30.0

    def seconds(self, failures: int, chance: Random) -> float:
        """How long to wait after so many failures in a row.

        Half of it is random, so that clients which failed together do not return together.
        """
        doublings = min(max(failures - 1, 0), MOST_DOUBLINGS)
        longest = min(self.limit_seconds, self.first_seconds * 2.0**doublings)
        return longest * (0.5 + 0.5 * chance.random())


class RateLimit:
    """At most `per_second` calls in the long run, `burst` of them at once."""

    def __init__(
        self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._interval = 1 / per_second
        self._credit = self._interval * burst
        self._clock = clock
        self._paid_until = clock() - self._credit

    async def wait(self) -> None:
        """Return when the next call may be sent. Callers are served in the order they came."""
        now = self._clock()
        self._paid_until = max(self._paid_until, now - self._credit) + self._interval
        if self._paid_until > now:
            await asyncio.sleep(self._paid_until - now)
