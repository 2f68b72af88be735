"""Plan for a warm snapshot of 5,000 nodes and 150,000 pods, and for one of 1,000 and 30,000."""

from benchmarks.clusters import large_snapshot
from benchmarks.figures import Figure, median_times, report
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.planner import make_plan
from rescheduler.settings import Policy

LARGE, MIDDLING = 5_000, 1_000
PODS_PER_NODE = 30
REPEAT = 3


def main() -> None:
    report([*of_middling_cluster(), *of_large_cluster()])


# One cluster at a time is in memory, as in a controller: Python looks at all of it now and then.


def of_middling_cluster() -> list[Figure]:
    return figures(snapshot_with_rules(MIDDLING), moves=10, at_most=0.1)


def of_large_cluster() -> list[Figure]:
    snapshot = snapshot_with_rules(LARGE)
    return [
        *figures(snapshot, moves=10, at_most=0.5),
        *figures(snapshot, moves=1_000, at_most=3),
    ]


def snapshot_with_rules(nodes: int) -> Snapshot:
    """A cluster of which every fifth workload minds its neighbours; 30 replicas in the mean."""
    return large_snapshot(nodes, nodes * PODS_PER_NODE, nodes, with_rules=True)


def figures(snapshot: Snapshot, moves: int, at_most: float) -> list[Figure]:
    """How long a plan of so many moves takes."""
    policy = Policy(max_reschedule_pods=moves)
    plan = make_plan(snapshot, policy)
    assert len(plan.moves) == moves, plan.summary
    wall, cpu = median_times(lambda: make_plan(snapshot, policy), REPEAT)
    name = f"plan of {moves:,} moves, {len(snapshot.nodes):,} nodes, {len(snapshot.pods):,} pods"
    return [Figure(name, wall, "s", at_most), Figure(f"{name}: CPU", cpu, "s")]


if __name__ == "__main__":
    main()
