"""A migration controller in this process, for `--here`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from rescheduler.controller.migration_controller import MigrationController
from rescheduler.kube.client import Client
from rescheduler.kube.live_store import LiveStore
from rescheduler.migration.executor import Executor
from rescheduler.migration.migration_watches import MigrationWatches
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.settings import Policy

T = TypeVar("T")


@asynccontextmanager
async def local_controller(server: Client, policy: Policy) -> AsyncIterator[asyncio.Task[None]]:
    """Run a migration controller while the block runs; its task, to see whether it failed.

    The block starts when the controller has read everything that it needs.
    """
    tables = ClusterTables()
    store = LiveStore(server, tables)
    store.start()
    watches = MigrationWatches(server, store, tables)
    executor = Executor(server, watches)
    controller = MigrationController(server, watches, executor, policy, clock=server.server_clock)
    running = asyncio.create_task(controller.run())
    try:
        await unless_fails(watches.synced(), running)
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
