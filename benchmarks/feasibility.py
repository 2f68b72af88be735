"""Check 5,000 templates, a fifth of them with affinity or spread, on 5,000 nodes."""

import time

import numpy as np

from benchmarks.clusters import large_snapshot
from benchmarks.figures import Figure, report, resident_megabytes
from rescheduler.model.snapshot import Bools
from rescheduler.planning.feasibility.checker import FeasibilityChecker

NODES, PODS, TEMPLATES = 5_000, 150_000, 5_000
MOVES = 200


def main() -> None:
    snapshot = large_snapshot(NODES, PODS, TEMPLATES, with_rules=True)
    templates = range(len(snapshot.templates))
    before = resident_megabytes()
    start = time.perf_counter()
    checker = FeasibilityChecker(snapshot)
    for template in templates:
        checker.accepted(template)
    seconds = time.perf_counter() - start
    added = resident_megabytes() - before
    report(
        [
            Figure("acceptance of every template", seconds, "s", 3),
            Figure("all affected answers after a move", slowest_move(checker) * 1e3, "ms", 2),
            Figure("memory added by judging", added, "MB", 150),
        ]
    )


def templates_without_room(checker: FeasibilityChecker, node: int) -> Bools:
    """Templates that ask for more than is free on the node."""
    asked = checker.snapshot.asked
    return np.asarray(((asked > checker.resources.free[:, node]) & (asked > 0)).any(axis=1))


def slowest_move(checker: FeasibilityChecker) -> float:
    """The 95th percentile of the time until every answer is right again after a move."""
    chance = np.random.default_rng(1)
    pods = chance.choice(np.flatnonzero(checker.snapshot.pods.placed), MOVES, replace=False)
    seconds = []
    for pod in pods.tolist():
        template = int(checker.snapshot.pods.template[pod])
        targets = np.flatnonzero(checker.accepted(template))
        if not len(targets):
            continue
        source, target = checker.node_of(pod), int(chance.choice(targets))
        start = time.perf_counter()
        checker.move(pod, target)
        # Room on the two nodes concerns every template; what else changed, only a few.
        for node in (source, target):
            templates_without_room(checker, node)
        for affected in checker.affected_by(template):
            checker.accepted(affected)
        seconds.append(time.perf_counter() - start)
    return float(np.percentile(seconds, 95))


if __name__ == "__main__":
    main()
