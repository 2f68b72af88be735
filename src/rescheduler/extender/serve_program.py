"""The scheduler side in a process of its own, with its own view of the cluster."""

import asyncio
import gc
import logging

from rescheduler.extender.extender_server import ExtenderServer, ServeOptions
from rescheduler.kube.api_server import ApiServer
from rescheduler.kube.live_store import LiveStore, cancel
from rescheduler.migration.migration_watches import MigrationWatches
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.settings import Policy

logger = logging.getLogger(__name__)


class ServeProgram:
    """Watches a cluster and answers questions about it. `run` it; `stop` ends it."""

    def __init__(self, server: ApiServer, policy: Policy, options: ServeOptions) -> None:
        tables = ClusterTables()
        self._store = LiveStore(server, tables)
        self._watching = MigrationWatches(server, self._store, tables)
        self.side = ExtenderServer(server, self._store, self._watching, policy, options)
        self._stopping = asyncio.Event()

    @property
    def policy(self) -> Policy:
        """When a node is too hot, and what counts."""
        return self.side.policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self.side.policy = policy

    def stop(self) -> None:
        """End soon."""
        self._stopping.set()

    async def run(self) -> None:
        """Serve until stopped, or until something only a person can mend."""
        self._store.start()
        watches = self._watching.start()
        # Serving begins at once: whoever asks too early is told so, and health is there to see.
        parts = [self.side.run(), self._get_to_know(), self._until_stopped()]
        tasks = [asyncio.create_task(part) for part in parts]
        serving, knowing, stopping = tasks
        try:
            await asyncio.wait({serving, knowing, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if knowing.done():
                knowing.result()
                await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()
            logger.info("Stopped")
        finally:
            await cancel([*tasks, *watches])
            await self._store.stop()

    async def _get_to_know(self) -> None:
        await self._watching.synced()
        # What was read will mostly stay: a collector that looks at all of it keeps people waiting.
        gc.collect()
        gc.freeze()
        logger.info("Know the cluster")

    async def _until_stopped(self) -> None:
        await self._stopping.wait()
