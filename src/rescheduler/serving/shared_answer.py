"""An answer that is found once for all who ask for it at the same time.

Whoever asks a hundred times a second costs no more than whoever asks every now and then: an answer
is kept for ten times as long as it took to find, so that finding it takes a tenth of the time at
most.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")

KEPT_TIMES = 10
# Nobody is answered with anything older.
MOST_KEPT_SECONDS = 5.0


class SharedAnswer(Generic[T]):
    """The answer to one question. Used on one loop."""

    def __init__(
        self, find: Callable[[], Awaitable[T]], seconds: Callable[[], float] = time.monotonic
    ) -> None:
        self._find = find
        self._seconds = seconds
        self._finding: asyncio.Task[T] | None = None
        self._good_until = 0.0

    async def get(self, timeout_seconds: float) -> T:
        """The answer; `TimeoutError` if it is not found in time. It is then still looked for."""
        finding = self._finding
        if finding is None or (finding.done() and self._seconds() >= self._good_until):
            finding = self._finding = asyncio.create_task(self._found())
        async with asyncio.timeout(timeout_seconds):
            # Others wait for it as well.
            return await asyncio.shield(finding)

    async def _found(self) -> T:
        started = self._seconds()
        try:
            return await self._find()
        finally:
            ended = self._seconds()
            self._good_until = ended + min(KEPT_TIMES * (ended - started), MOST_KEPT_SECONDS)
