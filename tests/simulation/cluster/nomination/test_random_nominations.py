"""Both schedulers place gated and nominated pods alike in random clusters.

`EXHAUSTIVE=1` compares twice as many.
"""

import os

import pytest

from tests.conftest import FreshCluster
from tests.simulation.cluster.nomination.nomination_comparison import (
    CrowdedCluster,
    NominationComparison,
)
from tests.simulation.cluster.scheduler.real_scheduler import RealScheduler

pytestmark = pytest.mark.long

CLUSTERS = 12 if os.environ.get("EXHAUSTIVE") == "1" else 6
PODS_PER_CLUSTER = 50


def test_nominated_pods_and_their_rivals_go_where_kube_scheduler_puts_them(
    fresh_cluster: FreshCluster,
) -> None:
    real = RealScheduler(fresh_cluster(controllers=False, kwok=False))
    comparisons = []
    for number in range(CLUSTERS):
        comparison = NominationComparison(real, CrowdedCluster(number, nodes=4 + number % 5))
        comparison.run(PODS_PER_CLUSTER)
        comparisons.append(comparison)
    real.close()
    compared, refused, on_nominated_node, elsewhere = (
        sum(getattr(comparison, name) for comparison in comparisons)
        for name in ("compared", "refused", "on_nominated_node", "elsewhere")
    )
    print(
        f"{compared} pods in {CLUSTERS} clusters: {refused} refused, {on_nominated_node} bound to "
        f"their nominated nodes, {elsewhere} to others"
    )
    disagreements = [text for comparison in comparisons for text in comparison.disagreements]
    assert not disagreements, "\n".join(disagreements)
    assert min(refused, on_nominated_node, elsewhere) > 0, "some of everything has to happen"
