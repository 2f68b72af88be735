"""A migration controller in this process, for `--here`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from rescheduler.controller.migration_controller import MigrationController
from rescheduler.controller.migration_watches import MigrationWatches
from rescheduler.kube.api_server import ApiServer
from rescheduler.kube.live_store import LiveStore
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.settings import MigrationOptions

T = TypeVar("T")


@asynccontextmanager
async def local_controller(
    server: ApiServer, options: MigrationOptions
) -> AsyncIterator[asyncio.Task[None]]:
    """Run a migration controller while the block runs; its task, to see whether it failed."""
    tables = ClusterTables()
    store = LiveStore(server, tables)
    store.start()
    controller = MigrationController(server, MigrationWatches(server, store, tables), options)
    running = asyncio.create_task(controller.run())
    try:
        yield running
        controller.stop()
        await running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await store.stop()


async def unless_fails(work: Awaitable[T], other: asyncio.Task[None] | None) -> T:
    """The result of `work`; but if the other task fails first, its error is raised."""
    task = asyncio.ensure_future(work)
    try:
        waiting: set[asyncio.Future[Any]] = {task} if other is None else {task, other}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if other is not None and other.done():
            other.result()
        return await task
    finally:
        task.cancel()
