"""Everything that runs together: the cluster's store, the controller, and the rounds."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from random import Random
from typing import Protocol

from rescheduler.controller.migration_controller import MigrationController
from rescheduler.controller.migration_watches import CrdMissing, MigrationWatches
from rescheduler.controller.planning_loop import PlanningLoop
from rescheduler.kube.api_server import ApiServer
from rescheduler.kube.clock import WALL_CLOCK, Clock
from rescheduler.kube.live_store import LiveStore, cancel
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.planning.strategies.strategy import Strategy
from rescheduler.settings import Policy

logger = logging.getLogger(__name__)

# Less than the 30 s that Kubernetes gives a pod to stop.
STOP_SECONDS = 20.0


class Companion(Protocol):
    """What may run beside it, by the same policy."""

    policy: Policy

    async def run(self) -> None:
        """Run until cancelled."""


class Program:
    """The whole rescheduler for one cluster. `run` it; `stop` ends it in good order."""

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
        self._dry_run = dry_run
        self.store = LiveStore(server, tables, clock=clock.seconds, chance=chance)
        self.watching = MigrationWatches(
            server, self.store, tables, clock=clock.seconds, chance=chance
        )
        self.controller = MigrationController(
            server, self.watching, policy.migration_options(), clock=clock, chance=chance
        )
        self.rounds = PlanningLoop(
            server,
            self.store,
            self.watching,
            policy,
            strategies=strategies,
            dry_run=dry_run,
            clock=clock,
        )
        self._companions: list[Companion] = []
        self._stopping = asyncio.Event()

    @property
    def policy(self) -> Policy:
        """What is improved, and how."""
        return self.rounds.policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self.rounds.policy = policy
        self.controller.options = policy.migration_options()
        for companion in self._companions:
            companion.policy = policy
        self.rounds.soon()

    def accompany(self, companion: Companion) -> None:
        """Run something else beside it, on the same store; if that fails, all ends."""
        self._companions.append(companion)

    def stop(self) -> None:
        """End soon: finish what is being written, and leave the rest in the API server."""
        self._stopping.set()

    async def run(self) -> None:
        """Watch, plan and migrate until stopped, or until something only a person can mend."""
        self.store.start()
        parts = [self._look()] if self._dry_run else [self.controller.run(), self._plan()]
        tasks = [asyncio.create_task(part) for part in parts]
        beside = [asyncio.create_task(companion.run()) for companion in self._companions]
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            watched = {*tasks, *beside, stopping}
            await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            for task in (*tasks, *beside):
                if task.done():
                    task.result()
            await self._wind_up(tasks)
        finally:
            stopping.cancel()
            await cancel([*tasks, *beside])
            await self.store.stop()

    async def _wind_up(self, tasks: list[asyncio.Task[None]]) -> None:
        """Plan nothing more, and let the workers finish what they are at."""
        self.controller.stop()
        if not self._dry_run:
            tasks[-1].cancel()
        if self.controller.is_running:
            with suppress(TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await asyncio.gather(tasks[0], return_exceptions=True)
        parked = {"in_flight": self.controller.in_flight}
        logger.info("Stopped; migrations in flight stay parked in the API server", extra=parked)

    async def _plan(self) -> None:
        await self.store.synced()
        await self.watching.synced()
        await self.rounds.run()

    async def _look(self) -> None:
        """Plan without migrating; Migrations are only remembered if there are any."""
        watches = self.watching.start()
        try:
            with suppress(CrdMissing):
                await self.watching.synced()
            await self.store.synced()
            await self.rounds.run()
        finally:
            await cancel(watches)
