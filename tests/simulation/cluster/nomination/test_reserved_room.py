"""How the simulated scheduler treats nominations; stories compare it with the real one."""

from typing import Any

from testcluster.builders import HOSTNAME_LABEL, ZONE_LABEL, node, pod
from testcluster.client import JsonObject
from tests.simulation.cluster.scheduler.random_clusters import REQUIRED
from tests.simulation.cluster.scheduler.scheduler_setup import SchedulerSetup


def nominated(key: str, to: str, **fields: Any) -> JsonObject:
    """A pending pod with a nominated node."""
    made = pod(key, **fields)
    made["status"]["nominatedNodeName"] = to
    return made


def test_pods_that_are_nominated_together_go_where_they_were_promised_room() -> None:
    setup = SchedulerSetup(
        node("a", cpu="1"),
        node("b", cpu="1"),
        nominated("shop/second", to="a", cpu="1", created="2025-01-01T00:00:02Z"),
        nominated("shop/third", to="b", cpu="1", created="2025-01-01T00:00:03Z"),
        pod("shop/first", cpu="1", created="2025-01-01T00:00:01Z"),
    )
    assert setup.nodes_for("shop/first", "shop/second", "shop/third") == {
        "shop/first": "",
        "shop/second": "a",
        "shop/third": "b",
    }


def test_two_pods_that_are_nominated_to_one_place_each_keep_the_other_away() -> None:
    setup = SchedulerSetup(
        node("a", cpu="1"),
        nominated("shop/one", to="a", cpu="1"),
        nominated("shop/other", to="a", cpu="1"),
    )
    assert setup.nodes_for("shop/one") == {"shop/one": ""}
    # The nomination of the first was taken back: preemption would not have helped it.
    assert setup.nodes_for("shop/other") == {"shop/other": "a"}


def test_room_of_a_refused_pod_is_free_for_the_next_in_the_queue() -> None:
    setup = SchedulerSetup(
        node("a", cpu="1"),
        nominated("shop/large", to="a", cpu="2", created="2025-01-01T00:00:01Z"),
        pod("shop/small", cpu="1", created="2025-01-01T00:00:02Z"),
    )
    assert setup.nodes_for("shop/large", "shop/small") == {"shop/large": "", "shop/small": "a"}


def test_the_room_of_a_pod_that_never_preempts_stays_reserved() -> None:
    large = nominated("shop/large", to="a", cpu="2", created="2025-01-01T00:00:01Z")
    large["spec"]["preemptionPolicy"] = "Never"
    setup = SchedulerSetup(
        node("a", cpu="1"), large, pod("shop/small", cpu="1", created="2025-01-01T00:00:02Z")
    )
    assert setup.nodes_for("shop/large", "shop/small") == {"shop/large": "", "shop/small": ""}


def test_a_pod_that_is_bound_elsewhere_reserves_nothing() -> None:
    setup = SchedulerSetup(
        node("a", cpu="1"), node("b", cpu="1"), nominated("shop/moved", to="a", cpu="1")
    )
    setup.put(pod("shop/moved", on="b", cpu="1"), pod("shop/new", cpu="1"))
    assert setup.nodes_for("shop/new") == {"shop/new": "a"}


def test_a_pod_that_is_gone_reserves_nothing() -> None:
    leaving = nominated("shop/leaving", to="a", cpu="1")
    setup = SchedulerSetup(node("a", cpu="1"), leaving, pod("shop/new", cpu="1"))
    setup.remove(leaving)
    assert setup.nodes_for("shop/new") == {"shop/new": "a"}


def test_spread_counts_the_pods_that_are_nominated_to_the_node_it_looks_at() -> None:
    """In the zone of `a` and `b`, a second pod is one too many on `a`, where one is nominated."""
    labels = {"app": "web"}
    spread = {
        "topologyKey": ZONE_LABEL,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
    }
    setup = SchedulerSetup(
        node("a", zone="1"),
        node("b", zone="1"),
        node("full", zone="2", pods=0),
        nominated("shop/gated", to="a", labels=labels),
        pod("shop/new", labels=labels, topologySpreadConstraints=[spread]),
    )
    assert setup.nodes_for("shop/new") == {"shop/new": "b"}


def test_the_reason_counts_nodes_that_refuse_because_of_nominated_pods() -> None:
    apart = {"topologyKey": HOSTNAME_LABEL, "labelSelector": {"matchLabels": {"app": "db"}}}
    setup = SchedulerSetup(
        node("a", cpu="1"),
        node("b", cpu="4"),
        node("c", unschedulable=True),
        nominated("shop/one", to="a", cpu="1"),
        nominated("shop/other", to="b", labels={"app": "db"}),
        pod("shop/new", cpu="1", affinity={"podAntiAffinity": {REQUIRED: [apart]}}),
    )
    assert setup.reason("shop/new") == (
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match pod anti-affinity "
        "rules, 1 node(s) were unschedulable."
    )
