"""Reconciles Migrations: workers observe, ask the state machine, and carry out its decision.

Nothing is remembered that could not be lost. Kill the process anywhere and start another, and it
continues from what the API server has. Two at once do no harm either, because every write is
rejected unless it was decided for the newest version of its object.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import replace
from random import Random

from msgspec.structs import replace as replaced

from rescheduler.controller.change_handlers import ChangeHandlers, WorkItem
from rescheduler.controller.controller_observer import NO_OBSERVER, ControllerObserver
from rescheduler.controller.events.migration_events import MigrationEventRecorder
from rescheduler.controller.in_flight_limiter import InFlightLimiter
from rescheduler.controller.watch_index import WatchIndex, watch_keys_of
from rescheduler.controller.work_queue import QueueCounts, WorkQueue
from rescheduler.errors import (
    ApiError,
    Conflict,
    Forbidden,
    NotFound,
    OutcomeUnknown,
    Refused,
    ReschedulerError,
    Unavailable,
)
from rescheduler.kube.api_server import ApiServer
from rescheduler.kube.backoff import Backoff
from rescheduler.kube.clock import WALL_CLOCK, Clock
from rescheduler.kube.live_store import cancel
from rescheduler.kube.server_features import ServerFeatures, read_server_features
from rescheduler.log_context import about_migration
from rescheduler.migration.executor import Executor
from rescheduler.migration.leftover_cleanup import LeftoverCleanup, about_migration_of
from rescheduler.migration.migration_object import Migration, Phase, Step
from rescheduler.migration.migration_watches import MigrationWatches
from rescheduler.migration.observer import Observer
from rescheduler.migration.services.rights import check_service_rights
from rescheduler.migration.state_machine.actions import (
    Action,
    Ask,
    CreatePod,
    DeleteMigration,
    MigrationEvent,
    UpdateStatus,
    Wait,
    Write,
)
from rescheduler.migration.state_machine.machine import decide, is_committed, is_start
from rescheduler.migration.state_machine.observation import Observation, Refusal
from rescheduler.migration.state_machine.refusals import (
    handler_failed,
    read_refused,
    refusal_of,
    write_refused,
)
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
# A Migration whose handling fails so often in a row, by an error of this program, is given up.
MAX_UNEXPECTED_ERRORS = 5
# After a step's time, a write that has found no answer so often in a row ends the attempt.
MIN_FAILURES_WHEN_OVERDUE = 5
# When stopped, the next leader waits no longer than this for Events that are not sent yet.
EVENT_SECONDS = 1.0
# What the server refuses now, it will hardly accept a moment later.
REFUSAL_BACKOFF = Backoff(first_seconds=1.0, limit_seconds=300.0)


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
        observer: ControllerObserver = NO_OBSERVER,
    ) -> None:
        self._server = server
        self._notified = observer
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
        self._refusals: defaultdict[str, list[Refusal]] = defaultdict(list)
        """By Migration: the writes of its rollback that the server has refused."""
        self._unexpected_errors: Counter[str] = Counter()
        """By Migration: how often in a row its handling has failed by an error of this program."""
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
    def queue_counts(self) -> QueueCounts:
        """How much there is to do."""
        return self._queue.counts()

    @property
    def failing(self) -> dict[WorkItem, str]:
        """What failed the last time, and why."""
        return self._queue.errors()

    async def run(self) -> None:
        """Watch and reconcile Migrations, for those who do not run the watches themselves."""
        await check_service_rights(self._server, self._policy.migration)
        watches = [*self._watches.start(), asyncio.create_task(self._watches.memory.run())]
        try:
            await self.reconcile()
        finally:
            await cancel(watches)

    async def reconcile(self) -> None:
        """Reconcile Migrations until cancelled, or until the workers have ended after `stop`."""
        with self._handlers.subscribed():
            await self._run_workers()

    async def _run_workers(self) -> None:
        sending = asyncio.create_task(self._events.run())
        try:
            await self._watches.synced()
            await self._watches.memory.was_read()
            features = await read_server_features(self._server)
            log_missing_features(features)
            self._observer.placing_blocker = features.placing_blocker or ""
            self._workers = [
                asyncio.create_task(self._work(), name=f"migration worker {number}")
                for number in range(self._policy.migration.workers)
            ]
            await self._stopping.wait()
            await asyncio.gather(*self._workers)
            await self._events.flush(EVENT_SECONDS)
        finally:
            self._queue.close()
            await cancel([*self._workers, sending])

    @property
    def dead_workers(self) -> int:
        """How many workers have ended though nobody stopped them."""
        return 0 if self._stopping.is_set() else sum(task.done() for task in self._workers)

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
        with ExitStack() as log_context:
            log_context.enter_context(self._logging_about(item))
            await self._reconcile_or_retry(item, log_context)

    def _logging_about(self, item: WorkItem) -> AbstractContextManager[None]:
        """What is logged in the block is about the Migration that an item belongs to.

        That of a budget is known when it was read: watches leave out the annotation that names it.
        """
        if item.kind == "Migration":
            migration = self._watches.migrations.get(item.key)
            return about_migration(item.key, migration.metadata.uid if migration else "")
        pod = self._watches.pods.get(item.key) if item.kind == "Pod" else None
        return about_migration_of(pod.metadata) if pod is not None else nullcontext()

    async def _reconcile_or_retry(self, item: WorkItem, log_context: ExitStack) -> None:
        extra: dict[str, object] = {"kind": item.kind, "key": item.key}
        try:
            await self._reconcile_item(item, log_context)
        except ReschedulerError as error:
            is_refused = isinstance(error, (Refused, Forbidden))
            backoff, text = REFUSAL_BACKOFF if is_refused else None, str(error)
            seconds = self._queue.retry(item, backoff, error=text)
            extra |= {"error": text, "retry_seconds": round(seconds, 2)}
            # Conflicts are normal where two controllers run.
            level = logging.INFO if isinstance(error, Conflict) else logging.WARNING
            logger.log(level, "Failed to reconcile an object", extra=extra)
        except Exception as error:
            logger.exception("Failed to reconcile an object", extra=extra)
            # A Migration is given up after some tries, a leftover is not.
            backoff = None if item.kind == "Migration" else REFUSAL_BACKOFF
            self._queue.retry(item, backoff, error=f"{type(error).__name__}: {error}")
        else:
            self._queue.done(item)

    async def _reconcile_item(self, item: WorkItem, log_context: ExitStack) -> None:
        if item.kind == "Pod":
            seconds = await self._leftovers.check_pod(item.key, self._policy.migration)
            if seconds is not None:
                self._queue.add_after(item, seconds)
        elif item.kind == "PodDisruptionBudget":
            budget = await self._leftovers.budget(item.key)
            if budget is not None:
                # That it could not be deleted is logged later, and is about its migration, too.
                log_context.enter_context(about_migration_of(budget.metadata))
                await self._leftovers.check_budget(budget)
        else:
            try:
                await self._reconcile_or_give_up(item.key)
            finally:
                if item.key not in self._must_reread:
                    migration = self._watches.migrations.get(item.key)
                    self._queue_migrations(self._limiter.update(item.key, migration))
                    self._queue_migrations(self._limiter.release_overdue(self._observer.now()))

    async def _reconcile_or_give_up(self, key: str) -> None:
        """Reconcile a Migration; end it if this has failed too often by an error of the program."""
        try:
            await self._reconcile(key)
        except ReschedulerError:
            raise
        except Exception as error:
            self._unexpected_errors[key] += 1
            if self._unexpected_errors[key] >= MAX_UNEXPECTED_ERRORS:
                # If the server does not accept it now, the next failure asks again.
                with suppress(ReschedulerError):
                    await self._give_up(key, error)
            raise
        del self._unexpected_errors[key]

    async def _give_up(self, key: str, error: Exception) -> None:
        migration = await self._observer.migration(key, fresh=True)
        if migration is None or migration.is_finished:
            return
        o = self._observer.nothing(migration, self._policy)
        text = f"{type(error).__name__}: {error}"
        await self._write(handler_failed(o, text), o)
        # The rollback gets as many tries.
        del self._unexpected_errors[key]

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
            if self._stopping.is_set():
                # The next controller continues.
                return
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
        if migration.is_finished:
            # Before it may be deleted: what is not recorded by then is forgotten.
            await self._watches.memory.record(migration, self._observer.now())
        try:
            o = await self._observe(migration, fresh=fresh)
            action, o = await self._decide(o)
        except (Refused, Forbidden) as error:
            o = self._observer.nothing(migration, self._policy)
            await self._write(read_refused(o, str(error)), o)
            return True
        if isinstance(action, Wait):
            await self._wait(action, o)
            return False
        if not await self._carry_out(action, o):
            return True
        if action.name in AWAITED_ACTIONS:
            self._queue.add_after(WorkItem("Migration", migration.key), RECHECK_SECONDS)
        return action.name not in AWAITED_ACTIONS and not isinstance(action, DeleteMigration)

    async def _observe(self, migration: Migration, *, fresh: bool) -> Observation:
        o = await self._observer.observe(migration, self._policy, fresh=fresh)
        self._watch_index.set(migration.key, watch_keys_of(o))
        if migration.status.step == Step.UNDOING:
            return replace(o, refusals=tuple(self._refusals[migration.key]))
        self._refusals.pop(migration.key, None)
        if migration.status.phase == Phase.PENDING and o.old is not None:
            return replace(o, reached_limit=self._limiter.check(o))
        return o

    async def _decide(self, o: Observation) -> tuple[Wait | Write, Observation]:
        """Ask the state machine, and ask the server what the state machine needs to know."""
        action: Action = decide(o)
        while isinstance(action, Ask):
            o = await self._observer.answer(action.question, o)
            action = decide(o)
        if is_start(action, o) and (limit := self._limiter.reserve(o)):
            o = replace(o, reached_limit=limit)
            action = decide(o)
            assert isinstance(action, Wait)
        return action, o

    async def _carry_out(self, action: Write, o: Observation) -> bool:
        """Carry out an action; False if the server refuses it for good, which ends the attempt."""
        try:
            await self._write(action, o)
        except (Refused, Forbidden, Unavailable, OutcomeUnknown) as error:
            refusal = refusal_of(action, error.answer)
            if refusal is None or not self._is_final(error, o):
                raise
            await self._end_attempt(o, refusal)
            return False
        return True

    def _is_final(self, error: ApiError, o: Observation) -> bool:
        """Whether a write will not succeed in this attempt.

        One that finds no answer, for example because a webhook is down, is retried for as long as
        the step may take, and at least a few times.
        """
        failures = self._queue.failures(WorkItem("Migration", o.migration.key))
        is_overdue = o.now > o.step_deadline and failures >= MIN_FAILURES_WHEN_OVERDUE
        return is_overdue or isinstance(error, (Refused, Forbidden))

    async def _end_attempt(self, o: Observation, refusal: Refusal) -> None:
        """Start the rollback; a rollback that has started goes on without the refused write."""
        key, committed = o.migration.key, is_committed(o)
        if o.migration.status.step == Step.UNDOING and not committed:
            self._refusals[key].append(refusal)
            extra = {"error": refusal.text}
            logger.warning("Skipped a refused write of a rollback", extra=extra)
        else:
            await self._write(write_refused(o, refusal, is_committed=committed), o)

    async def _write(self, action: Write, o: Observation) -> None:
        await self._executor.carry_out(action, o)
        self._report(action, o)

    def _report(self, action: Write, o: Observation) -> None:
        """Log an action that was carried out, and record its Event."""
        migration = o.migration
        extra = {
            "action": action.name,
            "pod": migration.pod_key,
            "target": migration.spec.target_node,
        }
        if isinstance(action, CreatePod):
            self._events.record_for(migration, MigrationEvent.NEW_POD_CREATED, migration.status)
        if not isinstance(action, UpdateStatus):
            logger.debug("Carried out an action of a migration", extra=extra)
            return
        self._notified.migration_updated(migration, action.status, o.now)
        extra |= {"phase": str(action.status.phase), "step": str(action.status.step)}
        logger.info("Updated a migration", extra={**extra, "why": action.status.message})
        if action.event is not None:
            self._events.record_for(migration, action.event, action.status)

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
        self._refusals.pop(key, None)
        self._unexpected_errors.pop(key, None)
        self._queue.drop(WorkItem("Migration", key))


def log_missing_features(features: ServerFeatures) -> None:
    """Warn if moves work differently because the API server is too old."""
    if features.placing_blocker is not None:
        extra = {"why": features.placing_blocker}
        logger.warning("Evicting pods instead of handing them over", extra=extra)
