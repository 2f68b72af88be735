"""Snapshots of generated clusters, for what is measured without an API server."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random

from rescheduler.model.snapshot import Snapshot
from testcluster.builders import node, pod, replicaset
from testcluster.client import JsonObject
from testcluster.large import generate_large_cluster
from testcluster.snapshots import snapshot_of

NAME_LABEL = "app.kubernetes.io/name"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def large_snapshot(nodes: int, pods: int, templates: int, with_rules: bool = False) -> Snapshot:
    """A generated cluster; with rules, every fifth workload has affinity or spread constraints."""
    objects = generate_large_cluster(nodes, pods, templates=templates)
    return snapshot_of(with_pod_rules(objects) if with_rules else objects)


def with_pod_rules(objects: Iterable[JsonObject]) -> Iterator[JsonObject]:
    """The same objects, but pods of every fifth workload have hard affinity or spread rules."""
    number_of: dict[str, int] = {}
    for item in objects:
        if item["kind"] != "Pod":
            yield item
            continue
        name = item["metadata"]["labels"][NAME_LABEL]
        number = number_of.setdefault(name, len(number_of))
        rules = rules_for(name, number // 5) if number % 5 == 0 else {}
        yield {**item, "spec": {**item["spec"], **rules}}


def rules_for(name: str, number: int) -> JsonObject:
    """Spread over zones, anti-affinity on nodes, affinity in a zone, or spread over both."""
    own = {"labelSelector": {"matchLabels": {NAME_LABEL: name}}}
    zone, host = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
    spread = {"maxSkew": 5, "whenUnsatisfiable": "DoNotSchedule", **own}
    match number % 4:
        case 0:
            return {"topologySpreadConstraints": [{"topologyKey": zone, **spread}]}
        case 1:
            return {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": host, **own}]}}}
        case 2:
            return {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": zone, **own}]}}}
    return {
        "topologySpreadConstraints": [
            {"topologyKey": zone, **spread},
            {"topologyKey": host, **spread},
        ]
    }


# ------------------------------------------------------------ clusters to pack and to defragment

MACHINES = ((16, 64, 1.0), (32, 128, 1.9), (32, 64, 1.5), (64, 256, 3.7), (96, 384, 5.9))
"""CPUs, memory in GiB and price of each type of machine."""
APP_CPUS = (1, 1, 2, 2, 4, 4, 8, 16)
GIB_PER_CPU = (1, 2, 2, 4, 4, 6, 8)
VM_CPUS = (1, 2, 4, 8, 16, 32)
VM_WEIGHTS = (2, 6, 6, 4, 2, 0.4)
# How many random nodes are tried for a pod before it is left out.
TRIES = 100


@dataclass
class Machine:
    """A node while it is being filled."""

    name: str
    cpu: int
    memory_gib: int
    price: float = 1.0
    pods: int = 250
    apps: set[str] = field(default_factory=set)

    def node(self) -> JsonObject:
        """The node, empty and with its price."""
        built = node(self.name, cpu=str(self.cpu), memory=f"{self.memory_gib}Gi", pods=self.pods)
        built["metadata"]["annotations"]["rescheduler.dev/node-cost"] = f"{self.price:.3f}"
        return built


@dataclass(frozen=True)
class App:
    """A set of equal pods; with `keeps_apart`, no two of them share a node."""

    name: str
    cpu: int
    memory_gib: int
    keeps_apart: bool = False

    def fits(self, machine: Machine) -> bool:
        """Whether one more pod fits on the machine."""
        has_room = self.cpu <= machine.cpu and self.memory_gib <= machine.memory_gib
        has_room = has_room and machine.pods > 0
        return has_room and not (self.keeps_apart and self.name in machine.apps)

    def pod_on(self, machine: Machine, number: int) -> JsonObject:
        """A pod on the machine; its requests are taken off the machine."""
        machine.cpu -= self.cpu
        machine.memory_gib -= self.memory_gib
        machine.pods -= 1
        machine.apps.add(self.name)
        own = {"labelSelector": {"matchLabels": {"app": self.name}}}
        apart = {REQUIRED: [{"topologyKey": "kubernetes.io/hostname", **own}]}
        rules: JsonObject = {"affinity": {"podAntiAffinity": apart}} if self.keeps_apart else {}
        return pod(
            f"shop/{self.name}-{number}",
            on=machine.name,
            cpu=str(self.cpu),
            memory=f"{self.memory_gib}Gi",
            labels={"app": self.name},
            owner=replicaset(f"shop/{self.name}"),
            **rules,
        )


def priced_snapshot(nodes: int, pods: int, apps: int, seed: int = 1) -> Snapshot:
    """Machines of several prices, loosely filled; the pods of every other app keep apart."""
    random = Random(seed)
    machines = []
    for number in range(nodes):
        cpu, memory, price = random.choice(MACHINES)
        machines.append(Machine(f"node-{number:04}", cpu, memory, price * random.uniform(0.8, 1.3)))
    kinds = []
    for number in range(apps):
        cpu = random.choice(APP_CPUS)
        memory = cpu * random.choice(GIB_PER_CPU)
        kinds.append(App(f"app-{number}", cpu, memory, keeps_apart=number % 2 == 0))
    return scattered(machines, random.choices(kinds, k=pods), random)


# CPUs, memory in GiB, pods that fit, price and share of the machines of a cluster that grew.
GROWN_MACHINES = (
    (88, 156, 23, 332, 0.84),
    (88, 336, 23, 512, 0.06),
    (64, 250, 15, 378, 0.06),
    (104, 186, 63, 394, 0.04),
)
# CPUs, memory in GiB and share of the pods of each size.
GROWN_APPS = (
    (8, 16, 0.38),
    (4, 8, 0.45),
    (8, 32, 0.08),
    (16, 32, 0.04),
    (16, 60, 0.03),
    (2, 4, 0.02),
)


def grown_snapshot(nodes: int, pods: int, apps: int, seed: int = 1) -> Snapshot:
    """Machines of few types, mostly one, and apps of few sizes of which some have hundreds of pods
    and most a few; no two pods of an app share a node."""
    random = Random(seed)
    types = random.choices(GROWN_MACHINES, [each[-1] for each in GROWN_MACHINES], k=nodes)
    machines = [
        Machine(f"node-{number:04}", cpu, memory, price, slots)
        for number, (cpu, memory, slots, price, _) in enumerate(types)
    ]
    sizes = random.choices(GROWN_APPS, [each[-1] for each in GROWN_APPS], k=apps)
    kinds = [
        App(f"app-{number}", cpu, memory, keeps_apart=True)
        for number, (cpu, memory, _) in enumerate(sizes)
    ]
    popularity = [1 / (rank + 4) for rank in range(apps)]
    return scattered(machines, random.choices(kinds, popularity, k=pods), random)


def fragmented_snapshot(nodes: int, pods: int, seed: int = 1) -> Snapshot:
    """Equal machines with randomly placed pods of all sizes, so with fragmented free capacity."""
    random = Random(seed)
    machines = [Machine(f"node-{number:03}", 44, 256) for number in range(nodes)]
    kinds = [App(f"vm-{cpu}-{gib}", cpu, cpu * gib) for gib in (2, 4) for cpu in VM_CPUS]
    return scattered(machines, random.choices(kinds, VM_WEIGHTS * 2, k=pods), random)


def scattered(machines: list[Machine], apps: Iterable[App], random: Random) -> Snapshot:
    """One pod per entry of `apps`, on a random machine where it fits; left out if none is found."""
    objects = [machine.node() for machine in machines]
    for number, app in enumerate(apps):
        tried = (random.choice(machines) for _ in range(TRIES))
        machine = next((candidate for candidate in tried if app.fits(candidate)), None)
        if machine is not None:
            objects.append(app.pod_on(machine, number))
    return snapshot_of(objects)
