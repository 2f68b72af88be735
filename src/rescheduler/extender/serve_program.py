"""`rescheduler serve`: the extender in a process of its own, with its own watches."""

import asyncio
import gc
import logging
from typing import Protocol

from rescheduler.extender.extender_server import ExtenderServer, ServeOptions
from rescheduler.extender.serving_observer import NO_SERVING_OBSERVER, ServingObserver
from rescheduler.kube.api_server import ApiServer
from rescheduler.kube.live_store import LiveStore, cancel
from rescheduler.migration.migration_watches import MigrationWatches
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.settings import Policy

logger = logging.getLogger(__name__)


class ServePart(Protocol):
    """Something that runs beside the extender, by the same policy."""

    policy: Policy

    async def run(self) -> None:
        """Run until cancelled."""


class ServeProgram:
    """Watches a cluster and serves the extender. `run` it; `stop` ends it."""

    def __init__(
        self,
        server: ApiServer,
        policy: Policy,
        options: ServeOptions,
        observer: ServingObserver = NO_SERVING_OBSERVER,
    ) -> None:
        tables = ClusterTables()
        self.store = LiveStore(server, tables)
        self.watches = MigrationWatches(server, self.store, tables)
        self.extender = ExtenderServer(server, self.watches, policy, options, observer=observer)
        self._watching: list[asyncio.Task[None]] = []
        self._parts: list[ServePart] = [self.extender]
        self._stopping = asyncio.Event()

    @property
    def policy(self) -> Policy:
        """The policy with the limits and weights to answer by."""
        return self.extender.policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        for part in self._parts:
            part.policy = policy

    def dead_tasks(self) -> list[str]:
        """What has ended though it should run as long as the program; nothing starts it again."""
        dead = [task.get_name() for task in self._watching if task.done()]
        return [*self.store.dead_watches(), *dead]

    @property
    def tables(self) -> ClusterTables:
        """What the store fills."""
        return self.watches.tables

    def add(self, part: ServePart) -> None:
        """Run something else with the extender; if it fails, all ends."""
        self._parts.append(part)

    def stop(self) -> None:
        """Let `run` return soon."""
        self._stopping.set()

    async def run(self) -> None:
        """Serve until stopped, or until an error that only a person can fix."""
        self.store.start()
        self._watching = self.watches.start()
        # Serving starts before the cluster is loaded: until then /readyz and responses say so.
        serving = [asyncio.create_task(part.run()) for part in self._parts]
        loading = asyncio.create_task(self._load_cluster())
        stopping = asyncio.create_task(self._until_stopped())
        try:
            waited = [*serving, stopping]
            await asyncio.wait([loading, *waited], return_when=asyncio.FIRST_COMPLETED)
            if loading.done():
                loading.result()
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            for task in serving:
                if task.done():
                    task.result()
            logger.info("Stopped")
        finally:
            await cancel([*serving, loading, stopping, *self._watching])
            await self.store.stop()

    async def _load_cluster(self) -> None:
        await self.watches.synced()
        # Most of what was loaded stays. Without this, every full garbage collection would walk
        # through all of it and delay responses.
        gc.collect()
        gc.freeze()
        logger.info("Loaded the cluster")

    async def _until_stopped(self) -> None:
        await self._stopping.wait()
