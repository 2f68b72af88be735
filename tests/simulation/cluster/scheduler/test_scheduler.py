"""How the scheduler of the cluster in memory goes about its work."""

import numpy as np

from rescheduler.simulation.cluster.scheduler.node_sampling import (
    NodeSearch,
    feasible_nodes_to_find,
    zone_interleaved,
)
from testcluster.builders import node, pod
from testcluster.client import JsonObject
from testcluster.snapshots import snapshot_of
from tests.simulation.cluster.scheduler.random_clusters import REQUIRED
from tests.simulation.cluster.scheduler.scheduler_setup import SchedulerSetup


def test_pods_that_wait_together_do_not_share_one_hole() -> None:
    setup = SchedulerSetup(
        node("a", cpu="1"), node("b", cpu="1"), *(pod(f"shop/{n}", cpu="1") for n in range(3))
    )
    assert sorted(setup.nodes_for("shop/0", "shop/1", "shop/2").values()) == ["", "a", "b"]


def test_the_highest_priority_goes_first_and_then_the_oldest() -> None:
    setup = SchedulerSetup(
        node("a"),
        pod("shop/young", created="2025-01-01T00:00:09Z"),
        pod("shop/old", created="2025-01-01T00:00:01Z"),
        pod("shop/important", created="2025-01-01T00:00:10Z", priority=5),
    )
    decided = setup.nodes_for("shop/young", "shop/old", "shop/important")
    assert list(decided) == ["shop/important", "shop/old", "shop/young"]


def test_a_pod_that_was_not_bound_takes_up_nothing_the_next_time() -> None:
    setup = SchedulerSetup(
        node("a", cpu="1"), pod("shop/first", cpu="1"), pod("shop/second", cpu="1")
    )
    assert setup.nodes_for("shop/first") == {"shop/first": "a"}
    assert setup.nodes_for("shop/second") == {"shop/second": "a"}


def test_a_pod_that_was_bound_elsewhere_counts_there() -> None:
    setup = SchedulerSetup(node("a", cpu="1"), node("b", cpu="1"), pod("shop/first", cpu="1"))
    setup.nodes_for("shop/first")
    for there, left in (("a", "b"), ("b", "a")):
        setup.put(pod("shop/first", on=there, cpu="1"), pod("shop/second", cpu="1"))
        assert setup.nodes_for("shop/second") == {"shop/second": left}


def test_pods_that_are_gone_or_have_a_node_are_left_out() -> None:
    setup = SchedulerSetup(node("a"), pod("shop/bound", on="a"))
    assert setup.nodes_for("shop/bound", "shop/unheard-of") == {}


def test_equal_nodes_get_pods_by_chance_and_the_same_seed_gives_the_same() -> None:
    def placements(seed: int) -> list[str]:
        setup = SchedulerSetup(*(node(name) for name in "abcdefgh"), seed=seed)
        chosen: list[str] = []
        for number in range(6):
            waiting = pod(f"shop/{number}")
            setup.put(waiting)
            chosen += setup.nodes_for(f"shop/{number}").values()
            setup.remove(waiting)
        return chosen

    assert placements(seed=1) == placements(seed=1)
    assert placements(seed=1) != placements(seed=2)
    assert len(set(placements(seed=1))) > 1


def test_a_pod_is_looked_at_again_once_the_company_that_it_needs_is_there() -> None:
    need = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "db"}},
    }
    lonely: JsonObject = {"affinity": {"podAffinity": {REQUIRED: [need]}}}
    setup = SchedulerSetup(
        node("a"),
        node("b"),
        pod("shop/first", created="2025-01-01T00:00:01Z", **lonely),
        pod("shop/second", created="2025-01-01T00:00:02Z", **lonely),
        pod("shop/db", created="2025-01-01T00:00:03Z", labels={"app": "db"}),
        pod("shop/third", created="2025-01-01T00:00:04Z", **lonely),
    )
    decided = setup.nodes_for("shop/first", "shop/second", "shop/db", "shop/third")
    assert decided["shop/first"] == decided["shop/second"] == ""
    assert decided["shop/third"] == decided["shop/db"] != ""


def test_a_cluster_without_nodes_says_so() -> None:
    assert (
        SchedulerSetup(pod("shop/new")).reason("shop/new") == "no nodes available to schedule pods"
    )


def test_the_reason_counts_nodes_for_each_thing_that_is_in_the_way() -> None:
    setup = SchedulerSetup(
        node("a", cpu="1", memory="1Gi"),
        node("b", cpu="1"),
        node("c", unschedulable=True),
        node("d", taints=[{"key": "gpu", "effect": "NoSchedule"}]),
        pod("shop/new", cpu="2", memory="2Gi"),
    )
    assert setup.reason("shop/new") == (
        "0/4 nodes are available: 1 Insufficient memory, 1 node(s) had untolerated taint(s), "
        "1 node(s) were unschedulable, 2 Insufficient cpu."
    )


def test_a_node_that_is_cordoned_gets_no_more_pods() -> None:
    setup = SchedulerSetup(node("a"), node("b"), pod("shop/new"))
    setup.nodes_for("shop/new")
    setup.put(node("a", unschedulable=True))
    assert setup.nodes_for("shop/new") == {"shop/new": "b"}


# ------------------------------------------------------------ which nodes are looked at


def test_the_larger_a_cluster_the_smaller_the_share_of_nodes_that_is_enough() -> None:
    sizes = (8, 99, 100, 250, 1_000, 5_000, 20_000)
    assert [feasible_nodes_to_find(size) for size in sizes] == [8, 99, 100, 120, 420, 500, 1_000]


def test_nodes_are_looked_at_zone_by_zone_in_turn() -> None:
    zones = {"a": "1", "b": "1", "c": "1", "d": "2", "e": "3", "f": "3"}
    nodes = snapshot_of(node(name, zone=zone) for name, zone in zones.items()).nodes
    order = zone_interleaved(nodes.objects)
    assert [nodes.names[row] for row in order.tolist()] == ["a", "d", "e", "b", "f", "c"]


def test_a_search_goes_on_where_the_last_one_ended() -> None:
    search, order = NodeSearch(), np.arange(200)
    accepted = np.ones(200, bool)
    accepted[50] = False
    # 49 % of 200 nodes are fewer than the 100 that are always looked for.
    assert search.nodes(accepted, order).tolist() == [*range(50), *range(51, 101)]
    assert search.nodes(accepted, order).tolist() == [*range(101, 200), 0]
    assert search.nodes(accepted, order).tolist() == [*range(1, 50), *range(51, 102)]
