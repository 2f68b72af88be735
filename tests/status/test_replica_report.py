"""A replica says what it knows, and what it cannot follow."""

import asyncio

import pytest
from aiohttp import web

from rescheduler.controller.program import Program
from rescheduler.settings import Policy
from rescheduler.status.replica_report import ReplicaReporter
from rescheduler.status.status_document import SyncState
from tests.kube.faultproxy import Fault, FaultProxy, cut_at_once
from tests.kube.support import eventually
from tests.migration.support import Sandbox, client_for


@pytest.mark.parametrize("dry_run", [False, True], ids=["a leader", "a dry run"])
async def test_migrations_that_cannot_be_followed_are_said_to_be_so(
    sandbox: Sandbox, dry_run: bool
) -> None:
    """It said that all is up to date, also while it waited for them to begin."""
    found = await sync_without(sandbox, "Migration", dry_run=dry_run)
    assert found.is_loaded is dry_run, "a dry run can do without"
    assert ("no list of Migration" in found.problem) is not dry_run


async def test_records_that_cannot_be_followed_are_said_to_be_so(sandbox: Sandbox) -> None:
    found = await sync_without(sandbox, "MoveRecord", dry_run=False)
    assert found.problem == "", "moves are planned without them"


async def sync_without(sandbox: Sandbox, kind: str, *, dry_run: bool) -> SyncState:
    """What a replica says of its view once it has noticed that it cannot list a kind."""

    def cut(request: web.Request) -> Fault | None:
        return cut_at_once if request.path.endswith(f"/{kind.lower()}s") else None

    cluster = sandbox.cluster
    async with FaultProxy(cluster.server, str(cluster.ca_file)) as proxy:
        proxy.chaos = cut
        async with client_for(cluster, proxy.url) as client:
            program = Program(client, Policy(), dry_run=dry_run)
            reporter = ReplicaReporter(program, None, client.server_clock, dry_run=dry_run)
            running = asyncio.create_task(program.run())
            try:
                await eventually(lambda: fails_on(reporter.status().sync, kind), "it says so")
                if kind != "Migration":
                    await eventually(lambda: reporter.status().sync.is_loaded, "the rest is loaded")
                return reporter.status().sync
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)


def fails_on(sync: SyncState, kind: str) -> bool:
    """Whether the cluster itself is known, and this kind cannot be followed."""
    return sync.age_seconds is not None and kind in [each.kind for each in sync.failing]
