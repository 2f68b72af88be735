"""Follow Migrations live, until they have finished or someone has seen enough."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

from rescheduler.controller.migration_controller import MigrationController
from rescheduler.errors import NotFound
from rescheduler.kube.api_server import ApiServer, object_path
from rescheduler.kube.listwatch import ListWatch
from rescheduler.kube.live_store import LiveStore
from rescheduler.labels import MIGRATION_NAME
from rescheduler.migration.executor import Executor
from rescheduler.migration.migration_object import MIGRATION, Migration
from rescheduler.migration.migration_watches import CrdMissing, MigrationWatches
from rescheduler.migration.moving_pod import LABELLED_POD, MovingPod
from rescheduler.model.kinds import POD
from rescheduler.model.objects import Page
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.model.tables.object_table import ObjectTable
from rescheduler.settings import Policy

T = TypeVar("T")

# A controller takes up a Migration within moments; who sees nothing for so long should know why.
SUSPICIOUS_SECONDS = 10.0
# A person who has interrupted us does not wait for long.
UNDONE_LOOKS, UNDONE_LOOK_SECONDS = 20, 0.5


class View(Protocol):
    """Shows how Migrations get along."""

    def show(self, migrations: Mapping[str, Migration | None]) -> None:
        """Show them as they are now; None stands for one that is gone."""

    def warn(self, text: str) -> None:
        """Show something that the person should know."""


async def check_installed(server: ApiServer) -> None:
    """Raise `CrdMissing` unless the server knows Migrations."""
    try:
        await server.get(MIGRATION.path, dict, {"limit": "1"})
    except NotFound as error:
        raise CrdMissing from error


async def follow(server: ApiServer, keys: Collection[str], view: View) -> dict[str, Migration]:
    """Show these Migrations until all have finished; those that are left, as they ended."""
    table: ObjectTable[Migration] = ObjectTable(MIGRATION)
    watch = ListWatch(server, table)
    changed = asyncio.Event()
    watch.subscribe(lambda change: changed.set() if change.key in keys else None)
    watching = asyncio.create_task(watch.run())
    waiting = asyncio.create_task(warn_if_nothing_happens(table, keys, view))
    try:
        await watch.wait_synced()
        while True:
            changed.clear()
            now = {key: table.get(key) for key in keys}
            view.show(now)
            if all(each is None or each.is_finished for each in now.values()):
                return {key: each for key, each in now.items() if each is not None}
            await changed.wait()
    finally:
        for task in (watching, waiting):
            task.cancel()
        await asyncio.gather(watching, waiting, return_exceptions=True)


async def warn_if_nothing_happens(
    table: ObjectTable[Migration], keys: Collection[str], view: View
) -> None:
    """Say so if nobody carries Migrations out."""
    await asyncio.sleep(SUSPICIOUS_SECONDS)
    found = [table.get(key) for key in keys]
    if all(each is not None and each.status.attempts == 0 for each in found):
        view.warn(
            "Nobody has taken this up yet. Is a controller running (rescheduler run)? "
            "With --here, this command carries it out itself."
        )


async def cancel_migrations(server: ApiServer, keys: Collection[str], *, wait: bool) -> None:
    """Delete Migrations: what they have begun is undone, which can be waited for a little."""
    for key in keys:
        try:
            await server.delete(object_path(MIGRATION, key))
        except NotFound:
            continue
    names = {key.rpartition("/")[2] for key in keys}
    for _ in range(UNDONE_LOOKS if wait else 0):
        marked = await server.get(
            POD.path, Page[MovingPod], {"labelSelector": LABELLED_POD.selector}
        )
        left = [pod for pod in marked.items if not pod.is_deleting]
        if not any(pod.metadata.annotations.get(MIGRATION_NAME) in names for pod in left):
            return
        await asyncio.sleep(UNDONE_LOOK_SECONDS)


async def unless_fails(work: Awaitable[T], other: asyncio.Task[None] | None) -> T:
    """What the work gives; but if the other task fails first, its error."""
    task = asyncio.ensure_future(work)
    try:
        waiting: set[asyncio.Future[Any]] = {task} if other is None else {task, other}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if other is not None and other.done():
            other.result()
        return await task
    finally:
        task.cancel()


@asynccontextmanager
async def carried_out_here(
    server: ApiServer, policy: Policy, wanted: bool
) -> AsyncIterator[asyncio.Task[None] | None]:
    """Carry out Migrations in this process while the block runs, if that is wanted."""
    if not wanted:
        yield None
        return
    tables = ClusterTables()
    store = LiveStore(server, tables)
    store.start()
    watches = MigrationWatches(server, store, tables)
    controller = MigrationController(server, watches, Executor(server, watches), policy)
    running = asyncio.create_task(controller.run())
    try:
        yield running
        controller.stop()
        await running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await store.stop()
