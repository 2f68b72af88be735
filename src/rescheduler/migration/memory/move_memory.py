"""The memory of moves that are over: MoveRecords, which outlive their Migrations.

All of it is in the API server. A process reads it when it starts and follows its changes, so a
successor, or a second controller, knows the same. Without the right to it, or without its
CustomResourceDefinition, what is known is what finished Migrations say.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from datetime import datetime
from random import Random

from rescheduler.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    NotFound,
    Refused,
    ReschedulerError,
)
from rescheduler.kube.api_server import ApiServer, collection_path, object_path
from rescheduler.kube.backoff import Backoff
from rescheduler.kube.clock import WALL_CLOCK
from rescheduler.kube.listwatch import ListWatch, WatchSettings
from rescheduler.migration.memory.move_record import MOVE_RECORD, MoveRecord, body_of, record_of
from rescheduler.migration.memory.record_retention import dropped_records
from rescheduler.migration.migration_object import Migration
from rescheduler.model.tables.object_table import ObjectTable
from rescheduler.model.tables.table import TableChange

logger = logging.getLogger(__name__)

# Somebody may have granted the missing right, or installed the missing kind.
RETRY_SECONDS = 300.0
# A list that has failed so often is not waited for: nothing would be moved until it works.
MAX_FAILURES = 4
BACKOFF = Backoff()


class MoveMemory:
    """Reads and writes MoveRecords. `run` it to follow them; `record` what has ended."""

    def __init__(
        self,
        server: ApiServer,
        settings: WatchSettings | None = None,
        clock: Callable[[], float] = WALL_CLOCK.seconds,
        chance: Random | None = None,
    ) -> None:
        self.changes = 0
        """How often a record came or went: while it stays the same, so do the records."""
        self._server = server
        self._clock = clock
        self._table: ObjectTable[MoveRecord] = ObjectTable(MOVE_RECORD)
        self.watch = ListWatch(server, self._table, settings, clock, chance)
        self.watch.subscribe(self._observe)
        self._chance = chance or Random()
        self._written: dict[str, MoveRecord] = {}
        """By name: records that we wrote and the watch has not shown yet."""
        self._deleted: set[str] = set()
        """By name: records that we deleted and the watch still shows."""
        self._noteworthy: dict[str, MoveRecord] = {}
        """By name: records that have found out something about their workload."""
        self._was_read = asyncio.Event()
        self._has_warned = False
        self._not_before = 0.0
        """By the clock: when to write again after a right or the kind was missing."""

    # ------------------------------------------------------------ reading

    async def run(self) -> None:
        """Follow the records until cancelled."""
        failures = 0
        while not self.watch.synced:
            try:
                await self.watch.list()
            except ReschedulerError as error:
                self.watch.last_error = error
                failures += 1
                is_missing = isinstance(error, (Forbidden, NotFound))
                if is_missing or failures >= MAX_FAILURES:
                    self._warn(error)
                    self._was_read.set()
                seconds = BACKOFF.seconds(failures, self._chance)
                await asyncio.sleep(RETRY_SECONDS if is_missing else seconds)
        self._was_read.set()
        await self.watch.run()

    async def was_read(self) -> None:
        """Return when the records were read, or it is known that they cannot be."""
        await self._was_read.wait()

    def records(self, migrations: Iterable[Migration] = ()) -> list[MoveRecord]:
        """Every record, and those of these Migrations that have ended, whether recorded or not."""
        ended = (record_of(migration) for migration in migrations)
        found = {record.name: record for record in ended if record is not None}
        return list((found | self._recorded()).values())

    def with_findings(self, now: datetime) -> list[MoveRecord]:
        """The records that have found out something about their workload, if still believed."""
        return [record for record in self._noteworthy.values() if record.has_findings(now)]

    def _recorded(self) -> dict[str, MoveRecord]:
        return self._written | self._table.by_key()

    def _observe(self, change: TableChange) -> None:
        self.changes += 1
        self._written.pop(change.key, None)
        record = self._table.get(change.key)
        if record is None:
            self._deleted.discard(change.key)
            self._noteworthy.pop(change.key, None)
        else:
            self._note(record)

    def _note(self, record: MoveRecord) -> None:
        if record.spec.unreplaced or record.spec.nomination_ignored:
            self._noteworthy[record.name] = record

    # ------------------------------------------------------------ writing

    async def record(self, migration: Migration, now: datetime) -> None:
        """Record a Migration that has ended, unless it is recorded.

        Raises if the server could not answer: the caller keeps the Migration and asks again.
        Where records cannot be used at all, moves go on without.
        """
        record = record_of(migration)
        if record is None or record.name in self._written or record.name in self._table:
            return
        if self._clock() < self._not_before:
            return
        try:
            answer = await self._server.create(collection_path(MOVE_RECORD), body_of(record))
        except AlreadyExists:
            # By another controller, or by an earlier attempt whose answer was lost.
            return
        except (Forbidden, NotFound) as error:
            self._not_before = self._clock() + RETRY_SECONDS
            self._warn(error)
            return
        except Refused as error:
            # Another one may be accepted.
            self._warn(error)
            return
        if record.name not in self._table:
            self._written[record.name] = answer.decode(MoveRecord)
            self._note(self._written[record.name])
        self.changes += 1
        await self._drop_surplus(now)

    async def _drop_surplus(self, now: datetime) -> None:
        """Delete what is too old or too much. What fails now is tried with the next record."""
        recorded = self._recorded()
        kept = [record for name, record in recorded.items() if name not in self._deleted]
        for record in dropped_records(kept, now):
            self._deleted.add(record.name)
            self._written.pop(record.name, None)
            try:
                await self._server.delete(
                    object_path(MOVE_RECORD, record.name), uid=record.metadata.uid
                )
            except (NotFound, Conflict):
                # Another controller was faster.
                continue
            except ReschedulerError as error:
                self._deleted.discard(record.name)
                extra = {"record": record.name, "error": str(error)}
                logger.info("Failed to delete a record of a move", extra=extra)
                return

    def _warn(self, error: ReschedulerError) -> None:
        """Say once what is missing, and what to do."""
        if self._has_warned:
            return
        self._has_warned = True
        extra = {
            "why": "MoveRecords cannot be read or written",
            "error": str(error),
            "consequence": "failed moves are forgotten with their Migrations (keepFinished)",
        }
        if isinstance(error, NotFound):
            extra["todo"] = "install them with: rescheduler crds | kubectl apply -f -"
        elif isinstance(error, Forbidden):
            rights = "list, watch, create and delete"
            extra["todo"] = f"grant the controller {rights} of moverecords in rescheduler.dev"
        logger.warning("Went on without the memory of earlier moves", extra=extra)
