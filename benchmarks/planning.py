"""Plan for 5,000 nodes and 150,000 pods."""

from benchmarks.clusters import large_snapshot
from benchmarks.figures import Figure, median_seconds, peak_megabytes, report
from rescheduler.planning.planner import make_plan
from rescheduler.settings import Policy

NODES, PODS, TEMPLATES = 5_000, 150_000, 5_000


def main() -> None:
    snapshot = large_snapshot(NODES, PODS, TEMPLATES, with_rules=True)
    policy = Policy()
    plan = make_plan(snapshot, policy)
    assert len(plan.moves) == policy.max_reschedule_pods, plan.summary
    report(
        [
            Figure("plan of 10 moves", median_seconds(lambda: make_plan(snapshot, policy), 3), "s"),
            Figure("planning: peak memory of the process", peak_megabytes(), "MB"),
        ]
    )


if __name__ == "__main__":
    main()
