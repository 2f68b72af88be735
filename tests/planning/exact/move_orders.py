"""Can an end state be reached one move after another?

The solver does not ask. So it may find an end to which no way leads, because each of some pods
waits for room that another one takes up. Such an end is no fair measure of a plan.
"""

from collections.abc import Iterator
from itertools import product

from tests.planning.exact.small_clusters import Counts, SmallCluster, moved
from tests.planning.feasibility.draw import Draw

_TRIED = 50


def has_order(cluster: SmallCluster, end: Counts) -> bool:
    """Whether pods can get from the start to the end one by one, each beside its old self."""
    draw = Draw(cluster.seed)
    return any(_gets_there(cluster, end, draw) for _ in range(_TRIED))


def _gets_there(cluster: SmallCluster, end: Counts, draw: Draw) -> bool:
    counts = cluster.start
    while counts != end:
        steps = list(_steps(cluster, counts, end))
        if not steps:
            return False
        counts = moved(counts, *draw.one(steps))
    return True


def _steps(cluster: SmallCluster, counts: Counts, end: Counts) -> Iterator[tuple[int, int, int]]:
    for row in range(len(cluster.workloads)):
        here, there = counts[row], end[row]
        sources = [number for number, count in enumerate(here) if count > there[number]]
        targets = [number for number, count in enumerate(here) if count < there[number]]
        for source, target in product(sources, targets):
            if cluster.allows(counts, row, source, target):
                yield row, source, target
