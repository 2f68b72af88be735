"""The example cluster has what it is meant to show."""

from collections import Counter

import pytest

from rescheduler.labels import MAINTENANCE
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.node_load import CPU_ROW, MEMORY_ROW, NodeLoad
from rescheduler.planning.planner import make_plan
from rescheduler.simulation.scenario.example_cluster import example_cluster, example_policy
from testcluster.snapshots import snapshot_of

SEEDS = (0, 1, 2)


def snapshot(seed: int = 0) -> Snapshot:
    return snapshot_of(example_cluster(seed))


@pytest.mark.parametrize("seed", SEEDS)
def test_it_has_40_nodes_and_600_pods_that_all_fit(seed: int) -> None:
    cluster = snapshot(seed)
    assert len(cluster.nodes) == 40
    assert len(cluster.pods) == 600
    assert (cluster.requested <= cluster.nodes.allocatable).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_it_is_uneven(seed: int) -> None:
    load = NodeLoad(snapshot(seed))
    full = load.utilization(load.used)[[CPU_ROW, MEMORY_ROW]].max(axis=0)
    assert (full > 0.85).sum() >= 10
    assert (full < 0.2).sum() >= 10


def test_one_node_is_to_be_maintained() -> None:
    labels = [node.metadata.labels for node in snapshot().nodes.objects]
    assert sum(label.get(MAINTENANCE) == "true" for label in labels) == 1


def test_some_budgets_allow_no_disruption() -> None:
    allowed = Counter(budget.status.disruptions_allowed for budget in snapshot().budgets.values())
    assert allowed[0] >= 5
    assert allowed[1] >= 5


def test_its_stateful_set_has_volumes_that_are_bound_to_zones() -> None:
    cluster = snapshot()
    (members,) = cluster.stateful_sets.values()
    assert members.spec.replicas == len(cluster.volumes) == len(cluster.claims) == 3
    assert all(volume.spec.node_affinity is not None for volume in cluster.volumes.values())


def test_the_same_seed_gives_the_same_cluster_and_another_another() -> None:
    assert example_cluster(3) == example_cluster(3)
    assert example_cluster(3) != example_cluster(4)


def test_there_is_something_to_move_and_something_that_stays() -> None:
    plan = make_plan(snapshot(), example_policy())
    assert plan.moves
    assert plan.blocked
