"""Nodes are drained although no budget allows any eviction."""

import asyncio
from typing import Any

import msgspec

from rescheduler.controller.node_drain import NodeDrain, RemainingPods
from rescheduler.kube.api_server import object_path
from rescheduler.kube.client import Client
from rescheduler.migration.migration_object import MIGRATION, Migration
from rescheduler.migration.migration_request import create_migration
from rescheduler.settings import Policy
from testcluster.applying import apply
from testcluster.builders import budget, deployment
from tests.migration.ready_pod_watch import ReadyPodWatch
from tests.migration.support import (
    QUICK_OPTIONS,
    Sandbox,
    client_for,
    controller_on,
    is_ready,
    node_of,
)

APPS, REPLICAS = 25, 4
MANY_AT_ONCE = msgspec.structs.replace(QUICK_OPTIONS, max_per_node=20)


def fill(sandbox: Sandbox) -> list[str]:
    """A hundred pods of Deployments whose budgets allow no eviction at all; their names."""
    apps = [f"app-{number:02}" for number in range(APPS)]
    for app in apps:
        workload = deployment(
            f"{sandbox.namespace}/{app}", REPLICAS, "100m", template=sandbox.here()
        )
        protection = budget(f"{sandbox.namespace}/{app}", min_available=REPLICAS)
        apply(sandbox.cluster, workload, protection)
    return apps


def none_is_allowed(sandbox: Sandbox) -> bool:
    budgets = sandbox.all("poddisruptionbudgets")
    return all(
        budget.get("status", {}).get("currentHealthy") == REPLICAS
        and budget["status"]["disruptionsAllowed"] == 0
        for budget in budgets
    )


def generations(sandbox: Sandbox) -> dict[str, int]:
    return {
        found["metadata"]["name"]: found["metadata"]["generation"]
        for found in sandbox.all("deployments")
    }


async def drain(sandbox: Sandbox, client: Client, node: str, policy: Policy) -> RemainingPods:
    """Cordon and drain a node, following the Migrations."""

    async def create_and_follow(bodies: list[dict[str, Any]]) -> list[Migration]:
        for body in bodies:
            await create_migration(client, body)
        names = [body["metadata"]["name"] for body in bodies]
        await sandbox.finished(*names, timeout=90)
        keys = [f"{sandbox.namespace}/{name}" for name in names]
        return [await client.get(object_path(MIGRATION, key), Migration) for key in keys]

    node_drain = NodeDrain(client, node, policy, create_and_follow)
    await node_drain.cordon()
    return await node_drain.run()


async def test_a_hundred_pods_leave_their_nodes_with_never_one_ready_pod_too_few(
    sandbox: Sandbox,
) -> None:
    sources = sandbox.add_nodes("old-a", "old-b", cpu="16")
    apps = fill(sandbox)
    await sandbox.until(lambda: sum(map(is_ready, sandbox.pods())) == APPS * REPLICAS)
    await sandbox.until(lambda: none_is_allowed(sandbox), "no budget allows anything")
    sandbox.add_nodes("new-a", "new-b", "new-c", cpu="16")
    before = generations(sandbox)
    with ReadyPodWatch(sandbox.cluster, sandbox.namespace) as watcher:
        async with (
            controller_on(sandbox.cluster, MANY_AT_ONCE),
            client_for(sandbox.cluster) as client,
        ):
            policy = Policy(migration=MANY_AT_ONCE)
            remaining = await asyncio.gather(
                *[drain(sandbox, client, node, policy) for node in sources]
            )
        await sandbox.until(
            lambda: len(sandbox.pods()) == APPS * REPLICAS, "the old pods are deleted"
        )
    assert remaining == [RemainingPods({}, {})] * 2
    assert watcher.problems == []
    assert {app: watcher.fewest[app] for app in apps} == dict.fromkeys(apps, REPLICAS)
    assert set(watcher.fewest_counted.values()) == {REPLICAS}
    assert not [pod for pod in sandbox.pods() if node_of(pod) in sources]
    migrations = sandbox.all("migrations")
    assert len(migrations) == APPS * REPLICAS
    for migration in migrations:
        new = sandbox.pod(migration["status"]["newPod"])
        assert new is not None
        assert node_of(new) == migration["spec"]["targetNode"], migration
        assert migration["status"]["outcome"] == "Landed"
    assert generations(sandbox) == before
    assert sandbox.leftovers() == []
