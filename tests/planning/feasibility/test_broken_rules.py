"""Which pods break a rule where they are is found without looking at each of them."""

import numpy as np

from rescheduler.planning.feasibility.checker import FeasibilityChecker
from testcluster.snapshots import snapshot_of
from tests.planning.feasibility.generated_clusters import generate_cluster

SEEDS = range(12)


def test_every_pod_that_breaks_a_rule_is_where_it_may_break_one() -> None:
    broken = kept = 0
    for seed in SEEDS:
        snapshot = snapshot_of(generate_cluster(seed).items)
        checker, pods = FeasibilityChecker(snapshot), snapshot.pods
        may_break = {
            template: checker.may_break_a_rule(template) for template in set(pods.template.tolist())
        }
        for pod in np.flatnonzero(pods.placed & ~pods.deleting).tolist():
            is_doubtful = may_break[int(pods.template[pod])][int(pods.node[pod])]
            breaks = checker.breaks_a_rule(pod)
            assert is_doubtful or not breaks, f"seed {seed}: {pods.keys[pod]}"
            broken, kept = broken + breaks, kept + (not is_doubtful)
    assert broken > 50
    assert kept > 50
