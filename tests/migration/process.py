"""A controller as a process of its own, which kills itself where it is told to.

`python -m tests.migration.process SERVER CA_FILE TOKEN [POINT MIGRATION]`
"""

import asyncio
import os
import signal
import sys

from rescheduler.kube.client import Client
from rescheduler.kube.store import LiveStore
from rescheduler.migration.controller import Controller
from rescheduler.migration.hands import Reached
from rescheduler.migration.watching import Watching
from rescheduler.model.cluster import ClusterTables
from rescheduler.settings import MigrationOptions, Seconds
from tests.kube.support import QUICK_CLIENT, QUICK_WATCH, credentials

OPTIONS = MigrationOptions(
    bare_pods=True,
    deployment_coordination=True,
    max_retries=0,
    timeout_seconds=Seconds(120),
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
        store = LiveStore(client, tables, settings=QUICK_WATCH)
        store.start()
        watching = Watching(client, store, tables, QUICK_WATCH)
        await Controller(client, watching, OPTIONS, dying_at(point, migration)).run()


if __name__ == "__main__":
    asyncio.run(main())
