"""What each strategy wants to be small, computed from where the pods are and nothing else."""

from collections.abc import Callable
from statistics import fmean

from tests.planning.exact.small_clusters import Counts, SmallCluster

MOVE_COST = 0.01
_RESOURCES = ("cpu", "memory")


def value_of(cluster: SmallCluster, counts: Counts) -> float:
    """The objective of the cluster's strategy with the pods placed so."""
    return OBJECTIVES[cluster.strategy](cluster, counts)


def imbalance(cluster: SmallCluster, counts: Counts) -> float:
    """The squared distances of the nodes' loads from their mean, added up."""
    loads = []
    for number, machine in enumerate(cluster.machines):
        if machine.is_for_everyone:
            cpu, memory, _ = cluster.used(counts, number)
            loads.append((cpu / machine.cpu + memory / machine.memory) / 2)
    mean = fmean(loads)
    return sum((load - mean) ** 2 for load in loads)


def cost(cluster: SmallCluster, counts: Counts) -> float:
    """The prices of the nodes that hold movable pods, and what it takes to get there."""
    movable = [row for row, each in enumerate(cluster.workloads) if each.is_movable]
    prices = sum(
        machine.price
        for number, machine in enumerate(cluster.machines)
        if any(counts[row][number] for row in movable)
    )
    return prices + MOVE_COST * cluster.moves_between(cluster.start, counts)


def fragmentation(cluster: SmallCluster, counts: Counts) -> float:
    """Free room that holds no pod of the shape, in units of the shape."""
    total = 0.0
    for number, machine in enumerate(cluster.machines):
        if machine.is_for_everyone:
            cpu, memory, slots = cluster.free(counts, number)
            free = dict(zip(_RESOURCES, (cpu, memory), strict=True))
            whole = min(slots, *(free[name] // amount for name, amount in cluster.shape.items()))
            total += fmean(free[name] / amount - whole for name, amount in cluster.shape.items())
    return total


OBJECTIVES: dict[str, Callable[[SmallCluster, Counts], float]] = {
    "LoadBalancing": imbalance,
    "CostOptimization": cost,
    "Defragmentation": fragmentation,
}

STRATEGIES = tuple(OBJECTIVES)
