"""A controller as a process of its own, which kills itself at a given point.

`python -m tests.migration.controller_process SERVER CA_FILE TOKEN [POINT MIGRATION]`
"""

import asyncio
import os
import signal
import sys

from rescheduler.controller.migration_controller import MigrationController
from rescheduler.kube.client import Client
from rescheduler.kube.live_store import LiveStore
from rescheduler.migration.migration_watches import MigrationWatches
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.settings import MigrationOptions, Policy, Seconds
from tests.kube.support import QUICK_CLIENT, QUICK_WATCH, credentials
from tests.migration.support import QUICK_STORE_WATCH, Reached, ReportingExecutor

POLICY = Policy(
    allow_bare_pods=True,
    migration=MigrationOptions(
        deployment_coordination=True,
        max_retries=0,
        timeout_seconds=Seconds(120),
    ),
)


def dying_at(point: str, migration: str) -> Reached:
    """Kills this process when it reaches a point in a migration."""

    def reached(now: str, key: str) -> None:
        if (now, key) == (point, migration):
            os.kill(os.getpid(), signal.SIGKILL)

    return reached


async def main() -> None:
    server, ca_file, token, *rest = sys.argv[1:]
    point, migration = rest or ("", "")
    async with Client(credentials(server, token, ca_file), QUICK_CLIENT) as client:
        tables = ClusterTables()
        store = LiveStore(client, tables, settings=QUICK_STORE_WATCH)
        store.start()
        watches = MigrationWatches(client, store, tables, QUICK_WATCH)
        executor = ReportingExecutor(client, watches, dying_at(point, migration))
        controller = asyncio.create_task(
            MigrationController(client, watches, executor, POLICY).run()
        )
        await watches.synced()
        print("loaded", flush=True)
        await controller


if __name__ == "__main__":
    asyncio.run(main())
