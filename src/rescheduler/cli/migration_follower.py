"""Create Migrations, follow them until they have finished, and cancel them on Ctrl-C."""

import asyncio
from collections.abc import Collection
from contextlib import nullcontext
from typing import Any

from rich.console import Console

from rescheduler.cli.local_controller import local_controller, unless_fails
from rescheduler.cli.options import FollowOptions
from rescheduler.cli.views.console import console
from rescheduler.cli.views.migration_view import MigrationView, view_on
from rescheduler.errors import NotFound
from rescheduler.kube.api_server import ApiServer, object_path
from rescheduler.kube.listwatch import ListWatch
from rescheduler.labels import MIGRATION_NAME
from rescheduler.migration.migration_object import MIGRATION, Migration
from rescheduler.migration.migration_request import create_migration
from rescheduler.migration.migration_watches import CrdMissing
from rescheduler.migration.moving_pod import LABELLED_POD, MovingPod
from rescheduler.model.kinds import POD
from rescheduler.model.objects import Page
from rescheduler.model.tables.object_table import ObjectTable
from rescheduler.settings import Policy

# A controller starts a Migration within moments. After this time the user should know that
# probably none is running.
WARN_AFTER_SECONDS = 10.0
# How often, and how far apart, to check whether a cancelled Migration is undone: someone who
# pressed Ctrl-C does not wait for long.
UNDO_CHECKS, UNDO_CHECK_SECONDS = 20, 0.5


class MigrationFollower:
    """Creates the Migrations of a command and, if it waits, follows them to their end."""

    def __init__(self, server: ApiServer, policy: Policy, following: FollowOptions) -> None:
        self._server = server
        self._policy = policy
        self._following = following

    async def create_and_follow(self, bodies: list[dict[str, Any]]) -> list[Migration] | None:
        """The Migrations as they ended, or None if the command does not wait for them."""
        for body in bodies:
            await create_migration(self._server, body)
        names = [f"{body['metadata']['namespace']}/{body['metadata']['name']}" for body in bodies]
        if not self._following.waits:
            for name in names:
                console().print(f"migration {name} created", soft_wrap=True)
            return None
        here = self._following.here
        async with local_controller(self._server, self._policy) if here else nullcontext() as task:
            try:
                with view_on(console()) as view:
                    ended = await unless_fails(follow(self._server, names, view), task)
            except asyncio.CancelledError:
                await self._interrupted(names)
                raise
        return list(ended.values())

    async def _interrupted(self, names: list[str]) -> None:
        """Ctrl-C: leave the Migrations to the controller, or cancel them."""
        here = self._following.here
        stderr = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        if self._following.cancel_on_interrupt:
            await cancel_migrations(self._server, names, wait=here)
            count = f"{len(names)} migration{'' if len(names) == 1 else 's'}"
            stderr.print(f"Cancelled {count}. Steps already taken are undone.")
        elif here:
            stderr.print("Stopped. To continue, run this command again or start rescheduler run.")
        else:
            stderr.print(
                "The migrations keep running. To see them: kubectl get migrations --all-namespaces"
            )


async def check_crd_installed(server: ApiServer) -> None:
    """Raise `CrdMissing` unless the API server has the kind Migration."""
    try:
        await server.get(MIGRATION.path, dict, {"limit": "1"})
    except NotFound as error:
        raise CrdMissing from error


async def follow(
    server: ApiServer, keys: Collection[str], view: MigrationView
) -> dict[str, Migration]:
    """Show these Migrations until all have finished; those not deleted meanwhile, as they ended."""
    table: ObjectTable[Migration] = ObjectTable(MIGRATION)
    watch = ListWatch(server, table)
    changed = asyncio.Event()
    watch.subscribe(lambda change: changed.set() if change.key in keys else None)
    watching = asyncio.create_task(watch.run())
    warning = asyncio.create_task(warn_if_nothing_happens(table, keys, view))
    try:
        await watch.wait_synced()
        while True:
            changed.clear()
            migrations = {key: table.get(key) for key in keys}
            view.show(migrations)
            if all(found is None or found.is_finished for found in migrations.values()):
                return {key: found for key, found in migrations.items() if found is not None}
            await changed.wait()
    finally:
        for task in (watching, warning):
            task.cancel()
        await asyncio.gather(watching, warning, return_exceptions=True)


async def warn_if_nothing_happens(
    table: ObjectTable[Migration], keys: Collection[str], view: MigrationView
) -> None:
    """Show a warning if no controller has started any of the Migrations after a while."""
    await asyncio.sleep(WARN_AFTER_SECONDS)
    found = [table.get(key) for key in keys]
    if all(migration is not None and migration.status.attempts == 0 for migration in found):
        view.warn(
            "No controller has started the migrations yet. Is `rescheduler run` running? "
            "With --here, this command runs the migrations itself."
        )


async def cancel_migrations(server: ApiServer, keys: Collection[str], *, wait: bool) -> None:
    """Delete Migrations: the controller then undoes them. With `wait`, wait a little for that."""
    for key in keys:
        try:
            await server.delete(object_path(MIGRATION, key))
        except NotFound:
            continue
    names = {key.rpartition("/")[2] for key in keys}
    for _ in range(UNDO_CHECKS if wait else 0):
        marked = await server.get(
            POD.path, Page[MovingPod], {"labelSelector": LABELLED_POD.selector}
        )
        left = [pod for pod in marked.items if not pod.is_deleting]
        if not any(pod.metadata.annotations.get(MIGRATION_NAME) in names for pod in left):
            return
        await asyncio.sleep(UNDO_CHECK_SECONDS)
