"""Nodes are drained although no budget allows any eviction, and nobody loses a second pod."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from rescheduler.controller.drain.node_drain import NodeDrain, RemainingPods
from rescheduler.kube.api_server import object_path
from rescheduler.kube.client import Client
from rescheduler.migration.migration_object import MIGRATION, Migration
from rescheduler.migration.migration_request import create_migration
from rescheduler.settings import Policy, Seconds
from testcluster import builders
from testcluster.applying import apply
from testcluster.builders import budget, deployment, statefulset
from tests.migration.ready_pod_watch import ReadyPodWatch
from tests.migration.support import (
    QUICK_OPTIONS,
    Sandbox,
    client_for,
    controller_on,
    is_ready,
    node_of,
    set_ready,
    set_running,
)

APPS, REPLICAS = 10, 5
MANY_AT_ONCE = msgspec.structs.replace(QUICK_OPTIONS, max_per_node=20)


def fill(sandbox: Sandbox) -> list[str]:
    """Fifty pods of Deployments whose budgets allow no eviction at all; their names."""
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

    async def create_and_follow(
        bodies: list[dict[str, Any]], existing: Sequence[Migration]
    ) -> list[Migration]:
        for body in bodies:
            await create_migration(client, body)
        names = [body["metadata"]["name"] for body in bodies]
        names += [found.metadata.name for found in existing]
        # Dozens at a time, perhaps on a busy machine.
        await sandbox.finished(*names, timeout=600)
        keys = [f"{sandbox.namespace}/{name}" for name in names]
        return [await client.get(object_path(MIGRATION, key), Migration) for key in keys]

    node_drain = NodeDrain(client, node, policy)
    await node_drain.cordon()
    return await node_drain.run(create_and_follow)


async def test_nodes_that_received_moved_pods_can_be_drained_in_their_turn(
    sandbox: Sandbox,
) -> None:
    """Each node is drained and opened again, so that most pods are moved several times."""
    first, *others = sandbox.add_nodes("a", "b", "c")
    for app in ("web", "api"):
        sandbox.deploy(app, 3)
        apply(sandbox.cluster, budget(f"{sandbox.namespace}/{app}", min_available=3))
    templates = {app: sandbox.get("deployments", app) for app in ("web", "api")}
    with ReadyPodWatch(sandbox.cluster, sandbox.namespace) as watcher:
        async with controller_on(sandbox.cluster), client_for(sandbox.cluster) as client:
            for node in (first, *others, first):
                assert await drain(sandbox, client, node, Policy()) == RemainingPods({}, {})
                await sandbox.until(lambda: len(sandbox.pods()) == 6, "the old pods are deleted")
                assert not [pod for pod in sandbox.pods() if node_of(pod) == node]
                sandbox.outside.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None}})
    assert (watcher.fewest["web"], watcher.fewest["api"]) == (3, 3)
    assert watcher.problems == []
    for pod in sandbox.pods():
        template = templates[pod["metadata"]["labels"]["app"]]
        assert template is not None
        # No required node affinity: the cluster autoscaler may remove its node.
        affinity = template["spec"]["template"]["spec"].get("affinity")
        assert pod["spec"].get("affinity") == affinity
        assert "schedulingGates" not in pod["spec"]
        assert "nominatedNodeName" not in pod["status"]


async def test_fifty_pods_leave_their_nodes_with_never_one_ready_pod_too_few(
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


@pytest.mark.parametrize("has_budget", [False, True])
async def test_a_statefulset_with_a_pod_that_is_not_ready_loses_no_other(
    sandbox: Sandbox, has_budget: bool
) -> None:
    (source,) = sandbox.add_nodes("a")
    body = statefulset(f"{sandbox.namespace}/db", 3, "100m", template=sandbox.here())
    apply(sandbox.cluster, body)
    before = sandbox.wait_ready("db", 3)
    if has_budget:
        key = f"{sandbox.namespace}/db"
        apply(sandbox.cluster, budget(key, max_unavailable=2, selector={"app": "db"}))
    sandbox.add_nodes("b")
    set_ready(sandbox, "db-2", "False")
    async with controller_on(sandbox.cluster), client_for(sandbox.cluster) as client:
        remaining = await drain(sandbox, client, source, Policy())
    shortage = f"StatefulSet {sandbox.namespace}/db has 2 of 3 pods Ready"
    assert remaining.blocked == {
        f"{sandbox.namespace}/db-0": shortage,
        f"{sandbox.namespace}/db-1": shortage,
        f"{sandbox.namespace}/db-2": "it is not Ready, so something is wrong already",
    }
    kept = {pod["metadata"]["uid"] for pod in sandbox.pods("db")}
    assert kept == {pod["metadata"]["uid"] for pod in before}


async def test_a_workload_of_an_unknown_kind_that_replaces_no_pod_loses_only_one(
    sandbox: Sandbox,
) -> None:
    """Nobody knows how many pods it wants; and its controller does nothing.

    A second drain evicts no other, although the Migration that failed is gone.
    """
    (source,) = sandbox.add_nodes("a")
    pods = [custom_pod(sandbox, f"clone-{number}") for number in range(3)]
    apply(sandbox.cluster, *pods)
    sandbox.wait_ready("clone", 3)
    sandbox.add_nodes("b")
    impatient = msgspec.structs.replace(QUICK_OPTIONS, timeout_seconds=Seconds(2))
    policy = Policy(migration=impatient)
    async with controller_on(sandbox.cluster, impatient), client_for(sandbox.cluster) as client:
        remaining = await drain(sandbox, client, source, policy)
        await sandbox.until(sandbox.move_records, "the failure is recorded")
        for migration in sandbox.all("migrations"):
            sandbox.outside.delete(sandbox.path("migrations", migration["metadata"]["name"]))
        remaining_later = await drain(sandbox, client, source, policy)
    shortage = f"CloneSet {sandbox.namespace}/clone has 2 of 3 pods Ready"
    assert len(remaining.failed) == 1
    assert set(remaining.blocked.values()) == {shortage}
    assert remaining_later == RemainingPods(remaining.blocked)
    assert len(sandbox.pods("clone")) == 2


async def test_pods_of_a_custom_resource_named_job_are_looked_at_before_an_eviction(
    sandbox: Sandbox,
) -> None:
    # Nobody plays this node: pods of a Job would be completed at once.
    sandbox.add_nodes("a", managed=False)
    apply(sandbox.cluster, *[custom_pod(sandbox, f"job-{n}", "Job") for n in range(2)])
    await sandbox.until(lambda: all(map(node_of, sandbox.pods("job"))), "both are bound")
    old, _not_ready = sandbox.pods("job")
    set_running(sandbox, old)
    (target,) = sandbox.add_nodes("b")
    async with controller_on(sandbox.cluster):
        name = sandbox.migrate(old, target, mode="Evict")
        await sandbox.until(
            lambda: "is not Ready" in sandbox.status(name).get("message", ""), "it waits"
        )
    assert len(sandbox.pods("job")) == 2


def custom_pod(sandbox: Sandbox, name: str, kind: str = "CloneSet") -> dict[str, Any]:
    """A pod that a custom resource claims to control."""
    app = name.partition("-")[0]
    owner = {
        "apiVersion": "example.com/v1",
        "kind": kind,
        "metadata": {"name": app, "uid": f"uid-of-{app}-in-{sandbox.namespace}"},
    }
    key = f"{sandbox.namespace}/{name}"
    body = builders.pod(key, cpu="100m", labels={"app": app}, owner=owner, **sandbox.here())
    del body["status"]
    return body
