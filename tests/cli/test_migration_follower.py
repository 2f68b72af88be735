"""What `move --wait` and `drain --wait` say while nothing happens to their Migrations."""

import asyncio
import io
from collections.abc import Sequence
from typing import Any

import pytest
from rich.console import Console

from rescheduler.cli.migration_follower import WARN_AFTER_SECONDS, MigrationFollower, follow
from rescheduler.cli.options import FollowOptions
from rescheduler.cli.views.migration_view import LineView
from rescheduler.controller.drain.drain_outcomes import Ending, HeldUp
from rescheduler.errors import ApiError, Forbidden, OutcomeUnknown, Refused, Unavailable
from rescheduler.kube.api_server import object_path
from rescheduler.migration.crd import WAITING_TO_START
from rescheduler.migration.migration_object import MIGRATION, Migration
from rescheduler.migration.migration_request import create_migration, migration_body
from rescheduler.model.objects import Page
from rescheduler.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.simulated_clusters import in_simulated_cluster

PATIENCE = 120.0
ROLLOUT = "Deployment web is rolling out another version"
WARNING = "No controller has started the migrations yet."


def shown(*messages: str, runs_here: bool = False) -> str:
    """What is printed of Migrations that no controller starts, and that have these messages."""

    async def steps(cluster: SimulatedCluster) -> str:
        keys = []
        for number, message in enumerate(messages):
            body = migration_body(f"shop/web-{number}", str(number), "b")
            await create_migration(cluster.server, body)
            keys.append(f"shop/{body['metadata']['name']}")
            path = f"{object_path(MIGRATION, keys[-1])}/status"
            await cluster.server.patch(path, {"status": {"message": message}})
        file = io.StringIO()
        view = LineView(Console(file=file, width=200))
        following = asyncio.create_task(
            follow(cluster.server, keys, view, runs_here=runs_here, patience_seconds=PATIENCE)
        )
        await asyncio.sleep(2 * WARN_AFTER_SECONDS)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        return file.getvalue()

    return in_simulated_cluster([], steps)


def test_a_missing_controller_is_mentioned() -> None:
    assert WARNING in shown(WAITING_TO_START, WAITING_TO_START)


def test_no_other_controller_is_looked_for_if_this_command_runs_the_migrations() -> None:
    assert WARNING not in shown(WAITING_TO_START, runs_here=True)


def test_a_controller_that_says_what_a_migration_waits_for_is_there() -> None:
    printed = shown(WAITING_TO_START, "waiting: 5 migrations are in progress")
    assert "5 migrations are in progress" in printed
    assert WARNING not in printed


class FailingDeletes:
    """An API server of which the first call to delete something fails."""

    def __init__(self, server: Any, failure: ApiError | None) -> None:
        self._server = server
        self._failure = failure

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)

    async def delete(self, path: str, **options: Any) -> Any:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        return await self._server.delete(path, **options)


def endings(
    *, own: bool = True, failure: ApiError | None = None, **changes: Any
) -> tuple[Sequence[Ending], list[str], float]:
    """How a Migration that waits ends for its command, what is left of it, and after how long.

    `changes`: what becomes of its status a minute after it began to wait. `failure`: the answer to
    the first attempt to withdraw it.
    """

    async def steps(cluster: SimulatedCluster) -> tuple[Sequence[Ending], list[str], float]:
        body = migration_body("shop/web-0", "0", "b")
        key = f"shop/{body['metadata']['name']}"
        status = f"{object_path(MIGRATION, key)}/status"

        async def wait_then_change() -> None:
            # Of simulated time: it has been created by then.
            await asyncio.sleep(1)
            await cluster.server.patch(status, {"status": {"message": f"waiting: {ROLLOUT}"}})
            await asyncio.sleep(60)
            if changes:
                await cluster.server.patch(status, {"status": changes})

        existing = []
        if not own:
            await create_migration(cluster.server, body)
            existing = [await cluster.server.get(object_path(MIGRATION, key), Migration)]
        others = asyncio.create_task(wait_then_change())
        options = FollowOptions(wait=True, here=False, cancel_on_interrupt=False)
        server: Any = FailingDeletes(cluster.server, failure)
        follower = MigrationFollower(server, options, PATIENCE)
        started = cluster.clock.seconds()
        found = await follower.create_and_follow([body] if own else [], existing)
        waited = cluster.clock.seconds() - started
        await others
        return found, await keys(cluster), waited

    return in_simulated_cluster([], steps)


async def keys(cluster: SimulatedCluster) -> list[str]:
    found = await cluster.server.get(MIGRATION.path, Page[Migration])
    return [migration.key for migration in found.items]


def test_a_migration_that_cannot_start_is_withdrawn_when_nothing_has_changed_for_long() -> None:
    (ending,), left, seconds = endings()
    assert isinstance(ending, HeldUp)
    assert ending.text == f"not started within 120s: {ROLLOUT}"
    assert not left
    assert seconds < 2 * PATIENCE


def test_a_migration_whose_rollout_goes_on_is_waited_for_longer() -> None:
    (ending,), _, seconds = endings(message=f"waiting: {ROLLOUT}, a bit further")
    assert isinstance(ending, HeldUp)
    assert ending.text.endswith("a bit further")
    assert seconds > PATIENCE + 30


def test_a_migration_that_starts_in_time_is_followed_to_its_end() -> None:
    (ending,), left, _ = endings(phase="Completed", outcome="Landed")
    assert isinstance(ending, Migration)
    assert ending.is_finished
    assert left


def test_a_migration_of_somebody_else_that_cannot_start_is_left_to_them() -> None:
    (ending,), (left,), _ = endings(own=False)
    assert isinstance(ending, HeldUp)
    assert ending.text == f"not started within 120s: {ROLLOUT}. Its Migration {left} waits on"


@pytest.mark.parametrize("error", [Forbidden, Refused])
def test_a_migration_that_must_not_be_withdrawn_is_reported_as_held_up(
    error: type[ApiError],
) -> None:
    (ending,), (left,), _ = endings(failure=error("DELETE", "403 Forbidden", status=403))
    assert isinstance(ending, HeldUp)
    assert ending.text == f"not started within 120s: {ROLLOUT}. Its Migration {left} waits on"


@pytest.mark.parametrize("error", [OutcomeUnknown, Unavailable])
def test_a_migration_is_followed_on_when_it_is_not_known_to_be_withdrawn(
    error: type[ApiError],
) -> None:
    (ending,), left, seconds = endings(failure=error("DELETE", "lost the response"))
    assert isinstance(ending, HeldUp)
    assert ending.is_withdrawn
    assert not left
    assert seconds > 2 * PATIENCE
