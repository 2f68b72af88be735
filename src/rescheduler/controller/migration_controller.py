"""Reconciles Migrations: workers observe, ask the state machine, and carry out its decision.

Nothing is remembered that could not be lost. Kill the process anywhere and start another, and it
continues from what the API server has. Two at once do no harm either, because every write is
rejected unless it was decided for the newest version of its object.
"""

import asyncio
import logging
from dataclasses import replace
from random import Random

from msgspec.structs import replace as replaced

from rescheduler.controller.change_handlers import ChangeHandlers, WorkItem
from rescheduler.controller.in_flight_limiter import InFlightLimiter
from rescheduler.controller.migration_events import MigrationEventRecorder
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
from rescheduler.migration.executor import Executor
from rescheduler.migration.leftover_cleanup import LeftoverCleanup
from rescheduler.migration.migration_object import Migration, Phase
from rescheduler.migration.migration_watches import MigrationWatches
from rescheduler.migration.observer import Observer
from rescheduler.migration.state_machine.actions import (
    Action,
    Ask,
    CreatePod,
    DeleteMigration,
    UpdateStatus,
    Wait,
    Write,
)
from rescheduler.migration.state_machine.machine import decide, new_pod_rejected
from rescheduler.migration.state_machine.observation import Observation
from rescheduler.settings import Policy

logger = logging.getLogger(__name__)

# After these, other controllers of the cluster act: a watch shows when to decide again.
AWAITED_ACTIONS = {"adopt", "evict", "delete-new", "create-budget", "delete-budget"}
# If no watch shows anything for so long, decide again: the write may have been lost.
RECHECK_SECONDS = 5.0
# A migration in progress is reconciled this often even if no watch shows a change. That mostly
# costs no call, and a change that was missed delays nothing for long.
RESYNC_SECONDS = 15.0
# More than any migration needs in a row; then other migrations are processed first.
MAX_WRITES_IN_A_ROW = 20
# Somebody else keeps changing the same objects: try again later.
MAX_CONFLICTS_IN_A_ROW = 4


class MigrationController:
    """Carries out the Migrations of a cluster. `run` it; `stop` lets it finish its writes."""

    def __init__(
        self,
        server: ApiServer,
        watches: MigrationWatches,
        executor: Executor,
        policy: Policy,
        *,
        clock: Clock = WALL_CLOCK,
        chance: Random | None = None,
    ) -> None:
        self._watches = watches
        self._executor = executor
        self._policy = policy
        self._limiter = InFlightLimiter(policy.migration)
        self._watch_index = WatchIndex()
        self._queue: WorkQueue[WorkItem] = WorkQueue(chance=chance)
        self._handlers = ChangeHandlers(watches, self._watch_index, self._limiter, self._queue)
        self._events = MigrationEventRecorder(server, clock.now, chance)
        self._observer = Observer(server, watches, clock.now)
        self._leftovers = LeftoverCleanup(server, self._observer, executor)
        self._must_reread: set[str] = set()
        """Migrations that may have progressed further than the watch shows. They keep their slots
        until they have been read from the server."""
        self._stopping = asyncio.Event()
        self._workers: list[asyncio.Task[None]] = []

    @property
    def policy(self) -> Policy:
        """How moves are carried out; may be replaced while the controller runs."""
        return self._policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self._policy = policy
        self._limiter.options = policy.migration
        self._queue_migrations(self._limiter.startable())

    @property
    def in_flight(self) -> int:
        """How many migrations are in progress."""
        return len(self._limiter)

    @property
    def is_running(self) -> bool:
        """Whether any worker is still running."""
        return any(not worker.done() for worker in self._workers)

    async def run(self) -> None:
        """Reconcile Migrations until cancelled, or until the workers have ended after `stop`."""
        self._handlers.subscribe()
        watches = self._watches.start()
        sending = asyncio.create_task(self._events.run())
        try:
            await self._watches.synced()
            self._workers = [
                asyncio.create_task(self._work(), name=f"migration worker {number}")
                for number in range(self._policy.migration.workers)
            ]
            await self._stopping.wait()
            await asyncio.gather(*self._workers)
            await self._events.flush()
        finally:
            self._queue.close()
            await cancel([*self._workers, sending, *watches])

    def stop(self) -> None:
        """Process nothing more, and end when the current writes are finished.

        Migrations in progress stay as they are: another controller continues them.
        """
        self._stopping.set()

    # ------------------------------------------------------------ workers

    async def _work(self) -> None:
        """Process one key after the other, until stopped."""
        while not self._stopping.is_set():
            getting = asyncio.ensure_future(self._queue.get())
            stopping = asyncio.ensure_future(self._stopping.wait())
            try:
                await asyncio.wait({getting, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if getting.done():
                    await self._process(getting.result())
            finally:
                getting.cancel()
                stopping.cancel()

    async def _process(self, item: WorkItem) -> None:
        """Reconcile one object, and queue it again if that fails."""
        extra: dict[str, object] = {"kind": item.kind, "key": item.key}
        try:
            await self._reconcile_item(item)
        except ReschedulerError as error:
            seconds = self._queue.retry(item)
            extra |= {"error": str(error), "retry_seconds": round(seconds, 2)}
            # Conflicts are normal where two controllers run.
            level = logging.INFO if isinstance(error, Conflict) else logging.WARNING
            logger.log(level, "Failed to reconcile an object", extra=extra)
        except Exception:
            logger.exception("Failed to reconcile an object", extra=extra)
            self._queue.retry(item)
        else:
            self._queue.done(item)

    async def _reconcile_item(self, item: WorkItem) -> None:
        if item.kind == "Pod":
            await self._leftovers.check_pod(item.key)
        elif item.kind == "PodDisruptionBudget":
            await self._leftovers.check_budget(item.key)
        else:
            try:
                await self._reconcile(item.key)
            finally:
                if item.key not in self._must_reread:
                    migration = self._watches.migrations.get(item.key)
                    self._queue_migrations(self._limiter.update(item.key, migration))

    def _queue_migrations(self, keys: list[str]) -> None:
        for key in keys:
            self._queue.add(WorkItem("Migration", key))

    # ------------------------------------------------------------ one migration

    async def _reconcile(self, key: str) -> None:
        """Carry out actions for a migration until it has to wait."""
        if self._limiter.must_still_wait(key):
            return
        conflicts = 0
        for _ in range(MAX_WRITES_IN_A_ROW):
            migration = await self._observer.migration(key, fresh=key in self._must_reread)
            self._must_reread.discard(key)
            if migration is None:
                self._forget(key)
                return
            try:
                if not await self._reconcile_once(migration, fresh=conflicts > 0):
                    return
            except (Conflict, NotFound, OutcomeUnknown):
                # It has changed, or nobody knows whether it has: read it again, then decide.
                conflicts += 1
                self._must_reread.add(key)
                if conflicts == MAX_CONFLICTS_IN_A_ROW:
                    raise
            else:
                conflicts = 0
        self._queue.add(WorkItem("Migration", key))

    async def _reconcile_once(self, migration: Migration, *, fresh: bool) -> bool:
        """Observe, decide, act; whether to decide again at once."""
        o = await self._observe(migration, fresh=fresh)
        action, o = await self._decide(o)
        if isinstance(action, Wait):
            await self._wait(action, o)
            return False
        await self._carry_out(action, o)
        if action.name in AWAITED_ACTIONS:
            self._queue.add_after(WorkItem("Migration", migration.key), RECHECK_SECONDS)
        return action.name not in AWAITED_ACTIONS and not isinstance(action, DeleteMigration)

    async def _observe(self, migration: Migration, *, fresh: bool) -> Observation:
        o = await self._observer.observe(migration, self._policy, fresh=fresh)
        self._watch_index.set(migration.key, watch_keys_of(o))
        if migration.status.phase == Phase.PENDING and o.old is not None:
            return replace(o, reached_limit=self._limiter.reserve(o))
        return o

    async def _decide(self, o: Observation) -> tuple[Wait | Write, Observation]:
        """Ask the state machine, and ask the server what the state machine needs to know."""
        action: Action = decide(o)
        while isinstance(action, Ask):
            o = await self._observer.answer(action.question, o)
            action = decide(o)
        return action, o

    async def _carry_out(self, action: Write, o: Observation) -> None:
        try:
            await self._executor.carry_out(action, o)
        except (Refused, Forbidden) as error:
            if not isinstance(action, CreatePod):
                raise
            action = new_pod_rejected(o, error.answer)
            await self._executor.carry_out(action, o)
        self._report(action, o)

    def _report(self, action: Write, o: Observation) -> None:
        """Log an action that was carried out, and record its Event."""
        migration = o.migration
        extra = {
            "migration": migration.key,
            "action": action.name,
            "pod": migration.pod_key,
            "target": migration.spec.target_node,
        }
        if not isinstance(action, UpdateStatus):
            logger.debug("Carried out an action of a migration", extra=extra)
            return
        extra |= {"phase": str(action.status.phase), "step": str(action.status.step)}
        logger.info("Updated a migration", extra={**extra, "why": action.status.message})
        if action.event:
            self._events.record_for(migration, action.event, action.status.message)

    async def _wait(self, action: Wait, o: Observation) -> None:
        """Write the message of a wait into the status, and schedule the next look."""
        status = o.migration.status
        if action.message and action.message != status.message:
            update = UpdateStatus("message", replaced(status, message=action.message))
            await self._executor.carry_out(update, o)
        seconds = [] if action.seconds is None else [action.seconds]
        if o.migration.is_in_progress:
            seconds.append(RESYNC_SECONDS)
        if seconds:
            self._queue.add_after(WorkItem("Migration", o.migration.key), min(seconds))

    def _forget(self, key: str) -> None:
        """Drop a deleted Migration; what it has changed is cleaned up as leftovers."""
        self._watch_index.remove(key)
        self._queue.drop(WorkItem("Migration", key))
