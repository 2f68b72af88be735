"""A release is upgraded in the middle of migrations and then removed: nobody notices either.

The replicas are processes that are started as the Deployment of each version says, and replaced one
after the other, as its controller replaces pods.
"""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from rescheduler.install.options import PROJECT_VERSION
from rescheduler.labels import MAINTENANCE
from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import budget, deployment, namespace, node, pod_condition
from testcluster.client import JsonObject
from testcluster.waiting import wait_until
from tests.conftest import CRDS
from tests.install.helm import Helm, objects_in, settings
from tests.install.installs import leftovers
from tests.install.local_pod import LocalPod, Rendered
from tests.install.test_files import CHART
from tests.migration.ready_pod_watch import ReadyPodWatch
from tests.migration.support import FINISHED, MIGRATIONS, is_ready, node_of

RELEASE, NAMESPACE = "mover", "rescheduler"
SHOP, ANNEX = "shop", "annex"
APPS, PODS_OF_APP = [f"app-{number}" for number in range(5)], 2
PODS = len(APPS) * PODS_OF_APP
NEXT_VERSION = "99.0.0"
SINCE = "2026-01-01T00:00:00Z"
NEW_DESCRIPTION = "Which pod is moved"
VALUES: dict[str, Any] = {
    "extender.enabled": False,
    # The replicas are processes of this machine; the pods of the Deployment stay pending.
    "nodeSelector": {"no-such-label": "true"},
    "policy": {
        "enabledStrategies": ["NodeMaintenance"],
        "reschedulingInterval": "1s",
        "maxReschedulePods": 50,
        "excludedNamespaces": ["kube-system", NAMESPACE],
        "migration": {"maxPerNode": 10, "leaveServices": "0.1s", "timeout": "10m"},
    },
}


def next_version(directory: Path) -> Path:
    """The chart with another version, and with a change in a CustomResourceDefinition."""
    copied = directory / "rescheduler"
    shutil.copytree(CHART, copied)
    for name, old, new in (
        ("Chart.yaml", PROJECT_VERSION, NEXT_VERSION),
        ("templates/crds.yaml", "The pod to move", NEW_DESCRIPTION),
    ):
        text = (copied / name).read_text()
        assert old in text
        (copied / name).write_text(text.replace(old, new))
    return copied


class Release:
    """A release of the chart, and its replicas."""

    def __init__(self, cluster: TestCluster, helm: Helm, directory: Path, stack: ExitStack) -> None:
        self._cluster = cluster
        self._helm = helm
        self._directory = directory
        self._stack = stack
        self._count = 0

    def install(self, chart: Path, *command: str) -> Rendered:
        """Install or upgrade; the objects as Helm has stored them."""
        self._helm(*command, RELEASE, str(chart), f"--namespace={NAMESPACE}", *settings(VALUES))
        return Rendered(objects_in(self._helm("get", "manifest", RELEASE, "-n", NAMESPACE)))

    def replica(self, rendered: Rendered) -> LocalPod:
        """Start another replica, and wait until it is ready."""
        self._count += 1
        place = self._directory / f"replica-{self._count}"
        started = LocalPod(self._cluster, rendered, "rescheduler", place)
        self._stack.callback(started.kill)
        started.start()
        return started

    def uninstall(self) -> None:
        self._helm("uninstall", RELEASE, "--namespace", NAMESPACE, "--wait")


class Shop:
    """Applications on one node, and the Migrations that take them to another one."""

    def __init__(self, cluster: TestCluster) -> None:
        self._cluster = cluster
        self._client = cluster.client

    def open(self) -> None:
        """All pods on the node `old`, Ready. On the node `new`, nothing becomes Ready yet."""
        apply(self._cluster, node("old"))
        for app in APPS:
            key = f"{SHOP}/{app}"
            apply(
                self._cluster,
                deployment(key, PODS_OF_APP, "100m"),
                budget(key, min_available=PODS_OF_APP),
            )
        wait_until(lambda: len(self.ready_on("old")) == PODS, what="all pods are Ready")
        apply(self._cluster, node("new", managed=False))

    def pods_on(self, name: str) -> list[JsonObject]:
        pods = self._client.get(f"/api/v1/namespaces/{SHOP}/pods")["items"]
        return [each for each in pods if node_of(each) == name]

    def ready_on(self, name: str) -> list[JsonObject]:
        return [each for each in self.pods_on(name) if is_ready(each)]

    def have_moved(self) -> bool:
        """Whether all pods are Ready on `new`, where those that are not become so now."""
        for each in self.pods_on("new"):
            if not is_ready(each):
                ready = {"phase": "Running", "conditions": [pod_condition("Ready", True, SINCE)]}
                path = f"/api/v1/namespaces/{SHOP}/pods/{each['metadata']['name']}/status"
                self._client.patch(path, {"status": ready})
        return len(self.ready_on("new")) == PODS and not self.pods_on("old")

    def stop_pods(self) -> None:
        """Let pods on `new` end, as the kubelet would that is not there."""
        for each in self.pods_on("new"):
            path = f"/api/v1/namespaces/{SHOP}/pods/{each['metadata']['name']}"
            self._client.request("DELETE", path, {"gracePeriodSeconds": 0})

    def migrations(self) -> dict[str, JsonObject]:
        """The status of every Migration, by its uid."""
        found = self._client.get(MIGRATIONS.format(SHOP))["items"]
        return {each["metadata"]["uid"]: each.get("status", {}) for each in found}

    def under_way(self) -> set[str]:
        """The Migrations whose new pod was created, and which are not over."""
        return {
            uid
            for uid, status in self.migrations().items()
            if status.get("newPod") and status.get("phase") not in FINISHED
        }

    def delete_namespace(self, name: str) -> None:
        path = f"/api/v1/namespaces/{name}"
        self._client.delete(path)
        if name == SHOP:
            self.stop_pods()
        wait_until(lambda: not self._client.exists(path), what=f"namespace {name} is gone")

    def request_in_vain(self, name: str) -> None:
        """Create a Migration that nobody carries out."""
        apply(self._cluster, namespace(name))
        body = {
            "apiVersion": "rescheduler.dev/v1alpha1",
            "kind": "Migration",
            "metadata": {"name": "waiting", "namespace": name},
            "spec": {"pod": {"name": "nobody", "uid": "none"}, "targetNode": "new"},
        }
        self._client.create(MIGRATIONS.format(name), body)


@pytest.fixture
def release(audited: TestCluster, helm_binary: Path, tmp_path: Path) -> Iterator[Release]:
    with ExitStack() as stack:
        helm = Helm(helm_binary, tmp_path / "helm", audited.kubeconfig)
        yield Release(audited, helm, tmp_path, stack)


def test_an_upgrade_finishes_migrations_and_a_removal_leaves_nothing(
    audited: TestCluster, release: Release, tmp_path: Path
) -> None:
    client, shop = audited.client, Shop(audited)
    shop.open()
    installed = release.install(CHART, "install", "--create-namespace")
    old = [release.replica(installed) for _ in range(2)]
    with ReadyPodWatch(audited, SHOP) as watcher:
        client.patch("/api/v1/nodes/old", {"metadata": {"labels": {MAINTENANCE: "true"}}})
        # One pod of each app at a time.
        wait_until(lambda: len(shop.under_way()) == len(APPS), what="moves are under way")
        begun = shop.under_way()

        upgraded = release.install(next_version(tmp_path / "next"), "upgrade")
        (container,) = upgraded.get("Deployment", "rescheduler")["spec"]["template"]["spec"][
            "containers"
        ]
        assert container["image"].endswith(f":{NEXT_VERSION}")
        assert NEW_DESCRIPTION in str(client.get(f"{CRDS}/migrations.rescheduler.dev"))
        new = []
        for former in old:
            new.append(release.replica(upgraded))
            former.stop()
        assert shop.under_way() == begun, "the same moves, not undone and not begun again"

        wait_until(shop.have_moved, what="all pods have moved")
        wait_until(lambda: not shop.under_way(), what="all moves are over")
    assert begun <= shop.migrations().keys()
    assert {status.get("outcome") for status in shop.migrations().values()} == {"Landed"}
    assert {app: watcher.fewest[app] for app in APPS} == dict.fromkeys(APPS, PODS_OF_APP)
    assert watcher.problems == []

    for replica in new:
        replica.stop()
    shop.request_in_vain(ANNEX)
    # Both namespaces have Migrations, and nobody is there to clean up.
    shop.delete_namespace(SHOP)
    release.uninstall()
    shop.delete_namespace(ANNEX)
    shop.delete_namespace(NAMESPACE)
    assert leftovers(audited) == []
    for name in ("old", "new"):
        client.delete(f"/api/v1/nodes/{name}")
