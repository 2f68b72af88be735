"""What `move --wait` and `drain --wait` say while nothing happens to their Migrations."""

import asyncio
import io

from rich.console import Console

from rescheduler.cli.migration_follower import WARN_AFTER_SECONDS, follow
from rescheduler.cli.views.migration_view import LineView
from rescheduler.kube.api_server import object_path
from rescheduler.migration.crd import WAITING_TO_START
from rescheduler.migration.migration_object import MIGRATION
from rescheduler.migration.migration_request import create_migration, migration_body
from rescheduler.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.simulated_clusters import in_simulated_cluster

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
        following = asyncio.create_task(follow(cluster.server, keys, view, runs_here=runs_here))
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
