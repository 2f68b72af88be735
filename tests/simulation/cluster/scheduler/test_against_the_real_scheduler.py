"""Both schedulers get the same pods, one by one, in the same clusters.

`EXHAUSTIVE=1` compares twice as many clusters.
"""

import os

import pytest

from tests.conftest import FreshCluster
from tests.simulation.cluster.scheduler.comparison import Comparison
from tests.simulation.cluster.scheduler.random_clusters import RandomCluster
from tests.simulation.cluster.scheduler.real_scheduler import RealScheduler

pytestmark = pytest.mark.long

SIZES = (8, 11, 14, 18, 24, 32, 45, 60)
# A cluster's number is its seed.
CLUSTERS = list(enumerate(SIZES))[:: 1 if os.environ.get("EXHAUSTIVE") == "1" else 2]
PODS_PER_CLUSTER = 125


def test_pods_go_where_kube_scheduler_puts_them(fresh_cluster: FreshCluster) -> None:
    real = RealScheduler(fresh_cluster(controllers=False, kwok=False))
    comparisons = []
    for number, nodes in CLUSTERS:
        comparison = Comparison(real, RandomCluster(number, nodes))
        comparison.run(PODS_PER_CLUSTER)
        comparisons.append(comparison)
    real.close()
    compared = sum(comparison.compared for comparison in comparisons)
    disagreements = [text for comparison in comparisons for text in comparison.disagreements]
    print(
        f"{compared} pods in {len(comparisons)} clusters: {compared - len(disagreements)} placed "
        f"alike ({sum(run.same_node for run in comparisons)} on the very same node, the others "
        f"on one with the same score), {sum(run.refused for run in comparisons)} of them refused"
    )
    print("\n".join(disagreements))
    assert len(disagreements) <= compared * 0.005
