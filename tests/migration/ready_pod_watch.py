"""Watches a namespace from outside, and counts the Ready pods after every change."""

from collections import defaultdict

from testcluster import TestCluster
from testcluster.client import JsonObject
from testcluster.namespace_watch import NamespaceWatch
from tests.migration.support import is_ready


class ReadyPodWatch(NamespaceWatch):
    """Watches pods and ReplicaSets.

    `fewest` and `most` are the least and the greatest number of Ready pods that each app ever
    had; `fewest_counted` is what the ReplicaSets themselves counted.
    """

    def __init__(self, cluster: TestCluster, namespace: str) -> None:
        super().__init__(
            cluster,
            {
                f"/api/v1/namespaces/{namespace}/pods": self._take_pod,
                f"/apis/apps/v1/namespaces/{namespace}/replicasets": self._take_replica_set,
            },
        )
        self.fewest: dict[str, int] = {}
        self.most: dict[str, int] = {}
        self.fewest_counted: dict[str, int] = {}
        self.events = 0
        self._ready: defaultdict[str, set[str]] = defaultdict(set)

    def _listed(self) -> None:
        self.fewest = {app: len(names) for app, names in self._ready.items()}

    def _take_pod(self, type: str, pod: JsonObject) -> None:
        self.events += 1
        app = pod["metadata"].get("labels", {}).get("app", "")
        names = self._ready[app]
        if type != "DELETED" and is_ready(pod):
            names.add(pod["metadata"]["name"])
        else:
            names.discard(pod["metadata"]["name"])
        self.fewest[app] = min(self.fewest.get(app, len(names)), len(names))
        self.most[app] = max(self.most.get(app, 0), len(names))

    def _take_replica_set(self, type: str, found: JsonObject) -> None:
        name = found["metadata"]["name"]
        ready = found.get("status", {}).get("readyReplicas", 0)
        if found["spec"]["replicas"] and type != "DELETED":
            self.fewest_counted[name] = min(self.fewest_counted.get(name, ready), ready)
