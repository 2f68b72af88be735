"""A queue of keys: each at most once, never with two workers, and with back-off after failures."""

import asyncio
from collections.abc import Hashable
from random import Random
from typing import Generic, NamedTuple, TypeVar

from rescheduler.kube.backoff import Backoff

K = TypeVar("K", bound=Hashable)

FAILURE_BACKOFF = Backoff(first_seconds=0.1, limit_seconds=30.0)


class QueueCounts(NamedTuple):
    """How many keys there are in each state."""

    ready: int
    """They are processed as soon as a worker is free."""
    processing: int
    delayed: int
    """They come at a later time: because they failed, or to look again."""
    failing: int
    """They failed the last time."""


class WorkQueue(Generic[K]):
    """Keys to be processed. A key that is added while it is processed comes again afterwards."""

    def __init__(self, backoff: Backoff = FAILURE_BACKOFF, chance: Random | None = None) -> None:
        self._backoff = backoff
        self._chance = chance or Random()
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._queued: set[K] = set()
        self._processing: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._errors: dict[K, str] = {}
        """By key: why it failed the last time."""

    def add(self, key: K) -> None:
        """Queue a key now."""
        self._stop_timer(key)
        if key in self._queued:
            return
        self._queued.add(key)
        if key not in self._processing:
            self._ready.put_nowait(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Queue a key later; the earlier of two times counts."""
        if seconds <= 0:
            return self.add(key)
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None and timer.when() <= loop.time() + seconds:
            return None
        self._stop_timer(key)
        self._timers[key] = loop.call_later(seconds, self.add, key)
        return None

    async def get(self) -> K:
        """The next key to process. Call `done` or `retry` afterwards."""
        key = await self._ready.get()
        self._queued.discard(key)
        self._processing.add(key)
        return key

    def done(self, key: K) -> None:
        """The key was processed; its failures no longer count."""
        self._forget_failures(key)
        self._release(key)

    def retry(self, key: K, backoff: Backoff | None = None, *, error: str = "") -> float:
        """Processing failed: queue the key again after a delay that grows; returns the seconds."""
        self._errors[key] = error
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self._release(key)
        seconds = (backoff or self._backoff).seconds(failures, self._chance)
        self.add_after(key, seconds)
        return seconds

    def failures(self, key: K) -> int:
        """How often in a row the key has failed."""
        return self._failures.get(key, 0)

    def errors(self) -> dict[K, str]:
        """By key: why each that fails did so the last time."""
        return dict(self._errors)

    def counts(self) -> QueueCounts:
        """How much there is to do."""
        sizes = self._ready.qsize(), len(self._processing), len(self._timers), len(self._failures)
        return QueueCounts(*sizes)

    def drop(self, key: K) -> None:
        """Drop the timer and the failures of an object that no longer exists."""
        self._stop_timer(key)
        self._forget_failures(key)

    def close(self) -> None:
        """Stop all timers."""
        for key in list(self._timers):
            self._stop_timer(key)

    def _forget_failures(self, key: K) -> None:
        self._failures.pop(key, None)
        self._errors.pop(key, None)

    def _release(self, key: K) -> None:
        self._processing.discard(key)
        if key in self._queued:
            self._ready.put_nowait(key)

    def _stop_timer(self, key: K) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
