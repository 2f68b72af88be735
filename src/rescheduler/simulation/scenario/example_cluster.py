"""The example cluster: 40 nodes and 600 pods, and what is wrong with it.

It has grown as clusters do. A third of its nodes is crowded and a third nearly empty; one node is
to be emptied for maintenance; many disruption budgets are tight, and some allow no disruption at
all; a database keeps its volumes in zones; a few pods must stay where they are.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from rescheduler.labels import MAINTENANCE
from rescheduler.settings import Policy, Seconds, StrategyName
from rescheduler.simulation.cluster.json_objects import reference_to
from rescheduler.simulation.scenario.cluster_completion import uid_for
from rescheduler.simulation.scenario.object_builders import HOSTNAME, namespace_body

JsonObject = dict[str, Any]

NODES, PODS = 40, 600
ZONE = "topology.kubernetes.io/zone"
ZONES = ("zone-a", "zone-b", "zone-c")
MAINTAINED = "node-07"
CREATED = "2025-01-01T00:00:00Z"
GIB = 1024**3
# Of CPU and memory: what the fullest nodes may reach, so that the rest of the day has room.
CROWDED, USUAL, QUIET = 0.92, 0.45, 0.12


@dataclass(frozen=True)
class MachineType:
    """A sort of node, and what it costs in an hour."""

    instance_type: str
    cpu_millis: int
    memory_bytes: int
    price: float


MACHINE_TYPES = (
    MachineType("general-8", 8_000, 32 * GIB, 0.40),
    MachineType("general-16", 16_000, 64 * GIB, 0.76),
)


@dataclass
class NodeBeingFilled:
    """A node while it is being filled."""

    name: str
    machine: MachineType
    zone: str
    wanted: float
    """How full it is to be."""
    cpu_millis: int = 0
    memory_bytes: int = 0
    pods: int = 0

    def with_more(self, cpu_millis: int, memory_bytes: int) -> float:
        """How full it would be with one more pod."""
        return max(
            (self.cpu_millis + cpu_millis) / self.machine.cpu_millis,
            (self.memory_bytes + memory_bytes) / self.machine.memory_bytes,
        )

    def take(self, cpu_millis: int, memory_bytes: int) -> None:
        """Give a pod its room."""
        self.cpu_millis += cpu_millis
        self.memory_bytes += memory_bytes
        self.pods += 1


@dataclass(frozen=True)
class App:
    """A Deployment: its pods are alike."""

    key: str
    replicas: int
    cpu_millis: int
    memory_mib: int
    protection: str = "some"
    """`all` is a budget that allows no disruption, `some` one at a time, empty none at all."""
    spec: JsonObject = field(default_factory=dict)
    """More of its pods' spec."""

    @property
    def name(self) -> str:
        """Without the namespace."""
        return self.key.partition("/")[2]

    @property
    def namespace(self) -> str:
        """The namespace."""
        return self.key.partition("/")[0]


def spread_over_zones(app: str, skew: int) -> JsonObject:
    """A spec that keeps replicas of an app spread over zones."""
    return {
        "topologySpreadConstraints": [
            {
                "maxSkew": skew,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": app}},
            }
        ]
    }


SCRATCH: JsonObject = {"volumes": [{"name": "scratch", "emptyDir": {}}]}

APPS = (
    App("shop/web", 40, 500, 1024, "some", spread_over_zones("web", 8)),
    App("shop/cart", 24, 350, 1024, "all"),
    App("shop/checkout", 18, 500, 1024, "all"),
    App("shop/search", 20, 750, 3072),
    App("shop/recommendations", 16, 500, 2048),
    App("shop/payment", 8, 400, 768, "all"),
    App("shop/images", 26, 300, 512, ""),
    App("media/transcoder", 14, 1000, 2048, "", SCRATCH),
    App("media/thumbnails", 34, 200, 384, ""),
    App("media/player", 24, 250, 512),
    App("analytics/collector", 34, 250, 768),
    App("analytics/report", 18, 400, 1536, ""),
    App("analytics/dashboard", 8, 300, 1024, "all"),
    App("mobile/api", 40, 350, 768),
    App("mobile/push", 18, 200, 512, "all"),
    App("mobile/sync", 28, 300, 640),
    App("billing/invoices", 12, 400, 1024, "all"),
    App("billing/ledger", 9, 500, 2048, "all"),
    App("platform/gateway", 30, 300, 512, "some", spread_over_zones("gateway", 6)),
    App("platform/auth", 18, 350, 768, "all"),
    App("platform/mail", 15, 150, 384, ""),
    App("platform/events", 24, 300, 1024),
    App("platform/audit", 12, 200, 768),
    App("support/chat", 24, 250, 640),
    App("support/tickets", 12, 300, 768, ""),
    App("labs/notebooks", 14, 600, 2560, ""),
    App("labs/features", 16, 300, 1024, ""),
)
# The status of every pod: what is in a cluster in memory is never changed, so it can be shared.
RUNNING: JsonObject = {
    "phase": "Running",
    "startTime": CREATED,
    "conditions": [
        {"type": kind, "status": "True", "lastTransitionTime": CREATED}
        for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    ],
}
DATABASE, MEMBERS, DATABASE_CPU, DATABASE_GIB = "data/orders-db", 3, 1500, 8
AGENT, AGENT_CPU, AGENT_MIB = "kube-system/node-agent", 100, 128
# One pod that nobody would bring back.
BARE = "labs/console"


def example_cluster(seed: int = 0) -> list[JsonObject]:
    """The objects of the example cluster; the seed decides which pods are where."""
    return list(_Builder(seed).objects())


def example_policy() -> Policy:
    """What the example cluster calls for: the defaults, and its maintained node emptied.

    A day has many rounds, so there are fewer of them than by default, and each is quicker.
    """
    return Policy(
        rescheduling_interval_seconds=Seconds(300),
        planning_timeout_seconds=Seconds(0.1),
        enabled_strategies=(StrategyName.NODE_MAINTENANCE, *Policy().enabled_strategies),
    )


class _Builder:
    """Makes the objects, and finds room for pods."""

    def __init__(self, seed: int) -> None:
        self._random = Random(f"{seed}/cluster")
        wanted = (CROWDED, QUIET, USUAL)
        self._nodes = [
            NodeBeingFilled(
                f"node-{number:02}",
                MACHINE_TYPES[number % 4 == 0],
                ZONES[number % len(ZONES)],
                wanted[number // len(ZONES) % len(wanted)],
            )
            for number in range(1, NODES + 1)
        ]

    def objects(self) -> Iterator[JsonObject]:
        """Owners before what they own."""
        namespaces = {app.namespace for app in APPS} | {"data", "kube-system"}
        yield from map(namespace_body, sorted(namespaces))
        yield from map(self._node, self._nodes)
        yield from self._agents()
        yield from self._database()
        yield pod(BARE, self._place(500, GIB), pod_spec(500, 1024), {"app": "console"})
        apps = list(APPS)
        filled = len(self._nodes) + MEMBERS + 1 + sum(app.replicas for app in apps)
        assert filled == PODS, f"{filled} pods"
        self._random.shuffle(apps)
        for app in apps:
            yield from self._app(app)

    def _node(self, node: NodeBeingFilled) -> JsonObject:
        machine = node.machine
        amounts = {
            "cpu": f"{machine.cpu_millis}m",
            "memory": f"{machine.memory_bytes // GIB}Gi",
            "pods": "110",
        }
        labels = {
            HOSTNAME: node.name,
            ZONE: node.zone,
            "node.kubernetes.io/instance-type": machine.instance_type,
        }
        if node.name == MAINTAINED:
            labels[MAINTENANCE] = "true"
        metadata = {
            **_metadata("NodeBeingFilled", node.name, labels),
            "annotations": {"rescheduler.dev/node-cost": f"{machine.price}"},
        }
        return {
            "apiVersion": "v1",
            "kind": "NodeBeingFilled",
            "metadata": metadata,
            "spec": {},
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            },
        }

    # ------------------------------------------------------------ where pods are

    def _place(self, cpu_millis: int, memory_bytes: int, zone: str = "") -> str:
        """The node with the most room below what it is to reach; some are preferred by chance."""
        able = [
            node
            for node in self._nodes
            if zone in ("", node.zone) and not (zone and node.name == MAINTAINED)
        ]
        tried = self._random.sample(able, min(6, len(able)))
        node = min(tried, key=lambda node: node.with_more(cpu_millis, memory_bytes) / node.wanted)
        if node.with_more(cpu_millis, memory_bytes) > 1:
            node = min(able, key=lambda node: node.with_more(cpu_millis, memory_bytes))
        node.take(cpu_millis, memory_bytes)
        return node.name

    # ------------------------------------------------------------ workloads

    def _app(self, app: App) -> Iterator[JsonObject]:
        labels, hashed = {"app": app.name}, f"{self._random.getrandbits(36):09x}"
        spec = pod_spec(app.cpu_millis, app.memory_mib, app.spec)
        made = deployment(app, labels, spec)
        owned = replica_set(app, made, labels, hashed)
        yield made
        yield owned
        names = self._random.sample(range(16**5), app.replicas)
        for name in names:
            node = self._place(app.cpu_millis, app.memory_mib * 1024**2)
            key = f"{app.namespace}/{owned['metadata']['name']}-{name:05x}"
            yield pod(key, node, spec, {**labels, "pod-template-hash": hashed}, owned)
        if app.protection:
            yield budget(app.key, labels, app.replicas, allows=int(app.protection == "some"))

    def _agents(self) -> Iterator[JsonObject]:
        labels = {"app": "node-agent"}
        spec = pod_spec(AGENT_CPU, AGENT_MIB, {"tolerations": [{"operator": "Exists"}]})
        made = workload("DaemonSet", AGENT, labels, spec)
        yield made
        for node in self._nodes:
            node.take(AGENT_CPU, AGENT_MIB * 1024**2)
            yield pod(f"{AGENT}-{node.name[-2:]}", node.name, spec, labels, made)

    def _database(self) -> Iterator[JsonObject]:
        """A member in each zone, with a volume that cannot leave it."""
        namespace, _, name = DATABASE.partition("/")
        labels = {"app": name}
        spec = pod_spec(DATABASE_CPU, DATABASE_GIB * 1024)
        made = workload("StatefulSet", DATABASE, labels, spec, replicas=MEMBERS)
        made["spec"] |= {
            "serviceName": name,
            "podManagementPolicy": "OrderedReady",
            "volumeClaimTemplates": [claim("data", namespace, "")],
        }
        yield storage_class()
        yield made
        for number in range(MEMBERS):
            zone = ZONES[number]
            key = f"{namespace}/{name}-{number}"
            claim_name = f"data-{name}-{number}"
            yield volume(f"volume-{number}", namespace, claim_name, zone)
            yield claim(claim_name, namespace, f"volume-{number}")
            node = self._place(DATABASE_CPU, DATABASE_GIB * GIB, zone)
            source = {"persistentVolumeClaim": {"claimName": claim_name}}
            volumes = {"volumes": [{"name": "data", **source}]}
            ordinal = {"statefulset.kubernetes.io/pod-name": f"{name}-{number}"}
            yield pod(key, node, {**spec, **volumes}, {**labels, **ordinal}, made)
        yield budget(DATABASE, labels, MEMBERS, allows=0)


# ------------------------------------------------------------ objects


def pod_spec(cpu_millis: int, memory_mib: int, more: JsonObject | None = None) -> JsonObject:
    """One container that asks for so much."""
    requests = {"cpu": f"{cpu_millis}m", "memory": f"{memory_mib}Mi"}
    return {
        "containers": [{"name": "app", "image": "app", "resources": {"requests": requests}}],
        **(more or {}),
    }


def workload(
    kind: str, key: str, labels: dict[str, str], spec: JsonObject, replicas: int | None = None
) -> JsonObject:
    """What all workloads have; one with replicas has them all."""
    made: JsonObject = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {**_metadata(kind, key, labels), "generation": 1},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
    if replicas is not None:
        made["spec"]["replicas"] = replicas
        counts = ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas")
        made["status"] = {**dict.fromkeys(counts, replicas), "observedGeneration": 1}
    return made


def deployment(app: App, labels: dict[str, str], spec: JsonObject) -> JsonObject:
    """A Deployment whose rollout is long done."""
    made = workload("Deployment", app.key, labels, spec, app.replicas)
    rolling = {"maxSurge": "25%", "maxUnavailable": "25%"}
    made["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": rolling}
    made["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": "1"}
    return made


def replica_set(app: App, owner: JsonObject, labels: dict[str, str], hashed: str) -> JsonObject:
    """The one ReplicaSet of a Deployment."""
    own = {**labels, "pod-template-hash": hashed}
    spec = owner["spec"]["template"]["spec"]
    made = workload("ReplicaSet", f"{app.key}-{hashed}", own, spec, app.replicas)
    made["metadata"]["ownerReferences"] = [reference_to(owner)]
    made["metadata"]["annotations"] = dict(owner["metadata"]["annotations"])
    return made


def pod(
    key: str,
    node: str,
    spec: JsonObject,
    labels: dict[str, str],
    owner: JsonObject | None = None,
) -> JsonObject:
    """A pod that has been running for long."""
    metadata = _metadata("Pod", key, labels)
    if owner is not None:
        metadata["ownerReferences"] = [reference_to(owner)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**spec, "nodeName": node},
        "status": RUNNING,
    }


def budget(key: str, labels: dict[str, str], replicas: int, allows: int) -> JsonObject:
    """A disruption budget for so many pods, of which so many may be missing."""
    # Of a share, or of what may be missing: a number that must be there would be too many at night.
    rule = {"maxUnavailable": allows} if allows else {"minAvailable": "100%"}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {**_metadata("PodDisruptionBudget", key, labels), "generation": 1},
        "spec": {"selector": {"matchLabels": labels}, **rule},
        "status": {
            "disruptionsAllowed": allows,
            "currentHealthy": replicas,
            "desiredHealthy": replicas - allows,
            "expectedPods": replicas,
            "observedGeneration": 1,
        },
    }


def storage_class() -> JsonObject:
    """Disks that belong to a zone."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": _metadata("StorageClass", "disks", {}),
        "provisioner": "disks.example",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def volume(name: str, namespace: str, claim_name: str, zone: str) -> JsonObject:
    """A disk in a zone, bound to its claim."""
    here = {"key": ZONE, "operator": "In", "values": [zone]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": _metadata("PersistentVolume", name, {}),
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "100Gi"},
            "storageClassName": "disks",
            "claimRef": {"namespace": namespace, "name": claim_name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            "csi": {"driver": "disks.example", "volumeHandle": name},
        },
        "status": {"phase": "Bound"},
    }


def claim(name: str, namespace: str, volume_name: str) -> JsonObject:
    """A claim for a disk, bound to a volume if there is one."""
    spec: JsonObject = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "disks",
        "resources": {"requests": {"storage": "100Gi"}},
    }
    made: JsonObject = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace, "labels": {}},
        "spec": spec,
    }
    if volume_name:
        made["metadata"] = _metadata("PersistentVolumeClaim", f"{namespace}/{name}", {})
        spec["volumeName"] = volume_name
        made["status"] = {"phase": "Bound"}
    return made


def _metadata(kind: str, key: str, labels: dict[str, str]) -> JsonObject:
    namespace, _, name = key.rpartition("/")
    return {
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        "uid": uid_for(kind, key),
        "labels": dict(labels),
        "creationTimestamp": CREATED,
    }
