"""Keep one table equal to what the API server has: list once, then follow every change.

The loop in short:
- list all objects in pages; the list is a moment in the server's history, its version;
- watch from that version on; every event, and every bookmark, moves the version forward;
- whenever the watch ends, for whatever reason, watch again from the version reached;
- only when the server has forgotten that version, list again, and forget what is not in the list.

So a change is seen once, in order, however often the connection breaks.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from random import Random
from typing import Generic, TypeVar

from rescheduler.errors import (
    CredentialsError,
    Forbidden,
    Gone,
    NotFound,
    ReschedulerError,
    Unavailable,
)
from rescheduler.kube.api_errors import from_status
from rescheduler.kube.api_server import PAGE_SIZE, ApiServer
from rescheduler.kube.backoff import Backoff
from rescheduler.kube.watch_events import Bookmark, Deleted, Failed, Unreadable, WatchEvent
from rescheduler.model.objects import ObjectMeta
from rescheduler.model.tables.table import Table, TableChange, version_number
from rescheduler.model.unreadable_objects import CONSEQUENCES, MISSING_KINDS, UnreadableObject

T = TypeVar("T")

logger = logging.getLogger(__name__)

NO_VERSION = 0
FAILURES_TO_WARN = 3

# How often to ask again for a kind that may not be listed, and is not needed.
FORBIDDEN_SECONDS = 300.0

# Errors that time alone does not mend: they are raised to whoever waits for the first list.
NEEDS_A_PERSON = (Forbidden, NotFound, CredentialsError)


@dataclass(frozen=True)
class WatchSettings:
    """How a list-watch behaves."""

    page_size: int = PAGE_SIZE
    # The server ends each watch after a random time between these, as client-go asks it to, so
    # that the watches of many clients move to a new server one by one.
    shortest_watch_seconds: int = 300
    longest_watch_seconds: int = 600
    # How long changes that come often are held back, to be handled together; 0 for not at all.
    # A higher number saves processor time, and whoever follows the kind is told later.
    batch_seconds: float = 0.0
    backoff: Backoff = field(default_factory=Backoff)
    # A list that the server forgets between two pages is begun again this often.
    list_attempts: int = 5


class ListWatch(Generic[T]):
    """Fills one table, and says how far it can be trusted."""

    def __init__(
        self,
        server: ApiServer,
        table: Table[T],
        settings: WatchSettings | None = None,
        clock: Callable[[], float] = time.monotonic,
        chance: Random | None = None,
    ) -> None:
        self.kind = table.kind
        self.last_error: ReschedulerError | None = None
        self.lists = 0
        self._server = server
        self._table = table
        self._settings = settings or WatchSettings()
        self._clock = clock
        self._chance = chance or Random()
        self._subscribers: list[Callable[[TableChange], None]] = []
        self._version = NO_VERSION
        self._fresh_at: float | None = None
        self._failures = 0
        self._settled = asyncio.Event()
        self._follows = False

    @property
    def synced(self) -> bool:
        """Whether the table has held a complete list, and so shows the cluster at some moment."""
        return self._fresh_at is not None

    def age(self, now: float) -> float | None:
        """Seconds since the table was last known to be up to date; None before the first list.

        Bookmarks count, and so does opening a watch, so it stays around a minute on a quiet
        cluster; the timeout for a silent watch is the most it reaches while all is well.
        """
        return None if self._fresh_at is None else now - self._fresh_at

    def subscribe(self, callback: Callable[[TableChange], None]) -> Callable[[], None]:
        """Call back with every change from now on, after the table has taken it in.

        Whoever needs it no longer calls what is returned.
        """
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    async def wait_synced(self) -> None:
        """Return after the first complete list, or raise what only a person can mend."""
        await self._settled.wait()
        if not self.synced:
            assert self.last_error is not None
            raise self.last_error

    async def run(self) -> None:
        """Fill the table and keep it up to date until cancelled."""
        self._follows = True
        while True:
            try:
                if self._version == NO_VERSION:
                    await self.list()
                await self._watch()
            except ReschedulerError as error:
                self._note(error)
            except Exception:
                logger.exception("Failed to follow a kind", extra={"kind": self.kind.name})
                self._failures += 1
            if self._failures:
                await asyncio.sleep(self._seconds_to_wait())

    async def list(self) -> None:
        """Replace the contents of the table by a complete list.

        Takes part in no back-off of `run`, so it can be used alone, to read everything once.
        """
        for attempt in range(1, self._settings.list_attempts + 1):
            try:
                await self._list_once()
            except Gone as error:
                # The server forgot the list's moment between two pages. What was read of it
                # is worth nothing: objects may have gone since.
                if attempt == self._settings.list_attempts:
                    raise Unavailable(error.call, error.answer, status=error.status) from error
                self._log_failure("Lost a list between two pages", error)
                await asyncio.sleep(self._settings.backoff.seconds(attempt, self._chance))
            else:
                return

    async def _list_once(self) -> None:
        started = self._clock()
        version = ""
        self._table.begin_replace()
        async with aclosing(self._server.list_pages(self.kind, self._settings.page_size)) as pages:
            async for page in pages:
                version = page.resource_version
                for item in page.objects:
                    if isinstance(item, UnreadableObject):
                        self._take_unreadable(item)
                    else:
                        self._tell(self._table.put(item))
        self._tell(self._table.finish_replace())
        self.lists += 1
        self._version = int(version)
        # The list shows the moment at which its first page was asked for.
        self._fresh_at = started
        self._settled.set()
        logger.debug("Listed a kind", extra={"kind": self.kind.name, "version": version})

    async def _watch(self) -> None:
        """Follow changes until the server ends the watch."""
        opened = self._clock()
        timeout_seconds = self._chance.randint(
            self._settings.shortest_watch_seconds, self._settings.longest_watch_seconds
        )
        heard_something = False
        watching = self._server.watch(
            self.kind, str(self._version), timeout_seconds, self._settings.batch_seconds
        )
        async with aclosing(watching) as batches:
            async for events in batches:
                for event in events:
                    self._take(event)
                # Where nothing changes the server may send nothing, not even bookmarks. That it
                # accepted the watch is as good a sign: it sends what it knows beyond our version.
                self._fresh_at = self._clock()
                self.last_error = None
                if events:
                    heard_something = True
                    self._failures = 0
        if not heard_something and self._clock() - opened < self._settings.backoff.limit_seconds:
            raise Unavailable(f"WATCH {self.kind.path}", "the server ended the watch at once")
        self._failures = 0

    def _take(self, event: WatchEvent[T]) -> None:
        """Bring one event into the table."""
        if isinstance(event, Failed):
            raise from_status(f"WATCH {self.kind.path}", event.object)
        if isinstance(event, Bookmark):
            self._version = max(self._version, int(event.object.metadata.resource_version))
            return
        if isinstance(event, Unreadable):
            self._take_unreadable_event(event)
            return
        metadata: ObjectMeta = event.object.metadata  # type: ignore[attr-defined]
        version = int(metadata.resource_version)
        if version <= self._version:
            return
        remove = isinstance(event, Deleted)
        changes = self._table.remove(event.object) if remove else self._table.put(event.object)
        self._version = version
        self._tell(changes)

    def _take_unreadable_event(self, event: Unreadable) -> None:
        version = version_number(event.object.resource_version)
        if version and version <= self._version:
            return
        if event.is_deleted:
            self._tell(self._table.remove_unreadable(event.object))
        else:
            self._take_unreadable(event.object)
        self._version = max(self._version, version)

    def _take_unreadable(self, obj: UnreadableObject) -> None:
        """Go on without an object that cannot be decoded, if that can be done."""
        consequence = obj.consequence if self.kind in CONSEQUENCES else None
        if consequence is None:
            # A list shows the object as it will be then. The watch would only show it again.
            self._version = NO_VERSION
            raise Unavailable(f"LIST {self.kind.path}", f"cannot be decoded: {obj}")
        if self._follows:
            # Who lists once has a snapshot to show it from.
            why = {"problem": obj.problem, "consequence": consequence.value}
            extra = {"kind": obj.kind, "object": obj.key, **why}
            logger.warning("Went on without an object that cannot be decoded", extra=extra)
        self._tell(self._table.put_unreadable(obj))

    def _tell(self, changes: Sequence[TableChange]) -> None:
        if not self._subscribers:
            return
        for change in changes:
            for subscriber in self._subscribers:
                try:
                    subscriber(change)
                except Exception:
                    # The table has the change already, and the other subscribers want it too.
                    logger.exception("Failed to handle a change", extra={"change": change})

    def _note(self, error: ReschedulerError) -> None:
        """Remember a failure, and what follows from it."""
        self.last_error = error
        self._failures += 1
        if isinstance(error, Gone):
            self._version = NO_VERSION
        if isinstance(error, NEEDS_A_PERSON):
            self._settled.set()
        self._log_failure("Lost the connection of a watch", error)

    def _log_failure(self, message: str, error: ReschedulerError) -> None:
        # One lost connection is everyday life, several in a row may need someone to look.
        level = logging.WARNING if self._failures >= FAILURES_TO_WARN else logging.INFO
        extra = {"kind": self.kind.name, "error": str(error), "failures": self._failures}
        logger.log(level, message, extra=extra)

    def _seconds_to_wait(self) -> float:
        is_forbidden = isinstance(self.last_error, Forbidden) and not self.synced
        if is_forbidden and self.kind in MISSING_KINDS:
            # Everything goes on without it; somebody may grant the right.
            return FORBIDDEN_SECONDS
        wished = getattr(self.last_error, "retry_after_seconds", None) or 0.0
        return max(wished, self._settings.backoff.seconds(self._failures, self._chance))
