"""Watches pods and EndpointSlices from outside, and notes the order of what happens to them."""

from rescheduler.migration.moving_pod import LEFT_SERVICES
from testcluster import TestCluster
from testcluster.client import JsonObject
from testcluster.namespace_watch import NamespaceWatch
from testcluster.waiting import wait_until


class ServiceWatch(NamespaceWatch):
    """The versions of a cluster's objects grow with every write, of whatever kind: so they tell
    what happened first."""

    def __init__(self, cluster: TestCluster, namespace: str) -> None:
        slices = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        super().__init__(
            cluster,
            {
                f"/api/v1/namespaces/{namespace}/pods": self._take_pod,
                slices: self._take_slice,
                f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets": self._take_budget,
            },
        )
        self.fewest_endpoints: int | None = None
        """The least number of ready endpoints, if all are in one EndpointSlice."""
        self.dropped: dict[str, int] = {}
        """By uid of a pod: the version of the EndpointSlice in which it was no longer ready."""
        self.marked: set[str] = set()
        """The uids of pods that a migration has marked as not Ready."""
        self.deleted: dict[str, int] = {}
        """By uid of a pod: the version in which it was first seen as being deleted."""
        self.short_budgets: list[str] = []
        """Disruption budgets that counted fewer healthy pods than they want."""
        self._ready: set[str] = set()

    def _take_pod(self, type: str, pod: JsonObject) -> None:
        metadata = pod["metadata"]
        if "deletionTimestamp" in metadata:
            self.deleted.setdefault(metadata["uid"], int(metadata["resourceVersion"]))
        elif any(has_left(condition) for condition in pod["status"].get("conditions", [])):
            self.marked.add(metadata["uid"])

    def _take_slice(self, type: str, found: JsonObject) -> None:
        ready = {
            endpoint["targetRef"]["uid"]
            for endpoint in found.get("endpoints") or []
            if endpoint["conditions"]["ready"]
        }
        for uid in self._ready - ready:
            self.dropped[uid] = int(found["metadata"]["resourceVersion"])
        self._ready = ready
        if self.fewest_endpoints is None or len(ready) < self.fewest_endpoints:
            self.fewest_endpoints = len(ready)

    def _take_budget(self, type: str, found: JsonObject) -> None:
        status = found.get("status", {})
        if status.get("currentHealthy", 0) < status.get("desiredHealthy", 0):
            self.short_budgets.append(found["metadata"]["name"])

    def left_in_time(self, uid: str) -> bool:
        """Whether the Service had dropped a pod before it was deleted."""
        wait_until(lambda: uid in self.deleted and uid in self.dropped, what="the pod is gone")
        return self.dropped[uid] < self.deleted[uid]


def has_left(condition: JsonObject) -> bool:
    """Whether a pod's condition is the one by which a migration takes it out of Services."""
    return condition.get("reason") == LEFT_SERVICES and condition["status"] == "False"
