"""What `move` and `drain` share: asking for Migrations, and following them."""

import asyncio
from typing import Any

from rich.console import Console

from rescheduler.cli.migration_follower import (
    cancel_migrations,
    carried_out_here,
    follow,
    unless_fails,
)
from rescheduler.cli.views.console import console
from rescheduler.cli.views.migration_view import view_on
from rescheduler.errors import SettingsError
from rescheduler.kube.api_server import ApiServer
from rescheduler.migration.migration_object import Migration
from rescheduler.migration.migration_request import create_migration
from rescheduler.model.moves import Mode
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.explanation import explain
from rescheduler.settings import Policy


def checked_mode(text: str) -> Mode:
    """The mode that a person named."""
    modes = {str(mode).lower(): mode for mode in Mode}
    if text.lower() not in modes:
        raise SettingsError(f"--mode {text}: expected one of {', '.join(Mode)}")
    return modes[text.lower()]


def checked_target(cluster: Snapshot, policy: Policy, row: int, target: str) -> None:
    """Raise unless the target would take the pod."""
    pod = cluster.pods.keys[row]
    if target not in cluster.nodes.index:
        raise SettingsError(f"--to {target}: there is no such node")
    explanation = explain(cluster, policy, row)
    if explanation.node == target:
        raise SettingsError(f"--to {target}: pod {pod} is there already")
    verdict = next(each for each in explanation.nodes if each.node == target)
    if not verdict.accepted:
        raise SettingsError(
            f"--to {target}: it would not take pod {pod}: {verdict.plugin}: {verdict.reason}"
        )


async def ask_and_follow(
    server: ApiServer,
    bodies: list[dict[str, Any]],
    policy: Policy,
    wait: bool,
    here: bool,
    cancel_on_interrupt: bool,
) -> list[Migration]:
    """Make Migrations; if asked to, carry them out and wait until they have finished."""
    for body in bodies:
        await create_migration(server, body)
    names = [f"{body['metadata']['namespace']}/{body['metadata']['name']}" for body in bodies]
    screen = console()
    if not wait:
        for name in names:
            screen.print(f"asked for: migration {name}", soft_wrap=True)
        return []
    async with carried_out_here(server, policy, here) as controller:
        try:
            with view_on(screen) as view:
                ended = await unless_fails(follow(server, names, view), controller)
        except asyncio.CancelledError:
            await interrupted(server, names, here, cancel_on_interrupt)
            raise
    return list(ended.values())


async def interrupted(server: ApiServer, names: list[str], here: bool, cancel_them: bool) -> None:
    """Ctrl-C: leave the Migrations to the controller, or cancel them."""
    said = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    if cancel_them:
        await cancel_migrations(server, names, wait=here)
        said.print(f"Cancelled {len(names)} migrations; what they had begun is undone.")
    elif here:
        said.print("Stopped; rescheduler run, or this command again, will go on with them.")
    else:
        said.print("Left running; see them with: kubectl get migrations --all-namespaces")
