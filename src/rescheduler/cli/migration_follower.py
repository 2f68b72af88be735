"""Create Migrations, follow them until they have finished, and cancel them on Ctrl-C."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from rich.console import Console

from rescheduler.cli.control_characters import escaped
from rescheduler.cli.local_controller import local_controller, unless_fails
from rescheduler.cli.options import FollowOptions
from rescheduler.cli.views.console import console
from rescheduler.cli.views.migration_view import MigrationView, view_on
from rescheduler.controller.drain.drain_outcomes import Ending, HeldUp, is_held_up
from rescheduler.errors import (
    ApiError,
    Conflict,
    Forbidden,
    NotFound,
    OutcomeUnknown,
    Refused,
    Unavailable,
)
from rescheduler.kube.api_server import ApiServer, object_path
from rescheduler.kube.client import Client
from rescheduler.kube.listwatch import ListWatch
from rescheduler.kube.server_features import ServerFeatures
from rescheduler.labels import MIGRATION_NAME
from rescheduler.migration.crd import WAITING_TO_START
from rescheduler.migration.migration_object import MIGRATION, Migration
from rescheduler.migration.migration_request import create_migration
from rescheduler.migration.migration_watches import CrdMissing
from rescheduler.migration.moving_pod import LABELLED_POD, MovingPod
from rescheduler.model.kinds import POD
from rescheduler.model.objects import Page
from rescheduler.model.tables.object_table import ObjectTable
from rescheduler.model.tables.table import TableChange
from rescheduler.settings import Policy

# A controller starts a Migration within moments. After this time the user should know that
# probably none is running.
WARN_AFTER_SECONDS = 10.0
# How often, and how far apart, to check whether a deleted Migration is undone. A new pod that is
# Ready leaves its Services first. Someone who pressed Ctrl-C does not wait for longer than this.
UNDO_CHECKS, UNDO_CHECK_SECONDS = 60, 0.5
NOT_UNDONE = "Not all steps are undone yet. To undo the rest: rescheduler run"


# The server said no to one Migration. That says nothing about others.
REFUSALS = (Conflict, Forbidden, NotFound, Refused)


class MigrationFollower:
    """Creates the Migrations of a command and, if it waits, follows them to their end."""

    def __init__(
        self,
        server: Client,
        following: FollowOptions,
        patience_seconds: float,
        controller: asyncio.Task[None] | None = None,
    ) -> None:
        """`patience_seconds`: how long Migrations are waited for that cannot start, when all others
        have ended. `controller`: the one that runs in this process, if any does."""
        self._server = server
        self._patience_seconds = patience_seconds
        self._following = following
        self._controller = controller

    async def create_and_follow(
        self, bodies: list[dict[str, Any]], existing: Sequence[Migration] = ()
    ) -> Sequence[Ending]:
        """The Migrations as they ended or, if the command does not wait, as they are now.

        If the server refuses one, the others are created nevertheless. Those in `existing` are
        followed like those created here, but not cancelled on Ctrl-C: somebody else wants them.
        """
        created: dict[str, Migration] = {}
        refused: dict[str, ApiError] = {}
        others = {migration.key: migration for migration in existing}
        try:
            for body in bodies:
                await self._create(body, created, refused)
            self._name_existing(existing)
            endings = await self._ended(created | others, created)
            await self._undone([key for key, ending in endings.items() if ending is None])
        except asyncio.CancelledError:
            await self._interrupted(list(created), len(others))
            raise
        return [refused.get(key) or endings[key] for key in [*map(key_of, bodies), *others]]

    async def _create(
        self, body: dict[str, Any], created: dict[str, Migration], refused: dict[str, ApiError]
    ) -> None:
        key = key_of(body)
        # Before the call: if Ctrl-C interrupts it, the server may have created it.
        created[key] = msgspec.convert(body, Migration)
        try:
            await create_migration(self._server, body)
        except REFUSALS as error:
            del created[key]
            refused[key] = error
            return
        if not self._following.waits:
            console().print(f"migration {key} created", soft_wrap=True)

    def _name_existing(self, existing: Sequence[Migration]) -> None:
        if not self._following.waits:
            for found in existing:
                line = f"migration {found.key} of pod {found.pod_key} is there already"
                console().print(escaped(line), soft_wrap=True)

    async def _ended(
        self, migrations: dict[str, Migration], own: Collection[str]
    ) -> Mapping[str, Ending]:
        """These Migrations as they ended; as they are, if the command does not wait."""
        if not self._following.waits or not migrations:
            return migrations
        with view_on(console()) as view:
            following = self._follow(migrations, own, view)
            return await unless_fails(following, self._controller)

    async def _follow(
        self, keys: Collection[str], own: Collection[str], view: MigrationView
    ) -> Mapping[str, Ending]:
        """Follow Migrations until all have ended, or those that are left cannot start.

        Those that this command has created are then withdrawn: nobody expects the pod to be moved
        when the command has said that it stays.
        """
        here, patience = self._following.here, self._patience_seconds
        endings: dict[str, Ending] = {}
        while left := [key for key in keys if key not in endings]:
            found = await follow(
                self._server, left, view, runs_here=here, patience_seconds=patience
            )
            for key, migration in found.items():
                if migration is None or migration.is_finished:
                    endings[key] = migration
                elif key not in own:
                    endings[key] = HeldUp(migration, patience, is_withdrawn=False)
                elif (is_withdrawn := await withdrawn(self._server, migration)) is not None:
                    endings[key] = HeldUp(migration, patience, is_withdrawn=is_withdrawn)
        return endings

    async def _undone(self, deleted: Collection[str]) -> None:
        """Wait until the controller that runs here has undone Migrations that were deleted."""
        if not deleted or not self._following.here:
            return
        if not await unless_fails(wait_until_undone(self._server, deleted), self._controller):
            on_stderr(NOT_UNDONE)

    async def _interrupted(self, created: list[str], others: int) -> None:
        """Ctrl-C: leave the Migrations to the controller, or cancel those created here."""
        if self._following.cancel_on_interrupt:
            await delete_migrations(self._server, created)
        for line in after_interrupt(self._following, len(created), others):
            on_stderr(line)
        if self._following.cancel_on_interrupt:
            await self._undone(created)


def on_stderr(line: str) -> None:
    """Print to standard error, as it is."""
    Console(stderr=True, highlight=False, markup=False, soft_wrap=True).print(line)


@asynccontextmanager
async def migration_follower(
    server: Client, policy: Policy, following: FollowOptions
) -> AsyncIterator[MigrationFollower]:
    """A follower. With --here, a controller runs meanwhile, and has read all that it needs."""
    if not following.here:
        yield MigrationFollower(server, following, policy.migration.timeout_seconds)
        return
    async with local_controller(server, policy) as controller:
        patience = policy.migration.timeout_seconds
        yield MigrationFollower(server, following, patience, controller)


def after_interrupt(following: FollowOptions, created: int, others: int) -> Iterator[str]:
    """What has become of the Migrations; `others` were there before."""
    cancels = following.cancel_on_interrupt
    if cancels and created:
        yield f"Cancelled {number_of(created)}. Steps already taken are undone."
    if cancels and others:
        verb = "was there before and is" if others == 1 else "were there before and are"
        yield f"{number_of(others)} {verb} not cancelled."
    if cancels and not others:
        return
    if following.here:
        yield "Stopped. To continue, run this command again or start rescheduler run."
    else:
        which = "Other migrations" if cancels else "The migrations"
        yield f"{which} keep running. To see them: kubectl get migrations --all-namespaces"


def number_of(migrations: int) -> str:
    """How many Migrations."""
    return f"{migrations} migration{'' if migrations == 1 else 's'}"


def key_of(body: dict[str, Any]) -> str:
    """`namespace/name` of a Migration that is to be created."""
    return f"{body['metadata']['namespace']}/{body['metadata']['name']}"


async def check_crd_installed(server: ApiServer) -> None:
    """Raise `CrdMissing` unless the API server has the kind Migration."""
    try:
        await server.get(MIGRATION.path, dict, {"limit": "1"})
    except NotFound as error:
        raise CrdMissing from error


def note_missing_features(features: ServerFeatures) -> None:
    """Say before the first move if pods are interrupted because the API server is too old."""
    if features.placing_blocker is not None:
        text = f"Pods are evicted instead of handed over: {features.placing_blocker}."
        console().print(text, soft_wrap=True)


async def follow(
    server: ApiServer,
    keys: Collection[str],
    view: MigrationView,
    *,
    runs_here: bool,
    patience_seconds: float,
) -> dict[str, Migration | None]:
    """Show these Migrations until all have ended; None for one deleted before it finished.

    If those that are left say that they cannot start, and nothing changes for a while, they are
    returned as they are. Unless their controller runs here, warn if there seems to be none.
    """
    table: ObjectTable[Migration] = ObjectTable(MIGRATION)
    watch = ListWatch(server, table)
    changed = asyncio.Event()
    finished: dict[str, Migration] = {}

    def note(change: TableChange) -> None:
        if change.key in keys:
            changed.set()
            found = table.get(change.key)
            # Kept, for it may be deleted at any time from now on.
            if found is not None and found.is_finished:
                finished[change.key] = found

    watch.subscribe(note)
    tasks = [asyncio.create_task(watch.run())]
    if not runs_here:
        tasks.append(asyncio.create_task(warn_if_nothing_happens(table, keys, view)))
    try:
        await watch.wait_synced()
        while True:
            changed.clear()
            migrations = {key: finished.get(key) or table.get(key) for key in keys}
            view.show(migrations)
            left = [found for found in migrations.values() if found and not found.is_finished]
            if not left:
                return migrations
            is_stuck = all(map(is_held_up, left))
            try:
                async with asyncio.timeout(patience_seconds if is_stuck else None):
                    await changed.wait()
            except TimeoutError:
                return migrations
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def withdrawn(server: ApiServer, migration: Migration) -> bool | None:
    """Delete a Migration that cannot start; False if the server does not let us.

    None if it is to be followed on: it has changed, perhaps started, or nobody knows whether it is
    deleted.
    """
    metadata = migration.metadata
    path = object_path(MIGRATION, metadata.key)
    try:
        await server.delete(path, uid=metadata.uid, version=metadata.resource_version)
    except (Forbidden, Refused):
        return False
    except (Conflict, NotFound, OutcomeUnknown, Unavailable):
        return None
    return True


async def warn_if_nothing_happens(
    table: ObjectTable[Migration], keys: Collection[str], view: MigrationView
) -> None:
    """Show a warning if no controller has looked at any of the Migrations after a while."""
    await asyncio.sleep(WARN_AFTER_SECONDS)
    if all(is_untouched(table.get(key)) for key in keys):
        view.warn(
            "No controller has started the migrations yet. Is `rescheduler run` running? "
            "With --here, this command runs the migrations itself."
        )


def is_untouched(migration: Migration | None) -> bool:
    """Whether there is a Migration that no controller has started, or said what it waits for."""
    return (
        migration is not None
        and migration.status.attempts == 0
        and migration.status.message in ("", WAITING_TO_START)
    )


async def delete_migrations(server: ApiServer, keys: Collection[str]) -> None:
    """Delete Migrations: their controller then undoes them."""
    for key in keys:
        try:
            await server.delete(object_path(MIGRATION, key))
        except NotFound:
            continue


async def wait_until_undone(server: ApiServer, keys: Collection[str]) -> bool:
    """Wait until no pod is labelled with one of these Migrations; False if that takes too long."""
    for _ in range(UNDO_CHECKS):
        marked = await server.get(
            POD.path, Page[MovingPod], {"labelSelector": LABELLED_POD.selector}
        )
        if not any(migration_of(pod) in keys for pod in marked.items if not pod.is_deleting):
            return True
        await asyncio.sleep(UNDO_CHECK_SECONDS)
    return False


def migration_of(pod: MovingPod) -> str:
    """`namespace/name` of the Migration that a pod is labelled with."""
    return f"{pod.metadata.namespace}/{pod.metadata.annotations.get(MIGRATION_NAME, '')}"
