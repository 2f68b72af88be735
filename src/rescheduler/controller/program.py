"""Composes the program that runs on a cluster: store, watches, planning loop, controller."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from random import Random
from typing import Protocol

from rescheduler.controller.migration_controller import MigrationController
from rescheduler.controller.planning_loop import PlanningLoop
from rescheduler.kube.api_server import ApiServer
from rescheduler.kube.clock import WALL_CLOCK, Clock
from rescheduler.kube.live_store import LiveStore, cancel
from rescheduler.kube.server_features import read_server_features
from rescheduler.migration.executor import Executor
from rescheduler.migration.migration_watches import CrdMissing, MigrationWatches
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.planning.strategies.strategy import Strategy
from rescheduler.settings import Policy

logger = logging.getLogger(__name__)

# Less than the 30 s that Kubernetes gives a pod to stop.
STOP_SECONDS = 20.0


class Runnable(Protocol):
    """A part of the program that lies above this package, such as the extender."""

    policy: Policy

    async def run(self) -> None:
        """Run until cancelled."""


class Program:
    """The whole rescheduler for one cluster. `run` it; `stop` ends it gracefully."""

    def __init__(
        self,
        server: ApiServer,
        policy: Policy,
        *,
        strategies: Mapping[str, type[Strategy]] = {},
        dry_run: bool = False,
        clock: Clock = WALL_CLOCK,
        chance: Random | None = None,
    ) -> None:
        tables = ClusterTables()
        self._server = server
        self._dry_run = dry_run
        self.store = LiveStore(server, tables, clock=clock.seconds, chance=chance)
        self.watches = MigrationWatches(
            server, self.store, tables, clock=clock.seconds, chance=chance
        )
        self.migration_controller = MigrationController(
            server,
            self.watches,
            Executor(server, self.watches),
            policy,
            clock=clock,
            chance=chance,
        )
        self.planning_loop = PlanningLoop(
            server,
            self.store,
            self.watches,
            policy,
            strategies=strategies,
            dry_run=dry_run,
            clock=clock,
        )
        self._runnables: list[Runnable] = []
        self._stopping = asyncio.Event()

    @property
    def policy(self) -> Policy:
        """What is improved, and how; may be replaced while the program runs."""
        return self.planning_loop.policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self.planning_loop.policy = policy
        self.migration_controller.policy = policy
        for runnable in self._runnables:
            runnable.policy = policy
        self.planning_loop.trigger_round()

    def add(self, runnable: Runnable) -> None:
        """Run something else with the program, by the same policy; if it fails, all ends."""
        self._runnables.append(runnable)

    def stop(self) -> None:
        """End soon: finish the current writes, and leave migrations in progress as they are."""
        self._stopping.set()

    async def run(self) -> None:
        """Watch, plan and migrate until stopped, or until an error that a person must fix."""
        self.store.start()
        if self._dry_run:
            parts = [self._plan_without_migrating()]
        else:
            parts = [self.migration_controller.run(), self._plan()]
        tasks = [asyncio.create_task(part) for part in parts]
        added = [asyncio.create_task(runnable.run()) for runnable in self._runnables]
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({*tasks, *added, stopping}, return_when=asyncio.FIRST_COMPLETED)
            for task in (*tasks, *added):
                if task.done():
                    task.result()
            await self._shut_down(tasks)
        finally:
            stopping.cancel()
            await cancel([*tasks, *added])
            await self.store.stop()

    async def _shut_down(self, tasks: list[asyncio.Task[None]]) -> None:
        """Stop planning, and give the workers time to finish their writes."""
        self.migration_controller.stop()
        if not self._dry_run:
            tasks[-1].cancel()
        if self.migration_controller.is_running:
            with suppress(TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await asyncio.gather(tasks[0], return_exceptions=True)
        extra = {"in_flight": self.migration_controller.in_flight}
        logger.info("Stopped, leaving migrations in flight to the next controller", extra=extra)

    async def _plan(self) -> None:
        await self.store.synced()
        await self.watches.synced()
        await self.watches.memory.was_read()
        await self._run_planning_loop()

    async def _run_planning_loop(self) -> None:
        features = await read_server_features(self._server)
        self.planning_loop.placing_blocker = features.placing_blocker or ""
        await self.planning_loop.run()

    async def _plan_without_migrating(self) -> None:
        """Run only the planning loop; the CustomResourceDefinition may be missing."""
        watch_tasks = [*self.watches.start(), asyncio.create_task(self.watches.memory.run())]
        try:
            with suppress(CrdMissing):
                await self.watches.synced()
            await self.store.synced()
            await self.watches.memory.was_read()
            await self._run_planning_loop()
        finally:
            await cancel(watch_tasks)
