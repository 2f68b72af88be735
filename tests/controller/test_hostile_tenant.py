"""Whoever may do as they like in one namespace does not hold up the drains of others."""

from collections import Counter
from typing import Any

import msgspec
import pytest

from rescheduler.controller.drain.node_drain import RemainingPods
from rescheduler.labels import (
    MIGRATION_ID,
    MIGRATION_NAME,
    MIGRATION_STATUS,
    ORIGINAL_POD,
    ORIGINAL_POD_NAME,
)
from rescheduler.settings import Policy, Seconds
from testcluster.applying import apply
from testcluster.builders import budget, pod, replicaset
from testcluster.client import JsonObject
from tests.controller.test_node_drain import drain
from tests.migration.ready_pod_watch import ReadyPodWatch
from tests.migration.support import (
    QUICK_OPTIONS,
    Sandbox,
    client_for,
    controller_on,
    is_ready,
    node_of,
)

HOMES, PODS_PER_HOME = 4, 5
HOSTILE_MIGRATIONS, PENDING_PODS = HOMES * PODS_PER_HOME, 200
APPS, REPLICAS = ("web", "api"), 3
# So long, at most, a hostile Migration may keep the slots of a node.
OPTIONS = msgspec.structs.replace(QUICK_OPTIONS, timeout_seconds=Seconds(30))
FOREIGN_GATE = {"name": "tenant.example.com/never-opened"}


@pytest.mark.parametrize("hostile", [False, True], ids=["alone", "beside a hostile tenant"])
async def test_a_drain_ends_with_the_same_moves_beside_a_hostile_tenant(
    sandbox: Sandbox, other_sandbox: Sandbox, hostile: bool
) -> None:
    tenant = Tenant(sandbox, other_sandbox.namespace)
    if hostile:
        tenant.settle()
    (source,) = sandbox.add_nodes("source", cpu="16")
    for app in APPS:
        sandbox.deploy(app, REPLICAS)
        apply(sandbox.cluster, budget(f"{sandbox.namespace}/{app}", min_available=REPLICAS))
    targets = sandbox.add_nodes("target-1", "target-2", cpu="16")
    policy = Policy(migration=OPTIONS)
    with ReadyPodWatch(sandbox.cluster, sandbox.namespace) as watcher:
        async with controller_on(sandbox.cluster, OPTIONS), client_for(sandbox.cluster) as client:
            if hostile:
                tenant.create_migrations(targets)
                await sandbox.until(tenant.has_slots, "it has slots")
                tenant.create_pending_pods(sandbox)
            assert await drain(sandbox, client, source, policy) == RemainingPods({}, {})
            await sandbox.until(
                lambda: len(sandbox.pods()) == len(APPS) * REPLICAS, "the old pods are deleted"
            )
    statuses = [found["status"] for found in sandbox.all("migrations")]
    moves = Counter(
        (status["workload"]["name"].rpartition("-")[0], status["mode"], status["outcome"])
        for status in statuses
    )
    assert moves == {(app, "Handoff", "Landed"): REPLICAS for app in APPS}
    assert sum(status.get("failures", 0) for status in statuses) == 0
    assert {node_of(found) for found in sandbox.pods()} <= {*targets}
    assert all(map(is_ready, sandbox.pods()))
    assert {app: watcher.fewest[app] for app in APPS} == dict.fromkeys(APPS, REPLICAS)
    assert watcher.problems == []


class Tenant:
    """Somebody with the rights to edit a namespace, and none in others."""

    def __init__(self, host: Sandbox, namespace: str) -> None:
        self._own = Sandbox(host.cluster, namespace)
        self._host = host

    def settle(self) -> None:
        """Pods that run, and whose replacements wait for ever, on nodes that take no others."""
        homes = [f"home-{number}" for number in range(HOMES)]
        nodes = self._host.add_nodes(*homes, cpu="16", pods=PODS_PER_HOME)
        owners = [f"stuck-{number}" for number in range(HOSTILE_MIGRATIONS)]
        for name in owners:
            key, labels = f"{self._own.namespace}/{name}", {"app": "stuck", "name": name}
            body = replicaset(key, 1, "100m", labels=labels, template=self._host.here())
            apply(self._host.cluster, body)
        self._own.wait_ready("stuck", HOSTILE_MIGRATIONS)
        gated = {"spec": {"template": {"spec": {"schedulingGates": [FOREIGN_GATE]}}}}
        for name in owners:
            self._own.outside.patch(self._own.path("replicasets", name), gated)
        for name in nodes:
            self._own.outside.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})

    def create_migrations(self, targets: list[str]) -> None:
        """To the nodes that others need as targets, with more time than the policy gives."""
        for number, found in enumerate(self._own.pods("stuck")):
            target = targets[number % len(targets)]
            self._own.migrate(found, target, mode="Handoff", timeoutSeconds=86_400)

    def has_slots(self) -> bool:
        """Whether its Migrations have as many slots as they get."""
        phases = [found["status"]["phase"] for found in self._own.all("migrations")]
        return phases.count("InProgress") >= 2 * OPTIONS.max_per_node

    def create_pending_pods(self, victim: Sandbox) -> None:
        """Pods that an empty node could take, with our marks and others' objects as owners."""
        theirs = victim.pods()
        owners = [found["metadata"]["ownerReferences"][0] for found in theirs]
        for number in range(PENDING_PODS):
            key = f"{self._own.namespace}/pending-{number}"
            body = pod(key, cpu="8", schedulerName="nobody", **self._host.here())
            del body["status"]
            body["metadata"] |= marks(theirs[number % len(theirs)])
            body["metadata"]["ownerReferences"] = [owners[number % len(owners)]]
            apply(self._host.cluster, body)
        for found in theirs:
            self._own.migrate(found, victim.nodes[-1], mode="Evict")


def marks(of: JsonObject) -> dict[str, Any]:
    """What a migration of somebody else's pod would write on its new pod."""
    uid, name = of["metadata"]["uid"], of["metadata"]["name"]
    return {
        "labels": {MIGRATION_ID: uid, MIGRATION_STATUS: "in-progress"},
        "annotations": {
            MIGRATION_NAME: f"move-{name}",
            ORIGINAL_POD: uid,
            ORIGINAL_POD_NAME: name,
        },
    }
