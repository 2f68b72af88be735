"""Clusters from a seed, as Kubernetes objects, that use everything the feasibility rules look at.

Pods come mostly in groups of replicas, as in real clusters, and lie on nodes at random: what
is placed badly (overcommitted, crowded, on a cordoned node) is the interesting part.
"""

from copy import deepcopy
from dataclasses import dataclass

from testcluster.client import JsonObject
from tests.planning.feasibility import generated_needs as needs
from tests.planning.feasibility import generated_neighbours as neighbours
from tests.planning.feasibility.cluster_focus import Focus, focus_of
from tests.planning.feasibility.draw import Draw
from tests.planning.feasibility.generated_nodes import POOL, POOLS, make_nodes
from tests.planning.feasibility.generated_volumes import Storage

REPLICAS = (1, 1, 1, 2, 3, 5, 8, 12)
UNKNOWN_NODE = "node-just-deleted"


@dataclass(frozen=True)
class GeneratedCluster:
    """A cluster's objects, and the seed that gives them again."""

    seed: int
    focus: str
    nodes: list[JsonObject]
    pods: list[JsonObject]
    others: list[JsonObject]

    @property
    def items(self) -> list[JsonObject]:
        """All objects, as a list of them would have them."""
        return [*self.nodes, *self.others, *self.pods]


def generate_cluster(seed: int, nodes: int = 30, pods: int = 150) -> GeneratedCluster:
    """The cluster of this seed. The same seed with another size gives another cluster."""
    draw = Draw(seed)
    focus = focus_of(seed)
    made_nodes = make_nodes(draw, focus, nodes)
    storage = Storage(draw, focus, [node["metadata"]["name"] for node in made_nodes])
    others = [*_namespaces(), *storage.cluster_objects()]
    workloads = _Workloads(draw, focus, made_nodes, storage)
    made_pods: list[JsonObject] = []
    while len(made_pods) < pods:
        made_pods += workloads.next()[: pods - len(made_pods)]
    others += [*storage.drivers(), *storage.objects]
    return GeneratedCluster(seed, focus.name, made_nodes, made_pods, others)


def key_of(obj: JsonObject) -> str:
    """`namespace/name`, as the oracle names pods."""
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"


def is_placed(pod: JsonObject, nodes: set[str]) -> bool:
    """Whether the scheduler counts the pod as running on one of these nodes."""
    ended = pod["status"]["phase"] in ("Succeeded", "Failed")
    return not ended and pod["spec"].get("nodeName") in nodes


def _namespaces() -> list[JsonObject]:
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name, **labels}},
        }
        for name, labels in neighbours.NAMESPACES.items()
    ]


class _Workloads:
    """Groups of replicas, one after another."""

    def __init__(self, draw: Draw, focus: Focus, nodes: list[JsonObject], storage: Storage) -> None:
        self._draw = draw
        self._focus = focus
        self._nodes = [node["metadata"]["name"] for node in nodes]
        self._storage = storage
        self._count = 0

    def next(self) -> list[JsonObject]:
        """The pods of a workload; now and then it is a pod on its own."""
        draw = self._draw
        self._count += 1
        namespace = draw.one((*neighbours.NAMESPACES, "shop", neighbours.UNLISTED))
        labels = neighbours.pod_labels(draw)
        spec = self._spec(labels)
        status = needs.resize(draw, spec) if draw.chance(0.05 + self._focus.tight * 0.3) else {}
        own_volumes = False
        if self._storage.uses_volumes():
            own_volumes = draw.chance(0.3)
            spec["volumes"] = [] if own_volumes else self._storage.shared(namespace)
        pods = []
        for number in range(draw.one(REPLICAS)):
            pod = self._pod(namespace, labels, spec, status, number)
            if own_volumes:
                pod["spec"]["volumes"] = self._storage.own(namespace)
            self._storage.claims_of_ephemeral(pod)
            pods.append(pod)
        return pods

    def _spec(self, labels: dict[str, str]) -> JsonObject:
        draw, focus = self._draw, self._focus
        spec = {**needs.containers(draw, focus), **needs.host_access(draw, focus)}
        affinity = neighbours.affinity(draw, focus, labels)
        near = needs.node_affinity(draw, focus, self._nodes)
        if near is not None:
            affinity["nodeAffinity"] = near
        spread = neighbours.spread_constraints(draw, focus, labels)
        optional = {
            "affinity": affinity,
            "tolerations": needs.tolerations(draw, focus),
            "topologySpreadConstraints": spread,
        }
        selector = needs.node_selector(draw, focus)
        if not selector and any("nodeAffinityPolicy" in each for each in spread):
            # A policy about node affinity matters only to pods that have some.
            selector = {POOL: draw.one(POOLS)} if draw.chance(0.6) else None
        if selector is not None:
            spec["nodeSelector"] = selector
        return spec | {field: value for field, value in optional.items() if value}

    def _pod(
        self,
        namespace: str,
        labels: dict[str, str],
        spec: JsonObject,
        status: JsonObject,
        number: int,
    ) -> JsonObject:
        draw = self._draw
        owner = f"workload-{self._count}"
        name = f"{owner}-{number}"
        metadata: JsonObject = {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{namespace}-{name}",
            "labels": dict(labels),
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": owner,
                    "uid": f"uid-{owner}",
                    "controller": True,
                }
            ],
        }
        if draw.chance(0.07):
            metadata["deletionTimestamp"] = "2025-01-01T00:00:00Z"
        pod: JsonObject = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": deepcopy(spec),
            "status": {"phase": "Running", **deepcopy(status)},
        }
        self._place(pod)
        return pod

    def _place(self, pod: JsonObject) -> None:
        fate = self._draw.random()
        if fate < 0.04:
            pod["status"]["phase"] = "Pending"
            return
        pod["spec"]["nodeName"] = self._draw.one(self._nodes)
        if fate < 0.08:
            pod["status"]["phase"] = self._draw.one(("Succeeded", "Failed"))
        elif fate < 0.09:
            pod["spec"]["nodeName"] = UNKNOWN_NODE
        elif fate < 0.11:
            pod["status"]["phase"] = "Pending"
