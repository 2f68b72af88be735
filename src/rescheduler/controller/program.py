"""Composes the program that runs on a cluster: store, watches, planning loop, controller.

Every replica watches the cluster and runs what was added, such as the extender. Only the one that
leads plans and migrates. A replica competes for the lead when it has loaded the cluster, so that it
can continue at once.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from random import Random
from typing import Any, Protocol

from rescheduler.controller.change_handlers import WorkItem
from rescheduler.controller.controller_observer import NO_OBSERVER, ControllerObserver
from rescheduler.controller.migration_controller import MigrationController
from rescheduler.controller.planning_loop import PlanningLoop
from rescheduler.controller.round_cache import Round, RoundTrigger
from rescheduler.controller.work_queue import QueueCounts
from rescheduler.kube.api_server import ApiServer
from rescheduler.kube.clock import WALL_CLOCK, Clock
from rescheduler.kube.listwatch import WatchSettings
from rescheduler.kube.live_store import LiveStore, cancel
from rescheduler.kube.server_features import ServerFeatures, read_server_features
from rescheduler.migration.executor import Executor
from rescheduler.migration.migration_watches import CrdMissing, MigrationWatches
from rescheduler.migration.services.rights import check_service_rights
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.planning.strategies.strategy import Strategy
from rescheduler.settings import Policy

logger = logging.getLogger(__name__)

# Less than the 30 s that Kubernetes gives a pod to stop.
STOP_SECONDS = 20.0
# A fifth of a second makes no difference to a plan. What a migration in progress waits for is shown
# by watches of its own, which hold nothing back.
STORE_WATCH = WatchSettings(batch_seconds=0.2)


class Runnable(Protocol):
    """A part of the program that lies above this package, such as the extender."""

    policy: Policy

    async def run(self) -> None:
        """Run until cancelled."""


class Leadership(Protocol):
    """Says when this replica leads."""

    async def acquire(self) -> None:
        """Return when this replica leads."""

    async def keep(self) -> None:
        """Stay the leader; return when this replica no longer leads."""

    async def release(self) -> None:
        """Let another replica lead, if this one does. It writes nothing any more."""


class SoleReplica:
    """The leadership of a program without other replicas."""

    async def acquire(self) -> None:
        """See `Leadership.acquire`."""

    async def keep(self) -> None:
        """See `Leadership.keep`."""
        await asyncio.Event().wait()

    async def release(self) -> None:
        """See `Leadership.release`."""


class Leader:
    """What only the leader runs. Each term has a new one, which knows what the API server has."""

    def __init__(self, controller: MigrationController, planning_loop: PlanningLoop) -> None:
        self._controller = controller
        self.planning_loop = planning_loop
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def dead_workers(self) -> int:
        """How many workers have ended by themselves."""
        return self._controller.dead_workers

    @property
    def queue_counts(self) -> QueueCounts:
        """How many migrations wait to be processed."""
        return self._controller.queue_counts

    @property
    def failing(self) -> dict[WorkItem, str]:
        """What failed the last time, and why."""
        return self._controller.failing

    def set_policy(self, policy: Policy) -> None:
        """Go by another policy from now on."""
        self.planning_loop.policy = policy
        self._controller.policy = policy

    async def run(self) -> None:
        """Plan and migrate until cancelled, or until `stop` has ended both."""
        parts = self._controller.reconcile(), self.planning_loop.run()
        self._tasks = [asyncio.create_task(part) for part in parts]
        try:
            await asyncio.gather(*self._tasks)
        finally:
            await cancel(self._tasks)

    async def stop(self) -> None:
        """Stop planning, and give the workers time to finish their writes."""
        self._controller.stop()
        self.planning_loop.stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await asyncio.gather(*self._tasks, return_exceptions=True)
        extra = {"in_flight": self._controller.in_flight}
        logger.info("Left migrations in flight to the next controller", extra=extra)


class Program:
    """The whole rescheduler for one cluster. `run` it; `stop` ends it gracefully."""

    def __init__(
        self,
        server: ApiServer,
        policy: Policy,
        *,
        strategies: Mapping[str, type[Strategy]] = {},
        dry_run: bool = False,
        leadership: Leadership | None = None,
        clock: Clock = WALL_CLOCK,
        chance: Random | None = None,
        observer: ControllerObserver = NO_OBSERVER,
    ) -> None:
        """Writes to the `server` must be rejected while `leadership` says that others lead."""
        self._server = server
        self._policy = policy
        self._strategies = strategies
        self._dry_run = dry_run
        self._leadership = leadership or SoleReplica()
        self._observer = observer
        self.clock = clock
        self._chance = chance
        self._tables = ClusterTables()
        self.store = LiveStore(server, self._tables, STORE_WATCH, clock.seconds, chance)
        self.watches = MigrationWatches(
            server, self.store, self._tables, clock=clock.seconds, chance=chance
        )
        self.policy_problem = ""
        """Why a newer policy is not in use; empty if there is none."""
        self._features = ServerFeatures()
        self._planning_loop: PlanningLoop | None = None
        self._leader: Leader | None = None
        self._subscribers: list[Callable[[Round], None]] = []
        self._runnables: list[Runnable] = []
        self._watching: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()

    @property
    def policy(self) -> Policy:
        """What is improved, and how; may be replaced while the program runs."""
        return self._policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self._policy = policy
        if self._leader is not None:
            self._leader.set_policy(policy)
        elif self._planning_loop is not None:
            self._planning_loop.policy = policy
        for runnable in self._runnables:
            runnable.policy = policy
        self.trigger_round(RoundTrigger.POLICY)

    def add(self, runnable: Runnable) -> None:
        """Run something else with the program, by the same policy; if it fails, all ends."""
        self._runnables.append(runnable)

    def subscribe(self, subscriber: Callable[[Round], None]) -> None:
        """Call back after every round that this replica plans."""
        self._subscribers.append(subscriber)

    def trigger_round(self, why: RoundTrigger) -> None:
        """Start the next round soon, if this replica plans."""
        if self._planning_loop is not None:
            self._planning_loop.trigger_round(why)

    @property
    def planning_loop(self) -> PlanningLoop | None:
        """The loop of this replica, while it plans."""
        return self._planning_loop

    @property
    def queue_counts(self) -> QueueCounts | None:
        """How many migrations wait to be processed, while this replica leads."""
        return None if self._leader is None else self._leader.queue_counts

    @property
    def failing(self) -> dict[WorkItem, str]:
        """The objects that failed the last time, and why; nothing while this replica does not
        lead."""
        return {} if self._leader is None else self._leader.failing

    @property
    def is_leading(self) -> bool:
        """Whether this replica plans and migrates."""
        return self._leader is not None

    def planning_seconds(self) -> float:
        """For how long a plan has been being made; 0 while none is."""
        began = None if self._planning_loop is None else self._planning_loop.plan_began
        return 0.0 if began is None else self.clock.seconds() - began

    def dead_tasks(self) -> list[str]:
        """What has ended though it should run as long as the program; nothing starts it again."""
        dead = [task.get_name() for task in self._watching if task.done()]
        if self._leader is not None and self._leader.dead_workers:
            dead.append("migration workers")
        return [*self.store.dead_watches(), *dead]

    def stop(self) -> None:
        """End soon: finish the current writes, and leave migrations in progress as they are."""
        self._stopping.set()

    async def run(self) -> None:
        """Watch, plan and migrate until stopped, or until an error that a person must fix."""
        self.store.start()
        following = asyncio.create_task(self.watches.memory.run(), name="watch moverecords")
        self._watching = [*self.watches.start(), following]
        own = self._plan_without_migrating() if self._dry_run else self._lead_when_elected()
        tasks = [asyncio.create_task(own)]
        tasks += [asyncio.create_task(runnable.run()) for runnable in self._runnables]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
            logger.info("Stopped")
        finally:
            await cancel(tasks)
            await cancel(self._watching)
            await self.store.stop()
            self._watching = []

    # ------------------------------------------------------------ leading

    async def _lead_when_elected(self) -> None:
        """Plan and migrate whenever this replica leads, until stopped."""
        if not await self._unless_stopped(self._load()):
            return
        try:
            while await self._unless_stopped(self._leadership.acquire()):
                await self._lead_one_term()
        finally:
            await self._leadership.release()

    async def _load(self) -> None:
        """Fill the tables. What is missing for that is an error now, and not when others fail."""
        await check_service_rights(self._server, self._policy.migration)
        await self.watches.synced()
        await self.watches.memory.was_read()
        self._features = await read_server_features(self._server)

    async def _lead_one_term(self) -> None:
        """Plan and migrate until this replica no longer leads, or until stopped."""
        leader = self._leader = self._new_leader()
        self._observer.began_to_lead()
        leading = asyncio.create_task(leader.run())
        keeping = asyncio.create_task(self._leadership.keep())
        stopping = asyncio.create_task(until_set(self._stopping))
        tasks = [leading, keeping, stopping]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not leading.done() and not keeping.done():
                # It leads until the last write has ended.
                await leader.stop()
            for task in (leading, keeping):
                if task.done():
                    task.result()
        finally:
            self._leader = self._planning_loop = None
            self._observer.ceased_to_lead()
            await cancel(tasks)

    def _new_leader(self) -> Leader:
        executor = Executor(self._server, self.watches)
        controller = MigrationController(
            self._server,
            self.watches,
            executor,
            self._policy,
            clock=self.clock,
            chance=self._chance,
            observer=self._observer,
        )
        return Leader(controller, self._new_planning_loop())

    def _new_planning_loop(self) -> PlanningLoop:
        self._planning_loop = PlanningLoop(
            self._server,
            self.store,
            self.watches,
            self._policy,
            strategies=self._strategies,
            dry_run=self._dry_run,
            clock=self.clock,
            chance=self._chance,
            observer=self._observer,
        )
        self._planning_loop.placing_blocker = self._features.placing_blocker or ""
        for subscriber in self._subscribers:
            self._planning_loop.subscribe(subscriber)
        return self._planning_loop

    # ------------------------------------------------------------ dry runs

    async def _plan_without_migrating(self) -> None:
        """Run only the planning loop; the CustomResourceDefinition may be missing."""
        await self._unless_stopped(self._load_and_plan())

    async def _load_and_plan(self) -> None:
        with suppress(CrdMissing):
            await self.watches.synced()
        await self.store.synced()
        await self.watches.memory.was_read()
        self._features = await read_server_features(self._server)
        await self._new_planning_loop().run()

    async def _unless_stopped(self, work: Coroutine[Any, Any, None]) -> bool:
        """Do something; False if the program is stopped first, which cancels it."""
        working = asyncio.create_task(work)
        stopping = asyncio.create_task(until_set(self._stopping))
        try:
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()
            return not stopping.done()
        finally:
            await cancel([working, stopping])


async def until_set(event: asyncio.Event) -> None:
    """Return when the event is set."""
    await event.wait()
