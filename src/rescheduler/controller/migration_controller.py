"""The controller: watches feed keys to a queue, workers ask the machine and do what it says.

Nothing is remembered that could not be forgotten: kill it anywhere, start another, and that one
goes on from what the API server has. Two at once do no harm either, because every write is
refused unless it was decided for the newest version of its object.
"""

import asyncio
import logging
from dataclasses import replace
from random import Random
from typing import Literal, NamedTuple

from msgspec.structs import replace as replaced

from rescheduler.controller.in_flight_limiter import InFlightLimiter
from rescheduler.controller.migration_watches import MigrationWatches
from rescheduler.controller.watch_index import WatchIndex, watch_keys_of
from rescheduler.controller.work_queue import WorkQueue
from rescheduler.errors import (
    Conflict,
    Forbidden,
    NotFound,
    OutcomeUnknown,
    Refused,
    ReschedulerError,
)
from rescheduler.kube.api_server import ApiServer
from rescheduler.kube.clock import WALL_CLOCK, Clock
from rescheduler.kube.live_store import cancel
from rescheduler.migration.executor import Executor, Reached, ignore
from rescheduler.migration.leftover_cleanup import LeftoverCleanup
from rescheduler.migration.migration_events import MigrationEventRecorder
from rescheduler.migration.migration_object import Migration, Phase
from rescheduler.migration.observer import Observer
from rescheduler.migration.state_machine.actions import (
    Action,
    Ask,
    CreatePod,
    Forget,
    Record,
    Wait,
    Write,
)
from rescheduler.migration.state_machine.machine import decide, refused
from rescheduler.migration.state_machine.observation import Observation
from rescheduler.settings import MigrationOptions

logger = logging.getLogger(__name__)

# What only the cluster can answer: the next decision waits until a watch shows the answer.
AWAITED = {"adopt", "evict", "delete-new", "create-budget", "delete-budget"}
# If it shows nothing for so long, look again: the answer may have been lost.
LOOK_AGAIN_SECONDS = 5.0
# A migration in progress is looked at so often even if no watch shows anything. Mostly that costs
# no call, and it keeps a change that was missed from holding up anything for long.
RESYNC_SECONDS = 15.0
# Far more than any migration takes in a row; then others have their turn.
MOST_WRITES = 20
# Someone else keeps changing the same objects: come back later.
MOST_SURPRISES = 4


class Work(NamedTuple):
    """A key in the queue: a Migration to go on with, or an object that may be a leftover."""

    kind: Literal["Migration", "Pod", "PodDisruptionBudget"]
    key: str


class MigrationController:
    """Carries out the Migrations of a cluster. `run` it; `stop` lets it finish what it is at."""

    def __init__(
        self,
        server: ApiServer,
        watching: MigrationWatches,
        options: MigrationOptions,
        reached: Reached = ignore,
        clock: Clock = WALL_CLOCK,
        chance: Random | None = None,
    ) -> None:
        self._watching = watching
        self._places = InFlightLimiter(options)
        self._interests = WatchIndex()
        self._queue: WorkQueue[Work] = WorkQueue(chance=chance)
        self._events = MigrationEventRecorder(server, clock.now, chance)
        self._observer = Observer(
            server, watching.tables, watching.migrations, watching.pods, clock.now
        )
        self._hands = Executor(server, watching.migrations, watching.pods, reached)
        self._leftovers = LeftoverCleanup(server, self._observer, self._hands)
        self._unsure: set[str] = set()
        """Migrations that may be further than we know: until they have been read, they keep their
        places."""
        self._stopping = asyncio.Event()
        self._workers: list[asyncio.Task[None]] = []

    @property
    def options(self) -> MigrationOptions:
        """How moves are carried out."""
        return self._places.options

    @options.setter
    def options(self, options: MigrationOptions) -> None:
        self._places.options = options
        self._start_more(self._places.next_to_start())

    @property
    def in_flight(self) -> int:
        """How many migrations are in progress."""
        return len(self._places)

    @property
    def is_running(self) -> bool:
        """Whether any worker is still at work."""
        return any(not worker.done() for worker in self._workers)

    async def run(self) -> None:
        """Carry out Migrations until cancelled, or until `stop` has been heeded."""
        self._watching.subscribe(self._migration_changed, self._thing_changed, self._leftover)
        watches = self._watching.start()
        telling = asyncio.create_task(self._events.run())
        try:
            await self._watching.synced()
            self._workers = [
                asyncio.create_task(self._work(), name=f"migration worker {number}")
                for number in range(self.options.workers)
            ]
            await self._stopping.wait()
            await asyncio.gather(*self._workers)
            await self._events.flush()
        finally:
            self._queue.close()
            await cancel([*self._workers, telling, *watches])

    def stop(self) -> None:
        """Take up nothing new, and end when what is being written has been written.

        Migrations stay where they are: all about them is in the API server.
        """
        self._stopping.set()

    # ------------------------------------------------------------ what watches show

    def _migration_changed(self, key: str, migration: Migration | None) -> None:
        # One that another process has begun takes up its place before anyone looks at it.
        if migration is not None and migration.is_in_progress:
            self._places.settle(key, migration)
        self._queue.add(Work("Migration", key))

    def _thing_changed(self, kind: str, key: str) -> None:
        for interested in self._interests.in_thing(kind, key):
            self._queue.add(Work("Migration", interested))

    def _leftover(self, kind: Literal["Pod", "PodDisruptionBudget"], key: str) -> None:
        self._queue.add(Work(kind, key))

    # ------------------------------------------------------------ workers

    async def _work(self) -> None:
        """Take key after key, until told to stop."""
        while not self._stopping.is_set():
            getting = asyncio.ensure_future(self._queue.get())
            stopping = asyncio.ensure_future(self._stopping.wait())
            try:
                await asyncio.wait({getting, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if getting.done():
                    await self._handle(getting.result())
            finally:
                getting.cancel()
                stopping.cancel()

    async def _handle(self, work: Work) -> None:
        try:
            await self._turn(work)
        except ReschedulerError as error:
            seconds = self._queue.retry(work)
            extra = {"key": work.key, "error": str(error), "wait": round(seconds, 2)}
            # Where two controllers run, they keep being faster than each other.
            level = logging.INFO if isinstance(error, Conflict) else logging.WARNING
            logger.log(level, "Failed to go on with a migration, will try again", extra=extra)
        except Exception:
            logger.exception("Failed to go on with a migration", extra={"key": work.key})
            self._queue.retry(work)
        else:
            self._queue.done(work)

    async def _turn(self, work: Work) -> None:
        if work.kind == "Pod":
            await self._leftovers.look_at_pod(work.key)
        elif work.kind == "PodDisruptionBudget":
            await self._leftovers.look_at_budget(work.key)
        else:
            try:
                await self._go_on(work.key)
            finally:
                if work.key not in self._unsure:
                    migration = self._watching.migrations.get(work.key)
                    self._start_more(self._places.settle(work.key, migration))

    def _start_more(self, keys: list[str]) -> None:
        for key in keys:
            self._queue.add(Work("Migration", key))

    # ------------------------------------------------------------ one migration

    async def _go_on(self, key: str) -> None:
        """Do for a migration whatever can be done now."""
        if self._places.still_waits(key):
            return
        surprises = 0
        for _ in range(MOST_WRITES):
            migration = await self._observer.migration(key, fresh=key in self._unsure)
            self._unsure.discard(key)
            if migration is None:
                self._forget(key)
                return
            try:
                if not await self._next_step(migration, fresh=surprises > 0):
                    return
            except (Conflict, NotFound, OutcomeUnknown):
                # It is not as it was seen, or nobody knows: look at it anew, then decide.
                surprises += 1
                self._unsure.add(key)
                if surprises == MOST_SURPRISES:
                    raise
            else:
                surprises = 0
        self._queue.add(Work("Migration", key))

    async def _next_step(self, migration: Migration, *, fresh: bool) -> bool:
        """Observe, decide, act; whether there may be more to do at once."""
        o = await self._observe(migration, fresh=fresh)
        action, o = await self._decide(o)
        if isinstance(action, Wait):
            await self._wait(action, o)
            return False
        await self._carry_out(action, o)
        if action.name in AWAITED:
            self._queue.add_after(Work("Migration", migration.key), LOOK_AGAIN_SECONDS)
        return action.name not in AWAITED and not isinstance(action, Forget)

    async def _observe(self, migration: Migration, *, fresh: bool) -> Observation:
        o = await self._observer.observe(migration, self.options, fresh=fresh)
        self._interests.set(migration.key, watch_keys_of(o))
        if migration.status.phase == Phase.PENDING and o.old is not None:
            return replace(o, no_place=self._places.ask(o))
        return o

    async def _decide(self, o: Observation) -> tuple[Wait | Write, Observation]:
        """Ask the machine, and the server what the machine wants to know."""
        action: Action = decide(o)
        while isinstance(action, Ask):
            o = await self._observer.answer(action.question, o)
            action = decide(o)
        return action, o

    async def _carry_out(self, action: Write, o: Observation) -> None:
        try:
            await self._hands.carry_out(action, o)
        except (Refused, Forbidden) as error:
            if not isinstance(action, CreatePod):
                raise
            action = refused(o, error.answer)
            await self._hands.carry_out(action, o)
        self._tell(action, o)

    def _tell(self, action: Write, o: Observation) -> None:
        migration = o.migration
        extra = {
            "migration": migration.key,
            "action": action.name,
            "pod": migration.pod_key,
            "target": migration.spec.target_node,
        }
        if not isinstance(action, Record):
            logger.debug("Carried out a step of a migration", extra=extra)
            return
        extra |= {"phase": str(action.status.phase), "step": str(action.status.step)}
        logger.info("Moved a migration on", extra={**extra, "why": action.status.message})
        if action.event:
            self._events.tell(migration, action.event, action.status.message)

    async def _wait(self, action: Wait, o: Observation) -> None:
        """Say what is awaited, if it is worth telling, and look again in time."""
        status = o.migration.status
        if action.message and action.message != status.message:
            told = Record("message", replaced(status, message=action.message))
            await self._hands.carry_out(told, o)
        seconds = [] if action.seconds is None else [action.seconds]
        if o.migration.is_in_progress:
            seconds.append(RESYNC_SECONDS)
        if seconds:
            self._queue.add_after(Work("Migration", o.migration.key), min(seconds))

    def _forget(self, key: str) -> None:
        """A Migration was deleted: it leaves every queue, and what it has touched is put back."""
        self._interests.forget(key)
        self._queue.drop(Work("Migration", key))
