"""The example cluster: 40 nodes and 600 pods, and what is wrong with it.

It has grown as clusters do. A third of its nodes is crowded and a third nearly empty; one node is
labelled for maintenance; many disruption budgets are tight, and some allow no disruption at all; a
database keeps its volumes in zones; a few pods must stay where they are.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from rescheduler.labels import (
    HOSTNAME,
    INSTANCE_TYPE,
    MAINTENANCE,
    NODE_COST,
    POD_TEMPLATE_HASH,
    STATEFUL_SET_POD_NAME,
    ZONE,
)
from rescheduler.planning.strategies import requested_strategies
from rescheduler.settings import Policy, Seconds
from rescheduler.simulation.cluster.json_objects import Json
from rescheduler.simulation.scenario import running_objects as running
from rescheduler.simulation.scenario.object_builders import namespace_body, pod_spec

NODES, PODS = 40, 600
ZONES = ("zone-a", "zone-b", "zone-c")
NODE_UNDER_MAINTENANCE = "node-07"
MIB, GIB = 1024**2, 1024**3
# The utilisation that nodes are filled to: crowded ones leave little room for the rest of the day.
CROWDED, USUAL, QUIET = 0.92, 0.45, 0.12


@dataclass(frozen=True)
class MachineType:
    """An instance type, and its price per hour."""

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
    """A node and the requests that are placed on it so far."""

    name: str
    machine: MachineType
    zone: str
    target: float
    """The utilisation that it is filled to."""
    cpu_millis: int = 0
    memory_bytes: int = 0

    def utilisation_with(self, cpu_millis: int, memory_bytes: int) -> float:
        """The higher utilisation, of CPU or memory, with one more pod."""
        return max(
            (self.cpu_millis + cpu_millis) / self.machine.cpu_millis,
            (self.memory_bytes + memory_bytes) / self.machine.memory_bytes,
        )

    def add(self, cpu_millis: int, memory_bytes: int) -> None:
        """Place a pod."""
        self.cpu_millis += cpu_millis
        self.memory_bytes += memory_bytes


@dataclass(frozen=True)
class App:
    """A Deployment with its budget."""

    key: str
    replicas: int
    cpu_millis: int
    memory_mib: int
    protection: str = "some"
    """`all` is a budget that allows no disruption, `some` one at a time, empty is no budget."""
    spec: Json = field(default_factory=dict)
    """More fields of its pods' spec."""

    @property
    def name(self) -> str:
        """Without the namespace."""
        return self.key.partition("/")[2]

    @property
    def namespace(self) -> str:
        """Without the name."""
        return self.key.partition("/")[0]

    @property
    def pod_spec(self) -> Json:
        """The spec of its pods."""
        return spec_of(self.cpu_millis, self.memory_mib, self.spec)


def spec_of(cpu_millis: int, memory_mib: int, more: Json | None = None) -> Json:
    """A pod's spec with these requests, and more fields."""
    return pod_spec({"cpu": f"{cpu_millis}m", "memory": f"{memory_mib}Mi"}, more)


def spread_over_zones(app: str, max_skew: int) -> Json:
    """A constraint that keeps the replicas of an app spread over zones."""
    return {
        "topologySpreadConstraints": [
            {
                "maxSkew": max_skew,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": app}},
            }
        ]
    }


SCRATCH: Json = {"volumes": [{"name": "scratch", "emptyDir": {}}]}

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
DATABASE, MEMBERS, DATABASE_CPU, DATABASE_MIB = "data/orders-db", 3, 1500, 8192
AGENT, AGENT_CPU, AGENT_MIB = "kube-system/node-agent", 100, 128
# A pod without a controller.
BARE_POD = "labs/console"


def example_cluster(seed: int = 0) -> list[Json]:
    """The objects of the example cluster; the seed decides on which nodes its pods are."""
    return list(_ClusterBuilder(seed).objects())


def example_policy() -> Policy:
    """The policy for the example cluster: the defaults, and its node under maintenance is drained.

    A simulated day has many rounds, so there are fewer than by default, and each is quicker.
    """
    return Policy(
        rescheduling_interval_seconds=Seconds(300),
        planning_timeout_seconds=Seconds(0.1),
        enabled_strategies=(*requested_strategies(), *Policy().enabled_strategies),
    )


class _ClusterBuilder:
    def __init__(self, seed: int) -> None:
        self._random = Random(f"{seed}/cluster")
        targets = (CROWDED, QUIET, USUAL)
        self._nodes = [
            NodeBeingFilled(
                f"node-{number:02}",
                MACHINE_TYPES[number % 4 == 0],
                ZONES[number % len(ZONES)],
                targets[number // len(ZONES) % len(targets)],
            )
            for number in range(1, NODES + 1)
        ]

    def objects(self) -> Iterator[Json]:
        """Owners come before the objects that they own."""
        namespaces = {app.namespace for app in APPS} | {"data", "kube-system"}
        yield from map(namespace_body, sorted(namespaces))
        yield from map(self._node, self._nodes)
        yield from self._agents()
        yield from self._database()
        bare_labels = {"app": "console"}
        yield running.pod(BARE_POD, self._place(500, GIB), spec_of(500, 1024), bare_labels)
        apps = list(APPS)
        pods = len(self._nodes) + MEMBERS + 1 + sum(app.replicas for app in apps)
        assert pods == PODS, f"{pods} pods"
        self._random.shuffle(apps)
        for app in apps:
            yield from self._app(app)

    def _node(self, node: NodeBeingFilled) -> Json:
        machine = node.machine
        amounts = {
            "cpu": f"{machine.cpu_millis}m",
            "memory": f"{machine.memory_bytes // GIB}Gi",
            "pods": "110",
        }
        labels = {HOSTNAME: node.name, ZONE: node.zone, INSTANCE_TYPE: machine.instance_type}
        if node.name == NODE_UNDER_MAINTENANCE:
            labels[MAINTENANCE] = "true"
        metadata = running.metadata("Node", node.name, labels)
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {**metadata, "annotations": {NODE_COST: f"{machine.price}"}},
            "spec": {},
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            },
        }

    def _place(self, cpu_millis: int, memory_bytes: int, zone: str = "") -> str:
        """The name of the node, of six random ones, that is furthest from its target."""
        candidates = [
            node
            for node in self._nodes
            if zone in ("", node.zone) and not (zone and node.name == NODE_UNDER_MAINTENANCE)
        ]
        sampled = self._random.sample(candidates, min(6, len(candidates)))
        node = min(
            sampled, key=lambda node: node.utilisation_with(cpu_millis, memory_bytes) / node.target
        )
        if node.utilisation_with(cpu_millis, memory_bytes) > 1:
            node = min(candidates, key=lambda node: node.utilisation_with(cpu_millis, memory_bytes))
        node.add(cpu_millis, memory_bytes)
        return node.name

    def _app(self, app: App) -> Iterator[Json]:
        labels, template_hash = {"app": app.name}, f"{self._random.getrandbits(36):09x}"
        spec = app.pod_spec
        deployment = running.deployment(app.key, labels, spec, app.replicas)
        replica_set = running.replica_set(deployment, template_hash)
        yield deployment
        yield replica_set
        pod_labels = {**labels, POD_TEMPLATE_HASH: template_hash}
        for suffix in self._random.sample(range(16**5), app.replicas):
            node = self._place(app.cpu_millis, app.memory_mib * MIB)
            key = f"{app.namespace}/{replica_set['metadata']['name']}-{suffix:05x}"
            yield running.pod(key, node, spec, dict(pod_labels), replica_set)
        if app.protection:
            allowed = int(app.protection == "some")
            yield running.budget(app.key, labels, app.replicas, disruptions_allowed=allowed)

    def _agents(self) -> Iterator[Json]:
        labels = {"app": "node-agent"}
        spec = spec_of(AGENT_CPU, AGENT_MIB, {"tolerations": [{"operator": "Exists"}]})
        daemon_set = running.workload("DaemonSet", AGENT, labels, spec)
        yield daemon_set
        for node in self._nodes:
            node.add(AGENT_CPU, AGENT_MIB * MIB)
            yield running.pod(f"{AGENT}-{node.name[-2:]}", node.name, spec, labels, daemon_set)

    def _database(self) -> Iterator[Json]:
        """A member in each zone, with a volume that cannot leave it."""
        namespace, _, name = DATABASE.partition("/")
        labels = {"app": name}
        spec = spec_of(DATABASE_CPU, DATABASE_MIB)
        stateful_set = running.workload("StatefulSet", DATABASE, labels, spec, replicas=MEMBERS)
        stateful_set["spec"] |= {
            "serviceName": name,
            "podManagementPolicy": "OrderedReady",
            "volumeClaimTemplates": [running.claim_template("data", namespace)],
        }
        yield running.storage_class()
        yield stateful_set
        for number in range(MEMBERS):
            zone = ZONES[number]
            claim = f"data-{name}-{number}"
            yield running.volume(f"volume-{number}", namespace, claim, zone)
            yield running.bound_claim(claim, namespace, f"volume-{number}")
            node = self._place(DATABASE_CPU, DATABASE_MIB * MIB, zone)
            volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
            own_labels = {**labels, STATEFUL_SET_POD_NAME: f"{name}-{number}"}
            key, member_spec = f"{DATABASE}-{number}", {**spec, "volumes": volumes}
            yield running.pod(key, node, member_spec, own_labels, stateful_set)
        yield running.budget(DATABASE, labels, MEMBERS, disruptions_allowed=0)
