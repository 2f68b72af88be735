"""What each score plugin gives, reckoned by hand."""

from testcluster.builders import node, pod, replicaset, statefulset
from testcluster.client import JsonObject
from tests.simulation.cluster.scheduler.random_clusters import PREFERRED, REQUIRED
from tests.simulation.cluster.scheduler.scheduler_setup import SchedulerSetup, service

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
NEWCOMER = "shop/new"


def terminating(item: JsonObject) -> JsonObject:
    metadata = {**item["metadata"], "deletionTimestamp": "2025-01-01T00:00:00Z"}
    return {**item, "metadata": metadata}


# ------------------------------------------------------------ room


def test_the_emptier_node_gets_more_points_for_room() -> None:
    setup = SchedulerSetup(
        node("empty", cpu="4", memory="8Gi"),
        node("used", cpu="8", memory="16Gi"),
        pod("shop/old", on="used", cpu="2", memory="4Gi"),
        pod(NEWCOMER, cpu="1", memory="2Gi"),
    )
    # (4 - 1) / 4 and (8 - 2) / 8; then (8 - 3) / 8 and (16 - 6) / 16, which is 62.5.
    assert setup.scores(NEWCOMER)["NodeResourcesFit"] == {"empty": 75, "used": 62}


def test_pods_that_ask_for_nothing_count_for_a_little_room() -> None:
    setup = SchedulerSetup(
        node("alone", cpu="1", memory="1000Mi"),
        node("shared", cpu="1", memory="1000Mi"),
        pod("shop/one", on="shared"),
        pod("shop/two", on="shared"),
        pod(NEWCOMER),
    )
    # 100m and 200Mi for each: (90 + 80) / 2, and (70 + 40) / 2.
    assert setup.scores(NEWCOMER)["NodeResourcesFit"] == {"alone": 85, "shared": 55}


def test_every_container_that_asks_for_nothing_counts() -> None:
    containers = [{"name": name, "image": "none"} for name in "abc"]
    setup = SchedulerSetup(
        node("a", cpu="1", memory="1000Mi"),
        node("b", cpu="1", memory="2000Mi"),
        pod(NEWCOMER, containers=containers),
    )
    # 300m and 600Mi: (70 + 40) / 2 and (70 + 70) / 2.
    assert setup.scores(NEWCOMER)["NodeResourcesFit"] == {"a": 55, "b": 70}


def test_a_resource_is_rounded_down_before_the_mean_is_taken() -> None:
    setup = SchedulerSetup(
        node("thirds", cpu="3", memory="3Gi"),
        node("other", cpu="3", memory="30Gi"),
        pod(NEWCOMER, cpu="1", memory="1Gi"),
    )
    # 66 and 66; 66 and 96.
    assert setup.scores(NEWCOMER)["NodeResourcesFit"] == {"thirds": 66, "other": 81}


def test_what_makes_a_node_more_even_gets_more_points_for_balance() -> None:
    setup = SchedulerSetup(
        node("empty", cpu="4", memory="4Gi"),
        node("uneven", cpu="4", memory="4Gi"),
        pod("shop/old", on="uneven", memory="1Gi"),
        pod(NEWCOMER, cpu="2", memory="1Gi"),
    )
    # From 100 to 87 (half of 0.5 - 0.25 off): 50 + (50 - 13) // 2. From 87 to 100: 50 + 63 // 2.
    points = setup.scores(NEWCOMER)["NodeResourcesBalancedAllocation"]
    assert points == {"empty": 68, "uneven": 81}


def test_balance_is_none_of_the_business_of_pods_that_ask_for_nothing() -> None:
    setup = SchedulerSetup(node("a"), node("b"), pod(NEWCOMER))
    assert "NodeResourcesBalancedAllocation" not in setup.scores(NEWCOMER)


def test_a_finished_pod_takes_up_no_room() -> None:
    setup = SchedulerSetup(
        node("a", cpu="4", memory="4Gi"),
        node("b", cpu="4", memory="4Gi"),
        pod("shop/done", on="a", cpu="2", memory="2Gi", phase="Succeeded"),
        pod(NEWCOMER, cpu="1", memory="1Gi"),
    )
    assert setup.scores(NEWCOMER)["NodeResourcesFit"] == {"a": 75, "b": 75}


# ------------------------------------------------------------ taints and preferences about nodes


def tainted(name: str, *keys: str) -> JsonObject:
    preferences = [{"key": key, "effect": "PreferNoSchedule"} for key in keys]
    return node(name, taints=preferences)


def test_points_fall_with_every_soft_taint_that_is_not_tolerated() -> None:
    setup = SchedulerSetup(tainted("a"), tainted("b", "x"), tainted("c", "x", "y"), pod(NEWCOMER))
    assert setup.scores(NEWCOMER)["TaintToleration"] == {"a": 100, "b": 50, "c": 0}


def test_a_soft_taint_that_is_tolerated_costs_nothing() -> None:
    tolerations = [{"key": "x", "operator": "Exists", "effect": "PreferNoSchedule"}]
    setup = SchedulerSetup(
        tainted("a"),
        tainted("b", "x"),
        tainted("c", "x", "y"),
        pod(NEWCOMER, tolerations=tolerations),
    )
    assert setup.scores(NEWCOMER)["TaintToleration"] == {"a": 100, "b": 100, "c": 0}


def test_preferred_terms_count_by_weight_as_a_share_of_the_best_node() -> None:
    def liked(weight: int, key: str, value: str) -> JsonObject:
        expression = {"key": key, "operator": "In", "values": [value]}
        return {"weight": weight, "preference": {"matchExpressions": [expression]}}

    preferences = [liked(30, "disk", "ssd"), liked(10, ZONE, "a")]
    setup = SchedulerSetup(
        node("both", zone="a", labels={"disk": "ssd"}),
        node("disk", zone="b", labels={"disk": "ssd"}),
        node("neither", zone="b"),
        pod(NEWCOMER, affinity={"nodeAffinity": {PREFERRED: preferences}}),
        pod("shop/plain"),
    )
    assert setup.scores(NEWCOMER)["NodeAffinity"] == {"both": 100, "disk": 75, "neither": 0}
    assert "NodeAffinity" not in setup.scores("shop/plain")


# ------------------------------------------------------------ spread

THREE_NODES = (node("a", zone="1"), node("b", zone="1"), node("c", zone="2"))
APP = {"app": "cart"}
SPREAD_FROM_A = {"a": 66, "b": 88, "c": 100}
"""One pod on `a`: 1 x log 5 + 2 for nodes and 1 x log 4 + 4 for zones make 9; 7 on `b`, 6 on `c`.

The points are 100 x (9 + 6 - these) / 9.
"""


def test_replicas_are_spread_over_nodes_and_zones_by_default() -> None:
    owner = replicaset("shop/cart", labels=APP)
    setup = SchedulerSetup(
        *THREE_NODES,
        owner,
        pod("shop/old", on="a", labels=APP, owner=owner),
        pod(NEWCOMER, labels=APP, owner=owner),
    )
    assert setup.scores(NEWCOMER)["PodTopologySpread"] == SPREAD_FROM_A


def test_stateful_pods_are_spread_by_default() -> None:
    owner = statefulset("shop/cart", labels=APP)
    setup = SchedulerSetup(
        *THREE_NODES,
        owner,
        pod("shop/cart-0", on="a", labels=APP, owner=owner),
        pod("shop/cart-1", labels=APP, owner=owner),
    )
    assert setup.scores("shop/cart-1")["PodTopologySpread"] == SPREAD_FROM_A


def test_pods_of_a_service_are_spread_by_default() -> None:
    setup = SchedulerSetup(
        *THREE_NODES,
        service("shop/cart", APP),
        pod("shop/old", on="a", labels=APP),
        pod(NEWCOMER, labels=APP),
    )
    assert setup.scores(NEWCOMER)["PodTopologySpread"] == SPREAD_FROM_A


def test_pods_that_nothing_selects_are_not_spread() -> None:
    setup = SchedulerSetup(*THREE_NODES, service("other/cart", APP), pod(NEWCOMER, labels=APP))
    assert "PodTopologySpread" not in setup.scores(NEWCOMER)


def test_only_pods_of_the_same_namespace_that_stay_count_for_the_spread() -> None:
    setup = SchedulerSetup(
        *THREE_NODES,
        service("shop/cart", APP),
        pod("other/old", on="a", labels=APP),
        terminating(pod("shop/going", on="a", labels=APP)),
        pod(NEWCOMER, labels=APP),
    )
    assert setup.scores(NEWCOMER)["PodTopologySpread"] == {"a": 100, "b": 100, "c": 100}


def test_nodes_without_a_zone_are_spread_over_by_name_alone() -> None:
    setup = SchedulerSetup(
        node("a", zone="1"),
        node("b"),
        service("shop/cart", APP),
        pod("shop/old", on="a", labels=APP),
        pod(NEWCOMER, labels=APP),
    )
    # Two nodes, and two "zones" as none counts as one: 1 x log 4 + 2 and 1 x log 4 + 4, or 9
    # (8.77), for `a`; 2 for `b`, which has but a name. 100 x (9 + 2 - these) / 9.
    assert setup.scores(NEWCOMER)["PodTopologySpread"] == {"a": 22, "b": 100}


def soft(key: str, **more: object) -> JsonObject:
    return {
        "topologyKey": key,
        "maxSkew": 1,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": APP},
        **more,
    }


def test_with_a_constraint_of_its_own_a_node_without_the_label_gets_nothing() -> None:
    setup = SchedulerSetup(
        node("a", zone="1"),
        node("b", zone="2"),
        node("c"),
        pod("shop/old", on="a", labels=APP),
        pod(NEWCOMER, labels=APP, topologySpreadConstraints=[soft(ZONE)]),
    )
    # 1 x log 4 is 1 when rounded; 100 x (1 + 0 - 1) / 1.
    assert setup.scores(NEWCOMER)["PodTopologySpread"] == {"a": 0, "b": 100, "c": 0}


def test_constraints_that_must_hold_are_no_wishes() -> None:
    hard = soft(ZONE, whenUnsatisfiable="DoNotSchedule")
    setup = SchedulerSetup(
        *THREE_NODES,
        service("shop/cart", APP),
        pod(NEWCOMER, labels=APP, topologySpreadConstraints=[hard]),
    )
    assert "PodTopologySpread" not in setup.scores(NEWCOMER)


def test_pods_on_nodes_that_the_pod_may_not_use_do_not_count_for_zones() -> None:
    setup = SchedulerSetup(
        node("a", zone="1"),
        node("shut", zone="1", labels={"team": "other"}),
        node("b", zone="2"),
        pod("shop/old", on="shut", labels=APP),
        pod(
            NEWCOMER,
            labels=APP,
            topologySpreadConstraints=[soft(ZONE)],
            affinity={
                "nodeAffinity": {
                    REQUIRED: {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}
                        ]
                    }
                }
            },
        ),
    )
    assert setup.scores(NEWCOMER)["PodTopologySpread"] == {"a": 100, "b": 100}


# ------------------------------------------------------------ company


def preference(weight: int, key: str, app: str, **more: object) -> JsonObject:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}
    return {PREFERRED: [{"weight": weight, "podAffinityTerm": term}]}


def test_liked_company_gives_points_to_its_whole_domain() -> None:
    setup = SchedulerSetup(
        *THREE_NODES,
        pod("shop/db", on="a", labels={"app": "db"}),
        pod(NEWCOMER, affinity={"podAffinity": preference(10, ZONE, "db")}),
    )
    assert setup.scores(NEWCOMER)["InterPodAffinity"] == {"a": 100, "b": 100, "c": 0}


def test_what_placed_pods_say_of_the_newcomer_counts_as_much() -> None:
    setup = SchedulerSetup(
        *THREE_NODES,
        pod(
            "shop/db",
            on="a",
            labels={"app": "db"},
            affinity={"podAntiAffinity": preference(50, HOST, "web")},
        ),
        pod(NEWCOMER, labels={"app": "web"}, affinity={"podAffinity": preference(10, ZONE, "db")}),
    )
    # 10 - 50, 10 and 0: from -40 to 10.
    assert setup.scores(NEWCOMER)["InterPodAffinity"] == {"a": 0, "b": 100, "c": 80}


def test_the_need_of_a_placed_pod_counts_for_one() -> None:
    need = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}
    setup = SchedulerSetup(
        *THREE_NODES,
        pod(
            "shop/web", on="a", labels={"app": "web"}, affinity={"podAffinity": {REQUIRED: [need]}}
        ),
        pod("shop/db", on="c", labels={"app": "db"}),
        pod(NEWCOMER, labels={"app": "web"}, affinity={"podAffinity": preference(4, HOST, "db")}),
    )
    # 1, 1 and 4: from 1 to 4.
    assert setup.scores(NEWCOMER)["InterPodAffinity"] == {"a": 0, "b": 0, "c": 100}


def test_a_wish_means_its_own_namespace_unless_it_names_others() -> None:
    elsewhere = pod("bank/db", on="a", labels={"app": "db"})
    here = SchedulerSetup(
        *THREE_NODES, elsewhere, pod(NEWCOMER, affinity={"podAffinity": preference(1, HOST, "db")})
    )
    there = SchedulerSetup(
        *THREE_NODES,
        elsewhere,
        pod(NEWCOMER, affinity={"podAffinity": preference(1, HOST, "db", namespaces=["bank"])}),
    )
    assert "InterPodAffinity" not in here.scores(NEWCOMER)
    assert there.scores(NEWCOMER)["InterPodAffinity"] == {"a": 100, "b": 0, "c": 0}


def test_pods_that_are_being_deleted_are_company_still() -> None:
    setup = SchedulerSetup(
        *THREE_NODES,
        terminating(pod("shop/db", on="a", labels={"app": "db"})),
        pod(NEWCOMER, affinity={"podAffinity": preference(10, HOST, "db")}),
    )
    assert setup.scores(NEWCOMER)["InterPodAffinity"] == {"a": 100, "b": 0, "c": 0}
