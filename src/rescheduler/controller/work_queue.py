"""A queue of keys: each at most once, never by two workers at a time, and later after failures."""

import asyncio
from collections.abc import Hashable
from random import Random
from typing import Generic, TypeVar

from rescheduler.kube.backoff import Backoff

K = TypeVar("K", bound=Hashable)

FAILURE_BACKOFF = Backoff(first_seconds=0.1, limit_seconds=30.0)


class WorkQueue(Generic[K]):
    """Keys that want attention. A key that is added while it is worked on comes again after."""

    def __init__(self, backoff: Backoff = FAILURE_BACKOFF, chance: Random | None = None) -> None:
        self._backoff = backoff
        self._chance = chance or Random()
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._wanted: set[K] = set()
        self._working: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}

    def add(self, key: K) -> None:
        """Ask for a key to be worked on soon."""
        self._stop_timer(key)
        if key in self._wanted:
            return
        self._wanted.add(key)
        if key not in self._working:
            self._ready.put_nowait(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Ask for it later; the earlier of two wishes counts."""
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
        """The next key to work on. Say `done` or `retry` afterwards."""
        key = await self._ready.get()
        self._wanted.discard(key)
        self._working.add(key)
        return key

    def done(self, key: K) -> None:
        """It went well."""
        self._failures.pop(key, None)
        self._release(key)

    def retry(self, key: K) -> float:
        """It failed: again after a while, which grows. Returns how long."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self._release(key)
        seconds = self._backoff.seconds(failures, self._chance)
        self.add_after(key, seconds)
        return seconds

    def drop(self, key: K) -> None:
        """It no longer exists: forget every wish and failure of it."""
        self._stop_timer(key)
        self._failures.pop(key, None)

    def close(self) -> None:
        """Nothing more will be asked for."""
        for key in list(self._timers):
            self._stop_timer(key)

    def __len__(self) -> int:
        return len(self._wanted) + len(self._working)

    def __contains__(self, key: K) -> bool:
        return key in self._wanted or key in self._working or key in self._timers

    def _release(self, key: K) -> None:
        self._working.discard(key)
        if key in self._wanted:
            self._ready.put_nowait(key)

    def _stop_timer(self, key: K) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
