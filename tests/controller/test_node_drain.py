"""Nodes are drained although no budget allows any eviction."""

import asyncio

import msgspec

from rescheduler.cli.migration_follower import MigrationFollower
from rescheduler.cli.options import FollowOptions
from rescheduler.controller.node_drain import NodeDrain, RemainingPods
from rescheduler.kube.client import Client
from rescheduler.settings import Policy
from testcluster.applying import apply
from testcluster.builders import budget, deployment
from tests.migration.support import (
    QUICK_OPTIONS,
    Corner,
    client_for,
    controller_on,
    is_ready,
    node_of,
)
from tests.migration.watcher import Watcher

APPS, REPLICAS = 25, 4
MANY_AT_ONCE = msgspec.structs.replace(QUICK_OPTIONS, max_per_node=20)


def fill(corner: Corner) -> list[str]:
    """A hundred pods of Deployments whose budgets allow no eviction at all; their names."""
    apps = [f"app-{number:02}" for number in range(APPS)]
    for app in apps:
        made = deployment(f"{corner.namespace}/{app}", REPLICAS, "100m", template=corner.here())
        protection = budget(f"{corner.namespace}/{app}", min_available=REPLICAS)
        apply(corner.cluster, made, protection)
    return apps


def none_is_allowed(corner: Corner) -> bool:
    budgets = corner.all("poddisruptionbudgets")
    return all(
        each.get("status", {}).get("currentHealthy") == REPLICAS
        and each["status"]["disruptionsAllowed"] == 0
        for each in budgets
    )


def generations(corner: Corner) -> dict[str, int]:
    return {
        each["metadata"]["name"]: each["metadata"]["generation"]
        for each in corner.all("deployments")
    }


async def drained(client: Client, node: str, policy: Policy) -> RemainingPods:
    following = FollowOptions(wait=True, here=False, cancel_on_interrupt=False)
    follower = MigrationFollower(client, policy.migration_options(), following)
    drain = NodeDrain(client, node, policy, follower.create_and_follow)
    await drain.cordon()
    return await drain.run()


async def test_a_hundred_pods_leave_their_nodes_with_never_one_ready_pod_too_few(
    corner: Corner,
) -> None:
    sources = corner.add_nodes("old-a", "old-b", cpu="16")
    apps = fill(corner)
    await corner.until(lambda: sum(map(is_ready, corner.pods())) == APPS * REPLICAS)
    await corner.until(lambda: none_is_allowed(corner), "no budget allows anything")
    corner.add_nodes("new-a", "new-b", "new-c", cpu="16")
    before = generations(corner)
    with Watcher(corner.cluster, corner.namespace) as watcher:
        async with (
            controller_on(corner.cluster, MANY_AT_ONCE),
            client_for(corner.cluster) as client,
        ):
            policy = Policy(migration=MANY_AT_ONCE)
            remaining = await asyncio.gather(*[drained(client, node, policy) for node in sources])
        await corner.until(lambda: len(corner.pods()) == APPS * REPLICAS, "the old pods are gone")
    assert remaining == [RemainingPods({}, {})] * 2
    assert watcher.problems == []
    assert {app: watcher.fewest[app] for app in apps} == dict.fromkeys(apps, REPLICAS)
    assert set(watcher.fewest_counted.values()) == {REPLICAS}
    assert not [pod for pod in corner.pods() if node_of(pod) in sources]
    migrations = corner.all("migrations")
    assert len(migrations) == APPS * REPLICAS
    for each in migrations:
        new = corner.pod(each["status"]["newPod"])
        assert new is not None
        assert node_of(new) == each["spec"]["targetNode"], each
        assert each["status"]["outcome"] == "Landed"
    assert generations(corner) == before
    assert corner.leftovers() == []
