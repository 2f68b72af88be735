"""A real kube-scheduler, asked for one pod after the other."""

import http.client
import json
import re
from collections.abc import Iterator

from testcluster.client import Client, JsonObject
from testcluster.cluster import TestCluster
from testcluster.waiting import wait_until
from tests.simulation.cluster.scheduler.random_clusters import PRIORITIES, RandomCluster

SECONDS = 20


class PodWatch:
    """Every change of a pod since the watch began, in order, read as it is needed."""

    def __init__(self, client: Client) -> None:
        version = client.get("/api/v1/pods?limit=1")["metadata"]["resourceVersion"]
        self._connection = client.connect()
        self._connection.request(
            "GET",
            f"/api/v1/pods?watch=1&resourceVersion={version}",
            headers={"Authorization": f"Bearer {client.token}"},
        )
        self._response: http.client.HTTPResponse = self._connection.getresponse()

    def changes(self, uid: str) -> Iterator[tuple[str, JsonObject]]:
        """What happens to one pod from here on; what happens to others is skipped."""
        while line := self._response.readline():
            event = json.loads(line)
            if event["object"]["metadata"].get("uid") == uid:
                yield event["type"], event["object"]
        raise AssertionError("the watch of pods ended")

    def close(self) -> None:
        self._response.close()
        self._connection.close()


class RealScheduler:
    """What kube-scheduler makes of pods in a cluster that has nothing else running."""

    def __init__(self, cluster: TestCluster) -> None:
        self._client = cluster.client
        # Nobody may push others out, not even pods that name no class.
        for name, value in {"none": 0, **PRIORITIES}.items():
            self._client.create(
                "/apis/scheduling.k8s.io/v1/priorityclasses",
                {
                    "metadata": {"name": name},
                    "value": value,
                    "globalDefault": name == "none",
                    "preemptionPolicy": "Never",
                },
            )
        self._watch = PodWatch(cluster.client)

    def close(self) -> None:
        self._watch.close()

    def enter(self, cluster: RandomCluster) -> list[JsonObject]:
        """Replace everything by a cluster, and wait until the scheduler knows; its objects."""
        self._clear()
        objects = [self._client.create(_collection(value), value) for value in cluster.objects()]
        wait_until(
            lambda: self._known_nodes(cluster) == len(cluster.nodes), SECONDS, "the nodes are known"
        )
        return objects

    def schedule(self, pod: JsonObject) -> JsonObject:
        """The pod once it is bound, or once it is said why it cannot be."""
        return self.decision(self.create(pod))

    def create(self, pod: JsonObject) -> JsonObject:
        """The pod as the server stores it; the scheduler leaves it alone if it is gated."""
        return self._client.create(_collection(pod), pod)

    def decision(self, pod: JsonObject) -> JsonObject:
        """The pod once it is bound, or once it is said why it cannot be."""
        for _, seen in self._watch.changes(pod["metadata"]["uid"]):
            if seen["spec"].get("nodeName") or refusal(seen):
                return seen
        raise AssertionError("the watch of pods ended")

    def nominate(self, pod: JsonObject, node: str) -> JsonObject:
        """The pod, nominated to a node."""
        return self._client.patch(
            f"{_path(pod)}/status", {"status": {"nominatedNodeName": node or None}}
        )

    def open(self, pod: JsonObject) -> JsonObject:
        """The pod without gates, before the scheduler has looked at it."""
        return self._client.patch(_path(pod), {"spec": {"schedulingGates": None}})

    def delete(self, pod: JsonObject, at_once: bool) -> JsonObject:
        """Remove a pod, or only mark it as terminating: there is no kubelet to end it."""
        metadata = pod["metadata"]
        self._client.delete(f"{_path(pod)}?gracePeriodSeconds={0 if at_once else 60}")
        expected = "DELETED" if at_once else "MODIFIED"
        for kind, seen in self._watch.changes(metadata["uid"]):
            if kind == expected and seen["metadata"].get("deletionTimestamp"):
                return seen
        raise AssertionError("the watch of pods ended")

    def _clear(self) -> None:
        for pod in self._client.get("/api/v1/pods")["items"]:
            self.delete(pod, at_once=True)
        self._client.delete("/api/v1/nodes")

    def _known_nodes(self, cluster: RandomCluster) -> int:
        """How many nodes the scheduler speaks of when it has to refuse a pod."""
        huge = {"name": "huge", "image": "none", "resources": {"requests": {"cpu": "1000"}}}
        probe = {
            "kind": "Pod",
            "metadata": {"generateName": "probe-", "namespace": cluster.namespaces[0]},
            "spec": {"containers": [huge]},
        }
        seen = self.schedule(probe)
        self.delete(seen, at_once=True)
        said = re.match(r"0/(\d+) nodes", refusal(seen))
        return int(said[1]) if said else 0


def refusal(pod: JsonObject) -> str:
    """Why the scheduler found no node; empty if it has not looked, or found one."""
    for condition in pod["status"].get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
            return str(condition["message"])
    return ""


def _path(pod: JsonObject) -> str:
    return f"{_collection({**pod, 'kind': 'Pod'})}/{pod['metadata']['name']}"


def _collection(built: JsonObject) -> str:
    own_namespace = built["metadata"].get("namespace")
    root = "/api/v1" if built.get("apiVersion", "v1") == "v1" else f"/apis/{built['apiVersion']}"
    scope = f"/namespaces/{own_namespace}" if own_namespace else ""
    return f"{root}{scope}/{built['kind'].lower()}s"
