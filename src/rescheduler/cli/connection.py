"""The way from the command line's options to a cluster."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from rescheduler.kube.auth.loader import load_credentials
from rescheduler.kube.client import Client
from rescheduler.kube.live_store import LiveStore
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.tables.cluster_tables import ClusterTables


@asynccontextmanager
async def connected(kubeconfig: Path | None, context: str | None) -> AsyncIterator[Client]:
    """A client for the cluster that was asked for."""
    async with Client(load_credentials(kubeconfig, context)) as client:
        yield client


async def read_live(kubeconfig: Path | None, context: str | None) -> Snapshot:
    """The cluster as it is now."""
    async with connected(kubeconfig, context) as client:
        store = LiveStore(client, ClusterTables())
        await store.list_once()
        return store.snapshot()
