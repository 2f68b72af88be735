"""A cluster on which a controller has to use every feature, and so every right."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from rescheduler.labels import MAINTENANCE, MIGRATION_ID, MIGRATION_NAME, MIGRATION_STATUS
from rescheduler.migration.state_machine.eviction import budget_name
from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import budget, deployment, node, pod, replicaset, service, statefulset
from testcluster.client import JsonObject
from testcluster.waiting import wait_until
from tests.migration.support import MIGRATIONS, MOVE_RECORDS, is_ready, node_of

NAMESPACE = "shop"
LEFT_BUDGET = budget_name("gone")
POLICY: dict[str, Any] = {
    "enabledStrategies": ["NodeMaintenance"],
    "reschedulingInterval": "1s",
    "maxReschedulePods": 50,
    "allowBarePods": True,
    "excludedNamespaces": ["kube-system", "kube-public"],
    "migration": {
        "keepFinished": "1s",
        "retryDelay": "1s",
        "maxRetries": 0,
        "leaveServices": "0.1s",
        "deploymentCoordination": True,
    },
}


class Features:
    """Workloads of every kind on one node, which is then put under maintenance."""

    def __init__(self, cluster: TestCluster) -> None:
        self.cluster = cluster
        self.client = cluster.client

    def path(self, plural: str, name: str = "") -> str:
        group = {
            "pods": "/api/v1",
            "replicationcontrollers": "/api/v1",
            "poddisruptionbudgets": "/apis/policy/v1",
        }.get(plural, "/apis/apps/v1")
        base = f"{group}/namespaces/{NAMESPACE}/{plural}"
        return f"{base}/{name}" if name else base

    # ------------------------------------------------------------ the cluster

    @contextmanager
    def workloads(self, *, are_moved: bool) -> Iterator[None]:
        """Workloads on the node `old`, while the block runs; one is enough to plan for."""
        if are_moved:
            self.create_workloads()
        else:
            apply(self.cluster, node("old"), deployment(f"{NAMESPACE}/web", 1))
            self.wait_ready("web", 1)
            apply(self.cluster, node("new"))
        try:
            yield
        finally:
            self.delete()

    def create_workloads(self) -> None:
        """All of them on the node `old`, Ready; only one pod is on the node `quiet`."""
        apply(self.cluster, node("quiet"), deployment(f"{NAMESPACE}/quiet", 1))
        self.wait_ready("quiet", 1)
        self.client.patch("/api/v1/nodes/quiet", {"spec": {"unschedulable": True}})
        apply(self.cluster, node("old"))
        apply(
            self.cluster,
            deployment(f"{NAMESPACE}/web", 2),
            service(f"{NAMESPACE}/web"),
            budget(f"{NAMESPACE}/web", min_available=2),
            # Its pods must not run twice, so they are evicted, under a temporary budget.
            deployment(f"{NAMESPACE}/single", 2, strategy={"type": "Recreate"}),
            statefulset(f"{NAMESPACE}/db", 2),
            replicaset(f"{NAMESPACE}/orphans", 1),
            pod(f"{NAMESPACE}/bare", labels={"app": "bare"}),
        )
        self.client.create(self.path("replicationcontrollers"), replication_controller())
        for app, count in WORKLOADS.items():
            self.wait_ready(app, count)
        # A single target: nothing steers the replacements of evicted pods.
        apply(self.cluster, node("new"))

    def create_leftovers(self) -> None:
        """What an earlier controller left behind: a temporary budget, and a very old record."""
        left = budget(f"{NAMESPACE}/{LEFT_BUDGET}", max_unavailable=1)
        left["metadata"]["labels"] = {MIGRATION_ID: "gone", MIGRATION_STATUS: "in-progress"}
        left["metadata"]["annotations"] = {MIGRATION_NAME: "gone"}
        apply(self.cluster, left)
        long_ago = datetime.now(UTC) - timedelta(days=20)
        record = {
            "namespace": NAMESPACE,
            "pod": "long-gone",
            "sourceNode": "old",
            "targetNode": "new",
            "outcome": "Landed",
            "finishedAt": long_ago.isoformat(timespec="seconds"),
        }
        body = {
            "apiVersion": "rescheduler.dev/v1alpha1",
            "kind": "MoveRecord",
            "metadata": {"name": "long-gone"},
            "spec": record,
        }
        self.client.create(MOVE_RECORDS, body)

    # ------------------------------------------------------------ what happens

    def use_all(self) -> None:
        """Everything that a controller does; returns when nothing of it is under way."""
        self.wait(
            lambda: not self.client.exists(self.path("poddisruptionbudgets", LEFT_BUDGET)),
            "the leftover budget is deleted",
        )
        self.move_and_cancel()
        self.move_to_a_node_that_does_not_exist()
        # The same Event of the same pod once more.
        self.move_to_a_node_that_does_not_exist()
        self.move_a_pod_whose_deployment_is_gone()
        self.drain()
        self.wait(
            lambda: not self.client.exists(f"{MOVE_RECORDS}/long-gone"), "the old record is dropped"
        )
        self.drain_by_command()
        self.wait(lambda: not self.migrations(), "finished Migrations are deleted")

    def drain(self) -> None:
        """Put the node under maintenance, and wait until it is empty and cordoned."""
        self.client.patch("/api/v1/nodes/old", {"metadata": {"labels": {MAINTENANCE: "true"}}})
        self.wait(lambda: not self.pods_on("old"), "the node is empty")
        assert self.client.get("/api/v1/nodes/old")["spec"]["unschedulable"] is True
        for app, count in WORKLOADS.items():
            self.wait_ready(app, count)

    def drain_by_command(self) -> None:
        """Drain another node with `rescheduler drain`, which leaves the moves to the controller.

        A single pod is enough: it is moved as those of the other node were.
        """
        program = Path(sys.executable).with_name("rescheduler")
        kubeconfig = f"--kubeconfig={self.cluster.kubeconfig}"
        command = [str(program), "drain", "quiet", "--wait", "--policy", "-", kubeconfig]
        policy = json.dumps(POLICY)
        done = subprocess.run(command, input=policy, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert not self.pods_on("quiet")
        self.wait_ready("quiet", 1)

    def move_and_cancel(self) -> None:
        """Start a handoff to a node where nothing becomes Ready, and delete the Migration."""
        apply(self.cluster, node("mute", managed=False))
        moved = self.wait_ready("web", 2)[0]
        name = self.migrate(moved, "mute")
        path = f"{MIGRATIONS.format(NAMESPACE)}/{name}"
        new = self.wait(lambda: self.client.get(path)["status"].get("newPod"), "it has started")
        self.wait(lambda: self.client.exists(self.path("pods", new)), "the new pod is there")
        self.client.delete(path)
        self.wait(lambda: self.is_deleted(new), "the new pod is deleted")
        if self.client.exists(self.path("pods", new)):
            # It was bound, and no kubelet ends it.
            self.client.request("DELETE", self.path("pods", new), {"gracePeriodSeconds": 0})
        self.client.delete("/api/v1/nodes/mute")

    def move_to_a_node_that_does_not_exist(self) -> None:
        self.finish(self.migrate(self.wait_ready("web", 2)[0], "no-such-node"))

    def move_a_pod_whose_deployment_is_gone(self) -> None:
        """The ReplicaSet says that a Deployment owns it, which has been deleted."""
        path = self.path("replicasets", "orphans")
        owner = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": "gone",
            "uid": "00000000-0000-4000-8000-000000000000",
            "controller": True,
        }
        # The finalizer keeps the garbage collector from removing it.
        metadata = {"ownerReferences": [owner], "finalizers": ["rescheduler.test/keep"]}
        self.client.patch(path, {"metadata": metadata})
        name = self.migrate(self.pods("orphans")[0], "new", mode="Handoff")
        migration = f"{MIGRATIONS.format(NAMESPACE)}/{name}"
        self.wait(
            lambda: "no longer exists" in self.client.get(migration)["status"]["message"],
            "the migration waits",
        )
        self.client.patch(path, {"metadata": {"finalizers": None}})
        self.finish(name)
        self.wait(lambda: not self.client.exists(path), "the ReplicaSet is gone")
        self.wait(lambda: not self.pods("orphans"), "its pod is gone")

    # ------------------------------------------------------------ looking

    def pods(self, app: str = "") -> list[JsonObject]:
        query = f"?labelSelector=app={app}" if app else ""
        found: list[JsonObject] = self.client.get(self.path("pods") + query)["items"]
        return found

    def is_deleted(self, name: str) -> bool:
        found = [each["metadata"] for each in self.pods() if each["metadata"]["name"] == name]
        return all("deletionTimestamp" in metadata for metadata in found)

    def pods_on(self, name: str) -> list[JsonObject]:
        return [found for found in self.pods() if node_of(found) == name]

    def migrations(self) -> list[JsonObject]:
        found: list[JsonObject] = self.client.get(MIGRATIONS.format(NAMESPACE))["items"]
        return found

    def wait_ready(self, app: str, count: int) -> list[JsonObject]:
        def ready() -> list[JsonObject]:
            found = [each for each in self.pods(app) if is_ready(each)]
            return found if len(found) == count else []

        return wait_until(ready, what=f"{count} pods of {app} are Ready")

    def migrate(self, moved: JsonObject, target: str, **spec: Any) -> str:
        metadata = moved["metadata"]
        name = f"move-{metadata['name']}-{target}"
        body = {
            "apiVersion": "rescheduler.dev/v1alpha1",
            "kind": "Migration",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "pod": {"name": metadata["name"], "uid": metadata["uid"]},
                "targetNode": target,
                **spec,
            },
        }
        self.client.create(MIGRATIONS.format(NAMESPACE), body)
        return name

    def finish(self, name: str) -> None:
        """Wait until a Migration has finished, after which it is soon deleted."""
        path = f"{MIGRATIONS.format(NAMESPACE)}/{name}"
        self.wait(lambda: not self.client.exists(path), f"{name} has finished")

    def wait(self, condition: Callable[[], Any], what: str) -> Any:
        return wait_until(condition, what=what)

    def schedule(self, scheduler: str) -> None:
        """Create a pod for a scheduler, and wait until it has a node."""
        name = "scheduled"
        apply(self.cluster, pod(f"{NAMESPACE}/{name}", schedulerName=scheduler))
        self.wait(lambda: node_of(self.client.get(self.path("pods", name))), "it is scheduled")

    def delete(self) -> None:
        """Delete the namespace, then the nodes: without its node, a pod takes a minute to go."""
        self.client.delete(f"/api/v1/namespaces/{NAMESPACE}")
        self.wait(
            lambda: not self.client.exists(f"/api/v1/namespaces/{NAMESPACE}"),
            "the namespace is gone",
        )
        for name in ("old", "new", "quiet", "mute"):
            if self.client.exists(f"/api/v1/nodes/{name}"):
                self.client.delete(f"/api/v1/nodes/{name}")


WORKLOADS = {"web": 2, "single": 2, "db": 2, "cache": 1}


def replication_controller() -> JsonObject:
    """A ReplicationController of one pod."""
    labels = {"app": "cache"}
    template = pod(f"{NAMESPACE}/cache")["spec"]
    return {
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "metadata": {"name": "cache", "namespace": NAMESPACE},
        "spec": {
            "replicas": 1,
            "selector": labels,
            "template": {"metadata": {"labels": labels}, "spec": template},
        },
    }
