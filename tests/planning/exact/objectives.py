"""What each strategy wants to be small, computed from where the pods are and nothing else."""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean

from tests.planning.exact.small_clusters import Counts, Machine, SmallCluster

MOVE_COST = 0.01
"""What policies with CostOptimization say that a move costs, in the unit of prices."""
_ORDINARY_MOVE = 1e-3
# How much more a move costs that disrupts more, where the policy says what moves cost.
_SLIGHTLY = 0.02
_ONLY_REPLICA_EXTRA = 2.0
_RESOURCES = ("cpu", "memory")


def value_of(cluster: SmallCluster, counts: Counts) -> float:
    """What it costs that the pods are placed so, and what it takes to get there."""
    moves = [cluster.moves_of(row, counts) for row in range(len(cluster.workloads))]
    prices = sum(count * move_price(cluster, row) for row, count in enumerate(moves))
    return placement_cost(cluster, counts) + prices


def placement_cost(cluster: SmallCluster, counts: Counts) -> float:
    """The objectives of all enabled strategies together."""
    return sum(
        cluster.goals.weight(strategy) * OBJECTIVES[strategy](cluster, counts)
        for strategy in cluster.strategies
    )


def move_price(cluster: SmallCluster, row: int) -> float:
    """What the move of one pod of a workload costs: more if there are few replicas."""
    disruption = 1 + _ONLY_REPLICA_EXTRA / len(cluster.workloads[row].on) ** 2
    if "CostOptimization" not in cluster.strategies:
        return _ORDINARY_MOVE * disruption
    return MOVE_COST / mean_price(cluster) * (1 + _SLIGHTLY * (disruption - 1))


# ---------------------------------------------------------------- load


@dataclass(frozen=True)
class Balance:
    """How even load is to be: the nodes that are for everyone are one pool."""

    cluster: SmallCluster

    @property
    def nodes(self) -> list[tuple[int, Machine]]:
        """The nodes that count, and their numbers."""
        machines = enumerate(self.cluster.machines)
        return [(number, machine) for number, machine in machines if machine.is_for_everyone]

    @property
    def target(self) -> float:
        """The load that every node is to have: the mean at the start, by capacity."""
        weights = [self.weight(machine) for _, machine in self.nodes]
        loads = [self._load(self.cluster.start, *each) for each in self.nodes]
        return fmean(loads, weights)

    def weight(self, machine: Machine) -> float:
        """How much a node counts: 1 if all are of one size."""
        cpu, memory = self._capacity
        return len(self.nodes) * (machine.cpu / cpu + machine.memory / memory) / 2

    @property
    def _capacity(self) -> tuple[int, int]:
        machines = [machine for _, machine in self.nodes]
        return sum(each.cpu for each in machines), sum(each.memory for each in machines)

    def costs(self, counts: Counts) -> list[float]:
        """The weighted square of each node's distance from the target."""
        target = self.target
        return [
            self.weight(machine) * (self._load(counts, number, machine) - target) ** 2
            for number, machine in self.nodes
        ]

    def _load(self, counts: Counts, number: int, machine: Machine) -> float:
        cpu, memory, _ = self.cluster.used(counts, number)
        return (cpu / machine.cpu + memory / machine.memory) / 2


def imbalance(cluster: SmallCluster, counts: Counts) -> float:
    """The weighted squares, added up. If load is even enough, only what makes it worse counts."""
    balance = Balance(cluster)
    costs = balance.costs(counts)
    if not cluster.goals.is_even_enough:
        return sum(costs)
    pairs = zip(costs, balance.costs(cluster.start), strict=True)
    return sum(max(now - then, 0.0) for now, then in pairs)


# ---------------------------------------------------------------- money and room


def cost(cluster: SmallCluster, counts: Counts) -> float:
    """The prices of the nodes that hold movable pods, in mean prices."""
    movable = [row for row, each in enumerate(cluster.workloads) if each.is_movable]
    prices = sum(
        machine.price
        for number, machine in enumerate(cluster.machines)
        if any(counts[row][number] for row in movable)
    )
    return prices / mean_price(cluster)


def mean_price(cluster: SmallCluster) -> float:
    """What a node costs on average, whether or not it is in use."""
    return fmean(machine.price for machine in cluster.machines)


def missing_room(cluster: SmallCluster, counts: Counts) -> float:
    """How many pods of the shape empty nodes would hold, less those that they do hold."""
    return sum(
        _fitting(cluster, (machine.cpu, machine.memory, machine.slots))
        - _fitting(cluster, cluster.free(counts, number))
        for number, machine in enumerate(cluster.machines)
        if machine.is_for_everyone
    )


def _fitting(cluster: SmallCluster, free: tuple[int, int, int]) -> int:
    room = dict(zip(_RESOURCES, free[:2], strict=True))
    shape = cluster.goals.shape.items()
    return min(free[2], *(room[name] // amount for name, amount in shape))


def overload(cluster: SmallCluster, counts: Counts) -> float:
    """No node starts above the threshold, and none may come to be above it."""
    return 0.0


OBJECTIVES: dict[str, Callable[[SmallCluster, Counts], float]] = {
    "LoadBalancing": imbalance,
    "CostOptimization": cost,
    "Defragmentation": missing_room,
    "ResourceOptimization": overload,
}

ALONE = ("LoadBalancing", "CostOptimization", "Defragmentation")
TOGETHER = (
    "LoadBalancing+CostOptimization",
    "LoadBalancing+Defragmentation",
    "CostOptimization+Defragmentation",
    "CostOptimization+ResourceOptimization",
    "LoadBalancing+CostOptimization+Defragmentation",
    "LoadBalancing+Defragmentation+ResourceOptimization",
)
MIXES = (*ALONE, *TOGETHER)
