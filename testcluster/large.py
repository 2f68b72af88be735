"""Generate a very large cluster, object by object; the same seed gives the same cluster.

The objects look like those of a real cluster: pods of a few KB with the fields that controllers
and kubelets write, workloads of very different sizes, nodes that are unevenly loaded but never
over their capacity.

The generated dicts share equal parts: treat them as read-only.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from random import Random

from testcluster import large_pods
from testcluster.build import KUBERNETES_VERSION
from testcluster.builders import CREATED, HOSTNAME_LABEL, ZONE_LABEL, namespace
from testcluster.client import JsonObject
from testcluster.components import FAKE_NODE_ANNOTATION
from testcluster.large_pods import GIB, LargeNode, Workload

ZONES = ("zone-a", "zone-b", "zone-c")
IMAGES_PER_NODE = 25
WORKLOADS_PER_NAMESPACE = 25
# How many random nodes are tried for a pod before all nodes are checked one by one.
PLACEMENT_TRIES = 12


@dataclass(frozen=True)
class InstanceType:
    """An instance type of nodes."""

    name: str
    cpu: int
    memory_gib: int
    pods: int
    weight: int


INSTANCE_TYPES = (
    InstanceType("general-8", 8, 32, 58, 35),
    InstanceType("general-16", 16, 64, 110, 35),
    InstanceType("memory-8", 8, 64, 58, 15),
    InstanceType("general-32", 32, 128, 110, 15),
)


def generate_large_cluster(
    nodes: int = 5000,
    pods: int = 150_000,
    seed: int = 1,
    templates: int | None = None,
    managed: bool = False,
) -> Iterator[JsonObject]:
    """Namespaces, nodes, Deployments, ReplicaSets and then the running pods they own.

    `templates` is the number of Deployments, one for every 30 pods if not given; kwok simulates
    the nodes if they are `managed`. Raises ValueError when the nodes cannot hold the pods.
    """
    random = Random(seed)
    machines = [random_node(index, random) for index in range(nodes)]
    workloads = random_workloads(pods, min(pods, templates or max(1, pods // 30)), random)
    for name in sorted({workload.namespace for workload in workloads}):
        yield namespace_object(name, random)
    for machine in machines:
        yield node_object(machine, managed, random)
    for workload in workloads:
        yield from workload.owners()
    placement = Placement(machines, random)
    for workload in workloads:
        for _ in range(workload.replicas):
            yield workload.pod(placement.place(workload), random)


def namespace_object(name: str, random: Random) -> JsonObject:
    """A namespace as the API server stores it: with the finalizer that its deletion waits for."""
    plain = namespace(name)
    metadata = large_pods.metadata(name, None, random, plain["metadata"]["labels"])
    return {**plain, "metadata": metadata, "spec": {"finalizers": ["kubernetes"]}}


def random_node(index: int, random: Random) -> LargeNode:
    """A node of a random type, to be filled up to a random fraction."""
    kind = random.choices(INSTANCE_TYPES, [kind.weight for kind in INSTANCE_TYPES])[0]
    return LargeNode(
        name=f"ip-10-{index >> 8 & 255}-{index & 255}-{random.randint(1, 254)}",
        address=f"10.{index >> 8 & 255}.{index & 255}.{random.randint(1, 254)}",
        zone=ZONES[index % len(ZONES)],
        instance_type=kind.name,
        # What the system itself uses is not allocatable.
        cpu_millis=kind.cpu * 1000 - 100,
        memory_bytes=(kind.memory_gib - 2) * GIB,
        pods=kind.pods,
        target_fraction=random.betavariate(3, 1.6),
    )


def random_workloads(pods: int, templates: int, random: Random) -> list[Workload]:
    """Workloads whose replicas add up to `pods`: many small ones, a few very large ones."""
    shares = [random.lognormvariate(0, 1.1) for _ in range(templates)]
    scale = (pods - templates) / sum(shares)
    replicas = [1 + int(share * scale) for share in shares]
    for index in range(pods - sum(replicas)):
        replicas[index % templates] += 1
    return [
        Workload.random(f"team-{index // WORKLOADS_PER_NAMESPACE:03d}", index, count, random)
        for index, count in enumerate(replicas)
    ]


class Placement:
    """Places pods on nodes: unevenly, but never over the capacity of a node."""

    def __init__(self, nodes: list[LargeNode], random: Random) -> None:
        self.nodes = nodes
        self.random = random
        weights = [node.cpu_millis * node.target_fraction for node in nodes]
        self.sums = list(accumulate(weights))
        self.drawn: list[LargeNode] = []

    def place(self, workload: Workload) -> LargeNode:
        """The node for one more pod of the workload."""
        for _ in range(PLACEMENT_TRIES):
            node = self.next_random()
            if node.has_room(workload, node.target_fraction):
                return node.take(workload)
        start = self.random.randrange(len(self.nodes))
        for node in self.nodes[start:] + self.nodes[:start]:
            if node.has_room(workload, 1.0):
                return node.take(workload)
        raise ValueError(f"{len(self.nodes)} nodes cannot hold that many pods")

    def next_random(self) -> LargeNode:
        """A random node, weighted by the CPU to be used on it; drawn in batches for speed."""
        if not self.drawn:
            self.drawn = self.random.choices(self.nodes, cum_weights=self.sums, k=1000)
        return self.drawn.pop()


def node_object(node: LargeNode, managed: bool, random: Random) -> JsonObject:
    """The node as its kubelet reports it."""
    capacity = {
        "cpu": str((node.cpu_millis + 100) // 1000),
        "memory": f"{(node.memory_bytes + 2 * GIB) // 1024}Ki",
        "pods": str(node.pods),
        "ephemeral-storage": "104845292Ki",
        "hugepages-2Mi": "0",
    }
    allocatable = {
        **capacity,
        "cpu": f"{node.cpu_millis}m",
        "memory": f"{node.memory_bytes // 1024}Ki",
        "ephemeral-storage": "95551679124",
    }
    labels = {
        HOSTNAME_LABEL: node.name,
        ZONE_LABEL: node.zone,
        "topology.kubernetes.io/region": "region-1",
        "node.kubernetes.io/instance-type": node.instance_type,
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "example.com/node-pool": f"pool-{node.instance_type}",
        "example.com/capacity-type": "on-demand",
    }
    metadata = large_pods.metadata(node.name, None, random, labels)
    metadata["annotations"] = {
        "node.alpha.kubernetes.io/ttl": "0",
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
    }
    if managed:
        metadata["annotations"].update([FAKE_NODE_ANNOTATION])
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": {"providerID": f"cloud:///{node.zone}/i-{random.getrandbits(68):017x}"},
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": node.address},
                {"type": "Hostname", "address": node.name},
            ],
            "allocatable": allocatable,
            "capacity": capacity,
            "conditions": node_conditions(),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "images": node_images(random),
            "nodeInfo": node_info(random),
            "phase": "Running",
        },
    }


def node_conditions() -> list[JsonObject]:
    """A healthy node's conditions."""
    healthy = [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "has sufficient memory"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "is posting ready status"),
    ]
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": f"kubelet {message}",
            "lastHeartbeatTime": CREATED,
            "lastTransitionTime": CREATED,
        }
        for kind, status, reason, message in healthy
    ]


def node_images(random: Random) -> list[JsonObject]:
    """Images that the node has pulled, each under a digest and a tag."""
    return [
        {
            "names": [
                f"registry.example/library/image-{random.randrange(2000)}"
                f"@sha256:{random.getrandbits(256):064x}",
                f"registry.example/library/image-{random.randrange(2000)}:v1.{number}",
            ],
            "sizeBytes": random.randrange(10_000_000, 900_000_000),
        }
        for number in range(IMAGES_PER_NODE)
    ]


def node_info(random: Random) -> JsonObject:
    """The node's operating system and versions."""
    return {
        "architecture": "amd64",
        "bootID": large_pods.new_uid(random),
        "containerRuntimeVersion": "containerd://2.1.4",
        "kernelVersion": "6.12.30",
        "kubeProxyVersion": "",
        "kubeletVersion": KUBERNETES_VERSION,
        "machineID": f"{random.getrandbits(128):032x}",
        "operatingSystem": "linux",
        "osImage": "Example Linux 12",
        "systemUUID": large_pods.new_uid(random),
    }
