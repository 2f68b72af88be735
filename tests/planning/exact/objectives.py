"""What each strategy wants to be small, computed from where the pods are and nothing else."""

from collections.abc import Callable
from statistics import fmean

from tests.planning.exact.puzzles import Counts, Puzzle

MOVE_COST = 0.01
_RESOURCES = ("cpu", "memory")


def value_of(puzzle: Puzzle, counts: Counts) -> float:
    """The objective of the puzzle's strategy with the pods placed so."""
    return OBJECTIVES[puzzle.strategy](puzzle, counts)


def imbalance(puzzle: Puzzle, counts: Counts) -> float:
    """The squared distances of the nodes' loads from their mean, added up."""
    loads = []
    for number, machine in enumerate(puzzle.machines):
        if machine.is_for_everyone:
            cpu, memory, _ = puzzle.used(counts, number)
            loads.append((cpu / machine.cpu + memory / machine.memory) / 2)
    mean = fmean(loads)
    return sum((load - mean) ** 2 for load in loads)


def cost(puzzle: Puzzle, counts: Counts) -> float:
    """The prices of the nodes that hold movable pods, and what it takes to get there."""
    movable = [row for row, each in enumerate(puzzle.workloads) if each.is_movable]
    prices = sum(
        machine.price
        for number, machine in enumerate(puzzle.machines)
        if any(counts[row][number] for row in movable)
    )
    return prices + MOVE_COST * puzzle.moves_between(puzzle.start, counts)


def fragmentation(puzzle: Puzzle, counts: Counts) -> float:
    """Free room that holds no pod of the shape, in units of the shape."""
    total = 0.0
    for number, machine in enumerate(puzzle.machines):
        if machine.is_for_everyone:
            cpu, memory, slots = puzzle.free(counts, number)
            free = dict(zip(_RESOURCES, (cpu, memory), strict=True))
            whole = min(slots, *(free[name] // amount for name, amount in puzzle.shape.items()))
            total += fmean(free[name] / amount - whole for name, amount in puzzle.shape.items())
    return total


OBJECTIVES: dict[str, Callable[[Puzzle, Counts], float]] = {
    "LoadBalancing": imbalance,
    "CostOptimization": cost,
    "Defragmentation": fragmentation,
}

STRATEGIES = tuple(OBJECTIVES)
