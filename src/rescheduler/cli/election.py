"""Connects `rescheduler run` to a cluster in which it competes for a Lease."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rescheduler.cli.options import ClusterAccess
from rescheduler.controller.leader_election.elector import LeaderElector, LeaseOptions
from rescheduler.kube.auth.loader import load_credentials
from rescheduler.kube.client import Client, ClientSettings
from rescheduler.kube.transport import RequestObserver, Timeouts


@asynccontextmanager
async def connect_with_election(
    access: ClusterAccess, options: LeaseOptions, observer: RequestObserver | None = None
) -> AsyncIterator[tuple[Client, LeaderElector]]:
    """A client for the cluster and an elector, both closed at the end of the block.

    The elector has connections of its own. A renewal waits neither for the calls of migrations nor
    for long: a connection that has fallen silent must leave time for another attempt.
    """
    credentials = load_credentials(access.kubeconfig, access.context)
    # What the fence lets pass arrives in time, or never.
    timeouts = Timeouts(delivery_seconds=options.durations.delivery_seconds)
    seconds = options.durations.renew_seconds / 2
    short = Timeouts(connect_seconds=seconds, read_seconds=seconds, total_seconds=seconds)
    async with (
        Client(credentials, ClientSettings(timeouts), observer=observer) as server,
        Client(credentials, ClientSettings(short, attempts=1), observer=observer) as lease_server,
    ):
        yield server, LeaderElector(lease_server, options, clock=server.server_clock)
