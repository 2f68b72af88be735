"""Judge 5,000 templates, a fifth of them with rules about neighbours, on 5,000 nodes."""

import time

import numpy as np

from benchmarks.clusters import large_snapshot
from benchmarks.figures import Figure, report, resident_megabytes
from rescheduler.planning.feasibility.checker import FeasibilityChecker

NODES, PODS, TEMPLATES = 5_000, 150_000, 5_000
MOVES = 200


def main() -> None:
    snapshot = large_snapshot(NODES, PODS, TEMPLATES, with_rules=True)
    templates = range(len(snapshot.templates))
    before = resident_megabytes()
    start = time.perf_counter()
    judge = FeasibilityChecker(snapshot)
    for template in templates:
        judge.accepted(template)
    seconds = time.perf_counter() - start
    added = resident_megabytes() - before
    report(
        [
            Figure("acceptance of every template", seconds, "s", 3),
            Figure("all affected answers after a move", slowest_move(judge) * 1e3, "ms", 2),
            Figure("memory added by judging", added, "MB", 150),
        ]
    )


def slowest_move(judge: FeasibilityChecker) -> float:
    """The 95th percentile of the time until every answer is right again after a move."""
    chance = np.random.default_rng(1)
    pods = chance.choice(np.flatnonzero(judge.snapshot.pods.placed), MOVES, replace=False)
    seconds = []
    for pod in pods.tolist():
        template = int(judge.snapshot.pods.template[pod])
        targets = np.flatnonzero(judge.accepted(template))
        if not len(targets):
            continue
        source, target = judge.node_of(pod), int(chance.choice(targets))
        start = time.perf_counter()
        judge.move(pod, target)
        # Room on the two nodes concerns every template; what else changed, only a few.
        for node in (source, target):
            judge.resources.templates_refused(node)
        for affected in judge.affected_by(template):
            judge.accepted(affected)
        seconds.append(time.perf_counter() - start)
    return float(np.percentile(seconds, 95))


if __name__ == "__main__":
    main()
