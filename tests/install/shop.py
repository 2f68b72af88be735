"""Applications on a node that is to be emptied, by whatever was installed."""

from collections.abc import Sequence

from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import budget, deployment, node, pod_condition
from testcluster.client import JsonObject
from testcluster.waiting import wait_until
from tests.migration.ready_pod_watch import ReadyPodWatch
from tests.migration.support import FINISHED, MIGRATIONS, is_ready, node_of

SHOP = "shop"
APPS, PODS_OF_APP = [f"app-{number:02}" for number in range(25)], 2
PODS = len(APPS) * PODS_OF_APP
SINCE = "2026-01-01T00:00:00Z"


class Shop:
    """Fifty pods of many applications, all on one node, `home`, and Ready.

    No application may lack a pod, so none of the pods can be evicted.
    """

    def __init__(self, cluster: TestCluster) -> None:
        self._cluster = cluster
        self._client = cluster.client
        self._nodes: list[str] = []
        self._unmanaged: list[str] = []
        self.home = self.add_node()
        keys = [f"{SHOP}/{app}" for app in APPS]
        apply(cluster, *[deployment(key, PODS_OF_APP, "100m") for key in keys])
        apply(cluster, *[budget(key, min_available=PODS_OF_APP) for key in keys])
        wait_until(lambda: len(self.ready_on(self.home)) == PODS, what="all pods are Ready")

    def add_node(self, *, managed: bool = True) -> str:
        """Add a node for all pods. Without anybody who manages it, none of them becomes Ready."""
        name = f"shop-{len(self._nodes)}"
        apply(self._cluster, node(name, managed=managed))
        self._nodes.append(name)
        if not managed:
            self._unmanaged.append(name)
        return name

    def pods_on(self, name: str, apps: Sequence[str] = APPS) -> list[JsonObject]:
        pods = self._client.get(f"/api/v1/namespaces/{SHOP}/pods")["items"]
        return [
            each
            for each in pods
            if node_of(each) == name and each["metadata"]["labels"]["app"] in apps
        ]

    def ready_on(self, name: str, apps: Sequence[str] = APPS) -> list[JsonObject]:
        return [each for each in self.pods_on(name, apps) if is_ready(each)]

    def have_moved_to(self, name: str, apps: Sequence[str] = APPS) -> bool:
        """Whether all pods of some apps are Ready on a node, and none of them is left at home."""
        if name in self._unmanaged:
            self._make_ready(name)
        count = len(apps) * PODS_OF_APP
        return len(self.ready_on(name, apps)) == count and not self.pods_on(self.home, apps)

    def _make_ready(self, name: str) -> None:
        """Do what the kubelet would that is not there."""
        ready = {"phase": "Running", "conditions": [pod_condition("Ready", True, SINCE)]}
        for each in self.pods_on(name):
            if not is_ready(each):
                path = f"/api/v1/namespaces/{SHOP}/pods/{each['metadata']['name']}/status"
                self._client.patch(path, {"status": ready})

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

    def has_lost_none(self, watcher: ReadyPodWatch) -> bool:
        """Whether every application has had all its pods Ready, all the time."""
        assert watcher.problems == []
        fewest = {app: watcher.fewest[app] for app in APPS}
        return fewest == dict.fromkeys(APPS, PODS_OF_APP)

    def close(self) -> None:
        """Delete the namespace; the nodes can go when nothing is on them."""
        if self._client.exists(f"/api/v1/namespaces/{SHOP}"):
            self._client.delete(f"/api/v1/namespaces/{SHOP}")
        for name in self._unmanaged:
            for each in self.pods_on(name):
                path = f"/api/v1/namespaces/{SHOP}/pods/{each['metadata']['name']}"
                self._client.request("DELETE", path, {"gracePeriodSeconds": 0})
        wait_until_gone(self._cluster, SHOP)
        for name in self._nodes:
            self._client.delete(f"/api/v1/nodes/{name}")
        self._nodes, self._unmanaged = [], []


def wait_until_gone(cluster: TestCluster, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}"
    wait_until(lambda: not cluster.client.exists(path), what=f"namespace {namespace} is gone")
