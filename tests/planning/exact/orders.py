"""Can an end state be reached one move after another?

The solver does not ask. So it may find an end to which no way leads, because each of some pods
waits for room that another one takes up. Such an end is no fair measure of a plan.
"""

from collections.abc import Iterator
from copy import deepcopy

from tests.planning.exact.puzzles import Counts, Puzzle
from tests.planning.feasibility.draw import Draw

_TRIED = 50


def has_order(puzzle: Puzzle, end: Counts) -> bool:
    """Whether pods can get from the start to the end one by one, each beside its old self."""
    draw = Draw(puzzle.seed)
    return any(_gets_there(puzzle, end, draw) for _ in range(_TRIED))


def _gets_there(puzzle: Puzzle, end: Counts, draw: Draw) -> bool:
    counts = deepcopy(puzzle.start)
    while counts != end:
        steps = list(_steps(puzzle, counts, end))
        if not steps:
            return False
        row, source, target = draw.one(steps)
        counts[row][source] -= 1
        counts[row][target] += 1
    return True


def _steps(puzzle: Puzzle, counts: Counts, end: Counts) -> Iterator[tuple[int, int, int]]:
    for row in range(len(puzzle.workloads)):
        here, there = counts[row], end[row]
        sources = [number for number, count in enumerate(here) if count > there[number]]
        for target in (number for number, count in enumerate(here) if count < there[number]):
            if puzzle.accepts(counts, row, target):
                yield from ((row, source, target) for source in sources)
