"""The cluster, kept up to date: a list-watch for every kind."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

from rescheduler.errors import Forbidden, Unavailable
from rescheduler.kube.api_server import ApiServer
from rescheduler.kube.listwatch import ListWatch, WatchSettings
from rescheduler.model.kinds import Kind
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.model.tables.table import TableChange
from rescheduler.model.unreadable_objects import MISSING_KINDS

logger = logging.getLogger(__name__)

# Nothing is decided on a view of the cluster that is older.
MAX_STORE_AGE_SECONDS = 180.0


@dataclass(frozen=True)
class KindStatus:
    """How much is known about one kind."""

    kind: str
    synced: bool
    # Since the table was last known to be up to date; None before the first list.
    age_seconds: float | None
    last_error: str | None


class LiveStore:
    """The cluster's tables, filled from an API server.

    Either `await list_once()` to read everything once, or `start()`, `await synced()` and
    finally `await stop()` to follow the cluster.
    """

    def __init__(
        self,
        server: ApiServer,
        tables: ClusterTables,
        settings: WatchSettings | None = None,
        clock: Callable[[], float] = time.monotonic,
        chance: Random | None = None,
    ) -> None:
        self._tables = tables
        self._clock = clock
        self._watches = [
            ListWatch(server, table, settings, clock, chance) for table in tables.tables()
        ]
        self._tasks: list[asyncio.Task[None]] = []
        self._missing: list[Kind[Any]] = []

    def start(self) -> None:
        """Begin to list and watch every kind."""
        assert not self._tasks, "a store is started once"
        self._tasks = [
            asyncio.create_task(watch.run(), name=f"watch {watch.kind.plural}")
            for watch in self._watches
        ]

    async def stop(self) -> None:
        """Stop following the cluster; the tables stay as they are."""
        await cancel(self._tasks)
        self._tasks = []

    async def synced(self, timeout_seconds: float | None = None) -> None:
        """Return when every kind has been listed once.

        Raises at once what only a person can mend, and `Unavailable` after the timeout, with
        the last thing that went wrong.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                await all_of([self._synced(watch) for watch in self._watches])
        except TimeoutError as error:
            raise self._still_waiting() from error

    async def list_once(self) -> None:
        """Read every kind once, without watching.

        One after the other: reading is work for one processor, so pages of several kinds at the
        same time would only take more memory.
        """
        for watch in self._watches:
            with self._optional(watch):
                await watch.list()

    def snapshot(self) -> Snapshot:
        """The cluster as it is known now."""
        return self._tables.snapshot()

    @property
    def missing(self) -> list[str]:
        """The kinds that we may not list and can do without, with what follows from it."""
        return [
            f"the right to list {kind.plural} is missing, so {MISSING_KINDS[kind]}"
            for kind in self._missing
        ]

    async def _synced(self, watch: ListWatch[Any]) -> None:
        with self._optional(watch):
            await watch.wait_synced()
        if watch.kind in self._missing:
            extra = {"kind": watch.kind.name, "consequence": MISSING_KINDS[watch.kind]}
            logger.warning("Went on without a kind that may not be listed", extra=extra)

    @contextmanager
    def _optional(self, watch: ListWatch[Any]) -> Iterator[None]:
        """Go on without a kind that we may not list, if we can do without it."""
        try:
            yield
        except Forbidden:
            if watch.kind not in MISSING_KINDS:
                raise
            if watch.kind not in self._missing:
                self._missing.append(watch.kind)

    def status(self) -> list[KindStatus]:
        """How up to date the table of each kind is."""
        now = self._clock()
        return [kind_status(watch.kind.name, watch, now) for watch in self._watches]

    def ages(self) -> dict[str, float]:
        """By resource: seconds since what is known of it was last known to be up to date."""
        now = self._clock()
        found = {watch.kind.plural: watch.age(now) for watch in self._watches}
        return {resource: age for resource, age in found.items() if age is not None}

    def dead_watches(self) -> list[str]:
        """The watches that have ended by themselves, and that nothing opens again."""
        return [task.get_name() for task in self._tasks if task.done()]

    def age(self) -> float | None:
        """The age of what is oldest among the kinds there are; None until all are listed.

        Those that we may not list do not count.
        """
        missing = {kind.name for kind in self._missing}
        ages = [status.age_seconds for status in self.status() if status.kind not in missing]
        known = [age for age in ages if age is not None]
        return max(known, default=None) if len(known) == len(ages) else None

    def why_not_current(self) -> str:
        """Why nothing may be decided on this view of the cluster; empty if it may."""
        age = self.age()
        if age is None:
            return f"the cluster is not loaded yet: {self._what_is_missing()}"
        if age > MAX_STORE_AGE_SECONDS:
            return f"the view of the cluster is {age:.0f}s old"
        return ""

    def _what_is_missing(self) -> str:
        """The kinds without a first list, with an error of one of them."""
        missing = {kind.name for kind in self._missing}
        waiting = [kind for kind in self.status() if not kind.synced and kind.kind not in missing]
        return no_list_of([kind.kind for kind in waiting], [kind.last_error for kind in waiting])

    def subscribe(
        self, kind: Kind[Any], callback: Callable[[TableChange], None]
    ) -> Callable[[], None]:
        """Call back with every change of a kind, until what is returned is called."""
        return next(watch for watch in self._watches if watch.kind is kind).subscribe(callback)

    def _still_waiting(self) -> Unavailable:
        waiting = [watch for watch in self._watches if not watch.synced]
        errors = [str(watch.last_error) for watch in waiting if watch.last_error is not None]
        names = ", ".join(watch.kind.plural for watch in waiting)
        why = errors[0] if errors else "the server has not answered yet"
        return Unavailable("LIST", f"still without a first list of {names}: {why}")


def kind_status(name: str, watch: ListWatch[Any], now: float) -> KindStatus:
    """How much is known about one kind."""
    error = watch.last_error
    return KindStatus(name, watch.synced, watch.age(now), None if error is None else str(error))


def no_list_of(kinds: Sequence[str], errors: Iterable[str | None]) -> str:
    """That these kinds were not listed so far, with the first of the errors, if there is one."""
    first = next((f" ({error})" for error in errors if error), "")
    return f"no list of {', '.join(kinds)} so far{first}"


async def all_of(parts: list[Coroutine[Any, Any, None]]) -> None:
    """Run all parts at the same time; the first to fail ends the others and is raised."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        await asyncio.gather(*tasks)
    finally:
        await cancel(tasks)


async def cancel(tasks: list[asyncio.Task[None]]) -> None:
    """End tasks and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
