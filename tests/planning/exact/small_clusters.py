"""Small clusters that an exact solver can take on, in whole numbers.

Amounts are counted in quarters of a core and halves of a gibibyte, and nodes have powers of two of
them, so load and free room are exact integers. Every cluster starts with all constraints kept.
Pods of one workload are interchangeable: what matters is how many of them each node has.
"""

import json
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from math import ceil

from testcluster.builders import ZONE_LABEL, daemonset, deployment, node, pod, replicaset
from testcluster.client import JsonObject
from tests.planning.feasibility.draw import Draw
from tests.planning.feasibility.generated_needs import REQUIRED
from tests.planning.feasibility.generated_nodes import HOSTNAME, POOL

CPU_UNIT_MILLICORES = 250
MEMORY_UNIT_MIB = 512
MOST_NODES, MOST_PODS = 12, 60
MOST_MOVES = 12

NODE_COST = "rescheduler.dev/node-cost"
STAYS = {"scheduler.alpha.kubernetes.io/rescheduling": "disabled"}
TAINT = {"key": "dedicated", "value": "special", "effect": "NoSchedule"}
GROUP = "group"

Counts = list[list[int]]
"""How many pods of each workload (first index) each node (second index) has."""


@dataclass(frozen=True)
class Machine:
    """A node, in units."""

    name: str
    cpu: int
    memory: int
    slots: int
    zone: str
    pool: str
    price: float
    tainted: bool = False
    cordoned: bool = False

    @property
    def is_for_everyone(self) -> bool:
        """Whether users' pods come here without further ado."""
        return not self.tainted and not self.cordoned


@dataclass(frozen=True)
class Workload:
    """Interchangeable pods, what they ask for, and the names of the nodes they start on."""

    name: str
    cpu: int
    memory: int
    pool: str | None = None
    tolerates: bool = False
    group: str | None = None
    """No two pods of this group share a node."""
    avoids: str | None = None
    """These pods share no node with any pod of that group."""
    max_skew: int | None = None
    """Over zones."""
    stays: bool = False
    daemon: bool = False
    on: list[str] = field(default_factory=list)

    @property
    def is_movable(self) -> bool:
        """Whether its pods may be moved at all."""
        return not self.stays and not self.daemon

    def may_run_on(self, machine: Machine) -> bool:
        """Whether a new pod may come, as far as the node alone is concerned."""
        if machine.cordoned or (machine.tainted and not self.tolerates):
            return False
        return self.matches(machine)

    def matches(self, machine: Machine) -> bool:
        """Whether the node has the labels that the pod asks for."""
        return self.pool is None or self.pool == machine.pool


@dataclass(frozen=True)
class Goals:
    """What the policy says of the enabled strategies."""

    shape: dict[str, int] = field(default_factory=dict)
    """For Defragmentation, in units by resource."""
    weights: dict[str, float] = field(default_factory=dict)
    """By strategy; 1 if it is not named."""
    is_even_enough: bool = False
    """Whether LoadBalancing is at rest, and only heard."""
    threshold: int | None = None
    """For ResourceOptimization, in percent. No node starts above it."""

    def weight(self, strategy: str) -> float:
        """How much a strategy counts."""
        return self.weights.get(strategy, 1.0)

    def holds(self, machine: Machine, cpu: int, memory: int) -> bool:
        """Whether a node may come to hold so much."""
        if self.threshold is None:
            return True
        return (
            100 * cpu <= self.threshold * machine.cpu
            and 100 * memory <= self.threshold * machine.memory
        )


@dataclass(frozen=True)
class SmallCluster:
    """A cluster, what to improve, and how many moves that may take."""

    seed: int
    mix: str
    """The strategies that are enabled: `LoadBalancing+Defragmentation`."""
    machines: tuple[Machine, ...]
    workloads: tuple[Workload, ...]
    most_moves: int
    goals: Goals

    @property
    def strategies(self) -> list[str]:
        """The names of those that are enabled."""
        return self.mix.split("+")

    @cached_property
    def start(self) -> Counts:
        """Where the pods are before anything moves."""
        return [
            [workload.on.count(machine.name) for machine in self.machines]
            for workload in self.workloads
        ]

    @cached_property
    def zones(self) -> dict[str, list[int]]:
        """The nodes of each zone."""
        found: dict[str, list[int]] = {}
        for number, machine in enumerate(self.machines):
            found.setdefault(machine.zone, []).append(number)
        return found

    def used(self, counts: Counts, machine: int) -> tuple[int, int, int]:
        """CPU, memory and pod slots that are taken on a node."""
        present = [(each, counts[row][machine]) for row, each in enumerate(self.workloads)]
        return (
            sum(each.cpu * count for each, count in present),
            sum(each.memory * count for each, count in present),
            sum(count for _, count in present),
        )

    def free(self, counts: Counts, machine: int) -> tuple[int, int, int]:
        """CPU, memory and pod slots that are left on a node."""
        cpu, memory, slots = self.used(counts, machine)
        room = self.machines[machine]
        return room.cpu - cpu, room.memory - memory, room.slots - slots

    def spread_zones(self, workload: Workload) -> list[list[int]]:
        """The nodes of each zone that a workload is to be spread over."""
        matching = [
            [number for number in numbers if workload.matches(self.machines[number])]
            for numbers in self.zones.values()
        ]
        return [numbers for numbers in matching if numbers]

    def moves_of(self, row: int, end: Counts) -> int:
        """How many pods of a workload have to move for that."""
        pairs = zip(self.start[row], end[row], strict=True)
        return sum(max(before - after, 0) for before, after in pairs)

    def accepts(self, counts: Counts, row: int, machine: int) -> bool:
        """Whether one more pod of a workload may come to a node, with the others as counted."""
        workload = self.workloads[row]
        cpu, memory, slots = self.free(counts, machine)
        return (
            workload.may_run_on(self.machines[machine])
            and workload.cpu <= cpu
            and workload.memory <= memory
            and slots > 0
            and self._company_is_fine(counts, workload, machine)
            and self._spread_is_fine(counts, row, machine)
        )

    def allows(self, counts: Counts, row: int, source: int, target: int) -> bool:
        """Whether a pod may be handed over: welcome beside its old self, and all well after."""
        if not self.accepts(counts, row, target) or not self._stays_below(counts, row, target):
            return False
        max_skew = self.workloads[row].max_skew
        return max_skew is None or self.skew(moved(counts, row, source, target), row) <= max_skew

    def _stays_below(self, counts: Counts, row: int, target: int) -> bool:
        """Whether one more pod does not push a node above the threshold."""
        cpu, memory, _ = self.used(counts, target)
        more = self.workloads[row]
        return self.goals.holds(self.machines[target], cpu + more.cpu, memory + more.memory)

    def _company_is_fine(self, counts: Counts, workload: Workload, machine: int) -> bool:
        for row, other in enumerate(self.workloads):
            if not counts[row][machine]:
                continue
            if workload.group is not None and workload.group in (other.group, other.avoids):
                return False
            if workload.avoids is not None and workload.avoids == other.group:
                return False
        return True

    def _spread_is_fine(self, counts: Counts, row: int, machine: int) -> bool:
        workload = self.workloads[row]
        if workload.max_skew is None:
            return True
        zones = self.spread_zones(workload)
        present = [sum(counts[row][number] for number in numbers) for numbers in zones]
        here = next(
            count for count, numbers in zip(present, zones, strict=True) if machine in numbers
        )
        return here + 1 - min(present) <= workload.max_skew

    def broken(self, counts: Counts) -> list[str]:
        """Rules that do not hold with the pods placed so, although they held at the start."""
        return [
            *(
                f"{machine.name} is overcommitted"
                for number, machine in enumerate(self.machines)
                if min(self.free(counts, number)) < 0
            ),
            *(
                f"{machine.name} is above the threshold"
                for number, machine in enumerate(self.machines)
                if not self.goals.holds(machine, *self.used(counts, number)[:2])
            ),
            *(
                f"{workload.name} may not run on {machine.name}"
                for row, workload in enumerate(self.workloads)
                for number, machine in enumerate(self.machines)
                if counts[row][number] > self.start[row][number]
                and not workload.may_run_on(machine)
            ),
            *(
                f"{workload.name} has company on {self.machines[number].name}"
                for row, workload in enumerate(self.workloads)
                for number in range(len(self.machines))
                if counts[row][number]
                and not self._company_is_fine(_fewer(counts, row, number), workload, number)
            ),
            *(
                f"{workload.name} is not spread"
                for row, workload in enumerate(self.workloads)
                if workload.max_skew is not None and self.skew(counts, row) > workload.max_skew
            ),
        ]

    def skew(self, counts: Counts, row: int) -> int:
        """How many more pods of a workload one zone has than another."""
        present = [
            sum(counts[row][number] for number in numbers)
            for numbers in self.spread_zones(self.workloads[row])
        ]
        return max(present) - min(present)

    @cached_property
    def digest(self) -> str:
        """Changes when the cluster does."""
        content = json.dumps([self.objects, self.most_moves, asdict(self.goals)], sort_keys=True)
        return blake2b(content.encode(), digest_size=6).hexdigest()

    @property
    def objects(self) -> list[JsonObject]:
        """The cluster as Kubernetes has it."""
        return [
            *(_node_object(machine) for machine in self.machines),
            *(item for workload in self.workloads for item in _workload_objects(workload)),
        ]

    @cached_property
    def workload_of(self) -> dict[str, int]:
        """Which workload a pod belongs to, by `namespace/name`."""
        return {
            _pod_key(workload, number): row
            for row, workload in enumerate(self.workloads)
            for number in range(len(workload.on))
        }

    @cached_property
    def node_of(self) -> dict[str, str]:
        """Where each pod starts, by `namespace/name`."""
        return {
            _pod_key(workload, number): on
            for workload in self.workloads
            for number, on in enumerate(workload.on)
        }


def moved(counts: Counts, row: int, source: int, target: int) -> Counts:
    """The counts after one pod of a workload has moved."""
    changed = _fewer(counts, row, source)
    changed[row][target] += 1
    return changed


def _fewer(counts: Counts, row: int, machine: int) -> Counts:
    """The counts without one pod of a workload on a node."""
    changed = [*counts[:row], [*counts[row]], *counts[row + 1 :]]
    changed[row][machine] -= 1
    return changed


# ---------------------------------------------------------------- as Kubernetes objects


def _pod_key(workload: Workload, number: int) -> str:
    return f"shop/{workload.name}-{number}"


def _node_object(machine: Machine) -> JsonObject:
    made = node(
        machine.name,
        cpu=_cores(machine.cpu),
        memory=_mebibytes(machine.memory),
        pods=machine.slots,
        zone=machine.zone,
        labels={POOL: machine.pool},
        taints=[dict(TAINT)] if machine.tainted else None,
        unschedulable=machine.cordoned,
    )
    made["metadata"]["annotations"][NODE_COST] = str(machine.price)
    return made


def _workload_objects(workload: Workload) -> list[JsonObject]:
    if workload.daemon:
        owners = [daemonset(f"shop/{workload.name}")]
    else:
        owner = deployment(f"shop/{workload.name}", replicas=len(workload.on))
        owners = [
            owner,
            replicaset(f"shop/{workload.name}", replicas=len(workload.on), owner=owner),
        ]
    labels = {"app": workload.name, **(STAYS if workload.stays else {})}
    if workload.group is not None:
        labels[GROUP] = workload.group
    return [
        *owners,
        *(
            pod(
                _pod_key(workload, number),
                on=on,
                cpu=_cores(workload.cpu),
                memory=_mebibytes(workload.memory),
                labels=labels,
                owner=owners[-1],
                **_spec(workload),
            )
            for number, on in enumerate(workload.on)
        ),
    ]


def _spec(workload: Workload) -> JsonObject:
    spec: JsonObject = {}
    if workload.pool is not None:
        spec["nodeSelector"] = {POOL: workload.pool}
    if workload.tolerates:
        spec["tolerations"] = [{"key": TAINT["key"], "operator": "Exists"}]
    apart = [each for each in (workload.group, workload.avoids) if each is not None]
    if apart:
        spec["affinity"] = {"podAntiAffinity": {REQUIRED: [_apart_from(each) for each in apart]}}
    if workload.max_skew is not None:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": workload.max_skew,
                "topologyKey": ZONE_LABEL,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": workload.name}},
            }
        ]
    return spec


def _apart_from(group: str) -> JsonObject:
    return {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {GROUP: group}}}


def _cores(units: int) -> str:
    return f"{units * CPU_UNIT_MILLICORES}m"


def _mebibytes(units: int) -> str:
    return f"{units * MEMORY_UNIT_MIB}Mi"


# ---------------------------------------------------------------- from a seed


@dataclass(frozen=True)
class _Kind:
    cores: int
    gibibytes: int
    price: float


_KINDS = (
    _Kind(4, 16, 1.0),
    _Kind(8, 32, 2.0),
    _Kind(8, 64, 2.6),
    _Kind(16, 32, 3.3),
    _Kind(16, 64, 4.0),
)
_DISCOUNTS = (0.6, 0.9, 1.0, 1.0, 1.1)
_SHAPES: tuple[dict[str, int], ...] = (
    {"cpu": 16},
    {"cpu": 8},
    {"cpu": 12},
    {"memory": 32},
    {"cpu": 8, "memory": 16},
    {"cpu": 12, "memory": 32},
)
_RELATIVE_SIZES = (0.25, 0.5, 0.5, 0.8, 1.0, 1.0, 1.5, 2.0)
_FULLEST = 0.95
_TRIES = 400
# With fewer than this there is hardly ever a node to be freed.
_FEWEST_NODES_TO_FREE, _FEWEST_NODES = 7, 5
_FEWEST_MOVES_TO_FREE, _FEWEST_MOVES = 4, 2
_WEIGHTS = (0.5, 1.0, 1.0, 2.0, 4.0)
_THRESHOLDS = (60, 70, 80, 90)


def generate_small_cluster(mix: str, seed: int) -> SmallCluster:
    """The cluster of this seed."""
    draw = Draw(f"{mix}/{seed}")
    frees = "CostOptimization" in mix
    machines = _machines(draw, mix, _FEWEST_NODES_TO_FREE if frees else _FEWEST_NODES)
    workloads = tuple(_Filling(draw, mix, machines).workloads())
    fewest_moves = _FEWEST_MOVES_TO_FREE if frees else _FEWEST_MOVES
    most_moves = draw.randint(fewest_moves, MOST_MOVES)
    without_goals = SmallCluster(seed, mix, machines, workloads, most_moves, Goals())
    cluster = replace(without_goals, goals=_goals(draw, without_goals))
    assert len(cluster.workload_of) <= MOST_PODS
    return cluster


def _goals(draw: Draw, cluster: SmallCluster) -> Goals:
    strategies = cluster.strategies
    shape = draw.one(_SHAPES) if "Defragmentation" in strategies else {}
    if len(strategies) == 1:
        return Goals(shape)
    is_relieved = "ResourceOptimization" in strategies
    return Goals(
        shape=shape,
        weights={strategy: draw.one(_WEIGHTS) for strategy in strategies},
        is_even_enough="LoadBalancing" in strategies and draw.chance(0.3),
        threshold=max(draw.one(_THRESHOLDS), _fullest_percent(cluster)) if is_relieved else None,
    )


def _fullest_percent(cluster: SmallCluster) -> int:
    """The utilisation of the fullest node, rounded up."""
    return max(
        ceil(100 * amount / room)
        for number, machine in enumerate(cluster.machines)
        for amount, room in zip(
            cluster.used(cluster.start, number), (machine.cpu, machine.memory), strict=False
        )
    )


def _machines(draw: Draw, mix: str, fewest: int) -> tuple[Machine, ...]:
    kinds = draw.some(_KINDS, 1, 3)
    zones = ("x", "y", "z")[: draw.randint(2, 3)]
    has_pools = draw.chance(0.5)
    tainted = draw.randint(1, 2) if draw.chance(0.35) else 0
    if "LoadBalancing" in mix:
        # Tainted nodes are in no pool. Load put there is out of sight, which is no aim.
        tainted = 0
    cordoned = 1 if draw.chance(0.2) else 0
    count = draw.randint(fewest, MOST_NODES)
    made = []
    for number in range(count):
        kind = draw.one(kinds)
        made.append(
            Machine(
                name=f"node-{number:02}",
                cpu=kind.cores * 4,
                memory=kind.gibibytes * 2,
                slots=draw.randint(8, 14) if draw.chance(0.15) else 110,
                zone=zones[number % len(zones)],
                pool="special" if has_pools and draw.chance(0.4) else "general",
                price=round(kind.price * draw.one(_DISCOUNTS), 1),
                tainted=number < tainted,
                cordoned=tainted <= number < tainted + cordoned,
            )
        )
    return tuple(made)


class _Filling:
    """Puts workloads on nodes until the cluster is as full as it is to be."""

    def __init__(self, draw: Draw, mix: str, machines: tuple[Machine, ...]) -> None:
        self._draw = draw
        self._mix = mix
        self._machines = machines
        self._attraction = [draw.one((0.1, 0.4, 1.0, 1.0, 2.5)) for _ in machines]
        self._fill = draw.uniform(0.4, 0.85)
        self._pods = draw.randint(25, MOST_PODS)
        self._made: list[Workload] = []

    def workloads(self) -> list[Workload]:
        """Workloads with all their pods placed, and every constraint kept."""
        draw = self._draw
        if draw.chance(0.6):
            self._made.append(
                Workload("agent", 1, 1, daemon=True, on=[each.name for each in self._machines])
            )
        for _ in range(_TRIES):
            left = min(self._pods, MOST_PODS) - sum(len(each.on) for each in self._made)
            if left <= 0 or self._is_full():
                break
            self._made.append(self._workload(len(self._made)))
            for _ in range(min(draw.one((1, 2, 2, 3, 3, 4, 5, 6, 8)), left)):
                self._place_one()
            if not self._made[-1].on:
                self._made.pop()
        return self._made

    def _workload(self, number: int) -> Workload:
        draw = self._draw
        company = draw.random()
        group = draw.one(("g0", "g1", f"own-{number}")) if company < 0.3 else None
        tolerates = any(each.tainted for each in self._machines) and draw.chance(0.3)
        pools = {each.pool for each in self._machines}
        return Workload(
            name=f"app-{number}",
            cpu=self._size([each.cpu for each in self._machines]),
            memory=self._size([each.memory for each in self._machines]),
            pool=draw.one(sorted(pools)) if len(pools) > 1 and draw.chance(0.3) else None,
            tolerates=tolerates,
            group=group,
            avoids=draw.one(("g0", "g1")) if 0.3 <= company < 0.4 else None,
            max_skew=draw.randint(1, 2) if draw.chance(0.2) else None,
            stays="CostOptimization" not in self._mix and draw.chance(0.12),
        )

    def _size(self, room: list[int]) -> int:
        mean = self._fill * sum(room) / self._pods
        return max(1, min(round(mean * self._draw.one(_RELATIVE_SIZES)), min(room) // 2))

    def _place_one(self) -> None:
        """One more pod of the last workload, where it may be, most likely on an attractive node."""
        so_far = self._so_far()
        row = len(self._made) - 1
        open_to_it = [
            number
            for number in range(len(self._machines))
            if so_far.accepts(so_far.start, row, number) and self._has_room(so_far, number)
        ]
        if open_to_it:
            weights = [self._attraction[number] for number in open_to_it]
            chosen = self._draw.choices(open_to_it, weights)[0]
            self._made[-1].on.append(self._machines[chosen].name)

    def _has_room(self, so_far: SmallCluster, number: int) -> bool:
        """A node is never packed to the brim, so that pods can be handed over."""
        cpu, memory, _ = so_far.used(so_far.start, number)
        workload, machine = self._made[-1], self._machines[number]
        return (
            cpu + workload.cpu <= _FULLEST * machine.cpu
            and memory + workload.memory <= _FULLEST * machine.memory
        )

    def _is_full(self) -> bool:
        so_far = self._so_far()
        used = [so_far.used(so_far.start, number) for number in range(len(self._machines))]
        cpu = sum(each[0] for each in used) / sum(each.cpu for each in self._machines)
        memory = sum(each[1] for each in used) / sum(each.memory for each in self._machines)
        return max(cpu, memory) >= self._fill

    def _so_far(self) -> SmallCluster:
        return SmallCluster(0, self._mix, self._machines, tuple(self._made), 0, Goals())
