"""How the time for a plan grows with the cluster: as a table of time by size.

Time divided by n log n, n being the number of pods, stays the same or falls if time grows no
faster than that.
"""

from math import log2

from benchmarks.figures import Figure, median_times, report
from benchmarks.planning import PODS_PER_NODE, REPEAT, snapshot_with_rules
from rescheduler.planning.planner import make_plan
from rescheduler.settings import Policy

SIZES = (500, 1_000, 2_000, 3_500, 5_000)
MOVES = 10


def main() -> None:
    report([figure for nodes in SIZES for figure in figures(nodes)])


def figures(nodes: int) -> list[Figure]:
    """Time for a cluster of this size, and relative to n log n."""
    snapshot, policy = snapshot_with_rules(nodes), Policy(max_reschedule_pods=MOVES)
    make_plan(snapshot, policy)
    seconds = median_times(lambda: make_plan(snapshot, policy), REPEAT).cpu_seconds
    pods = nodes * PODS_PER_NODE
    name = f"growth: {MOVES} moves, {nodes:>5,} nodes"
    return [
        Figure(f"{name}: CPU", seconds * 1e3, "ms"),
        Figure(f"{name}: CPU / (n log n)", seconds * 1e9 / (pods * log2(pods)), "ns"),
    ]


if __name__ == "__main__":
    main()
