"""Connect to the cluster that the options name."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rescheduler.cli.options import ClusterAccess
from rescheduler.kube.auth.loader import load_credentials
from rescheduler.kube.client import Client
from rescheduler.kube.live_store import LiveStore
from rescheduler.kube.transport import RequestObserver
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.tables.cluster_tables import ClusterTables


@asynccontextmanager
async def connect(
    access: ClusterAccess, observer: RequestObserver | None = None
) -> AsyncIterator[Client]:
    """A client for the cluster, closed at the end of the block."""
    credentials = load_credentials(access.kubeconfig, access.context)
    async with Client(credentials, observer=observer) as client:
        yield client


async def read_snapshot(access: ClusterAccess) -> Snapshot:
    """The live cluster at this moment."""
    async with connect(access) as client:
        store = LiveStore(client, ClusterTables())
        await store.list_once()
        for consequence in store.missing:
            print(f"Note: {consequence}", file=sys.stderr)
        return store.snapshot()
