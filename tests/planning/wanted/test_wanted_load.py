"""LoadBalancing and ResourceOptimization: which moves an operator would want, and which not."""

from typing import Any

import pytest

from testcluster.builders import node, pod, replicaset
from tests.planning.rest.rounds import after, rounds
from tests.planning.wanted.cases import (
    MAINTENANCE,
    gap,
    loads,
    machine,
    machines,
    places,
    plan_for,
    policy,
    replicas,
    stateful,
    staying,
)

POOL = "example.com/pool"
SSD = {"disk": "ssd"}
BALANCING = policy("LoadBalancing")
ALWAYS_BALANCING = policy("LoadBalancing", imbalanceThreshold=0)


# ---------------------------------------------------------------- nodes of different sizes


def test_two_big_nodes_that_are_full_are_relieved_by_thirty_small_ones() -> None:
    """At the start 89 % and 12 %, with 60 % of everything in use."""
    big, small = ["big-0", "big-1"], [f"small-{row}" for row in range(30)]
    nodes = [*machines(big, cpu=96), *machines(small, cpu=4)]
    objects = [*nodes, *replicas("web", big * 171, cpu=0.5), *replicas("api", small, cpu=0.5)]
    plan = plan_for(objects, policy("LoadBalancing", maxReschedulePods=60))
    assert len(plan.moves) == 60
    assert {move.source for move in plan.moves} == set(big)
    assert gap(plan) <= 40


def test_a_small_node_is_not_filled_to_bring_a_big_one_to_the_mean_of_all() -> None:
    """Seen by node, 90 % and 0 % are even at 45 %; but there is hardly any room at all."""
    objects = [machine("big", cpu=90), machine("small"), *replicas("web", ["big"] * 81)]
    plan = plan_for(objects, policy("LoadBalancing", maxReschedulePods=50))
    assert loads(plan) == {"big": 81, "small": 80}


# ---------------------------------------------------------------- pools


def test_another_pool_is_no_dump_for_an_uneven_one() -> None:
    nodes = [machine(name, labels={POOL: name[0]}) for name in ("a1", "a2", "b1", "b2")]
    web = replicas("web", ["a1"] * 9 + ["a2"] * 6 + ["b1"] * 4 + ["b2"] * 4)
    rules = policy("LoadBalancing", loadBalancing={"nodePoolLabel": POOL})
    plan = plan_for([*nodes, *web], rules)
    assert sorted(loads(plan).values()) == [40, 40, 70, 80]
    assert loads(plan)["b1"] == loads(plan)["b2"] == 40
    assert len(plan.moves) == 1


def test_a_tainted_node_is_no_dump_for_pods_that_tolerate_it() -> None:
    nodes = [*machines("ab"), machine("c", taints=[{"key": "dedicated", "effect": "NoSchedule"}])]
    tolerating = [{"key": "dedicated", "operator": "Exists"}]
    objects = [*nodes, *replicas("web", "a" * 9 + "b" * 6, tolerations=tolerating)]
    plan = plan_for(objects, BALANCING)
    assert loads(plan) == {"a": 80, "b": 70, "c": 0}
    assert len(plan.moves) == 1


@pytest.mark.parametrize("pods", range(8))
def test_a_pool_that_pods_come_to_is_no_worse_when_it_is_looked_at_again(pods: int) -> None:
    """What is wanted of the pool is measured anew: a pod more is on the node with more CPUs."""
    nodes = [
        node("large", cpu="8", memory="16Gi", labels=SSD),
        node("small", cpu="4", memory="16Gi"),
        node("going", cpu="8", memory="16Gi", labels=SSD | MAINTENANCE),
    ]
    owner = replicaset("shop/web", replicas=pods + 1)
    web = [
        pod(f"shop/web-{row}", on=on, owner=owner, cpu="1", memory="0", nodeSelector=SSD)
        for row, on in enumerate(["large"] * pods + ["going"])
    ]
    first, second = rounds(
        [*nodes, owner, *web], policy("LoadBalancing", "NodeMaintenance"), at_most=2
    )
    assert len(first.plan.moves) == 1
    assert second.plan.before.objective <= first.plan.after.objective + 1e-12


# ---------------------------------------------------------------- moves that are hardly worth it


def test_a_node_that_no_pod_may_use_does_not_keep_an_even_cluster_moving() -> None:
    nodes = [*machines("abc", labels={POOL: "general"}), machine("unusable")]
    chosen: dict[str, Any] = {"nodeSelector": {POOL: "general"}}
    web = replicas("web", "aaaabbbbcccc", **chosen)
    api = replicas("api", "a" * 7 + "b" * 5 + "c" * 4, cpu=0.2, **chosen)
    assert plan_for([*nodes, *web, *api], BALANCING).moves == ()


def test_a_node_whose_pods_must_stay_does_not_keep_an_even_cluster_moving() -> None:
    full, web = staying("database", on="d", cpu=9), replicas("web", "aaaabbbbcccc")
    api = replicas("api", "a" * 7 + "b" * 5 + "c" * 4, cpu=0.2)
    assert plan_for([*machines("abcd"), full, *web, *api], BALANCING).moves == ()


def test_no_pod_is_moved_for_one_percent_of_load() -> None:
    """51 % and 49 %, and a pod of 1 %: the gain is 0.0002."""
    web, api = replicas("web", "aaaabbbb"), replicas("api", "a" * 11 + "b" * 9, cpu=0.1)
    assert plan_for([*machines("ab"), *web, *api], ALWAYS_BALANCING).moves == ()


def test_a_stateful_pod_stays_where_an_ordinary_one_would_be_moved() -> None:
    """54 % and 46 %, and a pod of 4 %: the gain is 0.0032."""
    nodes, other = machines("ab"), [staying("x", on="a", cpu=3), staying("y", on="b", cpu=3)]
    ordinary = replicas("web", "aaaaaabbbb", cpu=0.4)
    assert loads(plan_for([*nodes, *other, *ordinary], ALWAYS_BALANCING)) == {"a": 50, "b": 50}
    database = stateful("db", "aaaaaabbbb", cpu=0.4)
    assert plan_for([*nodes, *other, *database], ALWAYS_BALANCING).moves == ()


def test_evening_out_ends_where_moves_are_no_longer_worth_it() -> None:
    """A full node and an empty one, and pods so small that a hundred of them could be moved."""
    objects = [*machines("abc"), *replicas("web", "a" * 9 + "b" * 5 + "c")]
    objects += replicas("crumb", "abc" * 30, cpu=0.01)
    plan = plan_for(objects, policy("LoadBalancing", maxReschedulePods=50))
    assert gap(plan) <= 8
    assert {move.pod.rpartition("-")[0] for move in plan.moves} == {"shop/web"}


# ---------------------------------------------------------------- thresholds


@pytest.mark.parametrize(
    "others", [[], ["CostOptimization"], ["CostOptimization", "LoadBalancing"]], ids="+".join
)
def test_no_weight_is_so_small_that_a_full_node_is_not_relieved(others: list[str]) -> None:
    objects = [*machines("ab"), *replicas("web", "a" * 10)]
    weights = {"ResourceOptimization": 0.001}
    rules = policy("ResourceOptimization", *others, strategyWeights=weights)
    assert max(loads(plan_for(objects, rules)).values()) <= 80


def test_a_node_is_not_filled_above_a_threshold_to_save_another() -> None:
    rules = policy("CostOptimization", "ResourceOptimization", maxReschedulePods=50)
    tight = [*machines("ab"), *replicas("web", "aaaaabbbbb")]
    assert plan_for(tight, rules).moves == ()
    roomy = [*machines("abc"), *replicas("web", "aaaaabbbbbcccc")]
    assert sorted(loads(plan_for(roomy, rules)).values()) in ([0, 60, 80], [0, 70, 70])


def test_what_packing_has_filled_is_not_emptied_again() -> None:
    objects = [*machines("abcd"), *replicas("web", "aaaabbbbccccdddd", cpu=1.1)]
    rules = policy("CostOptimization", "ResourceOptimization", maxReschedulePods=50)
    found = list(rounds(objects, rules, at_most=3))
    assert found[-1].plan.moves == ()
    assert max(loads(found[-1].plan).values()) <= 80


def test_relief_goes_on_where_the_last_round_had_to_stop() -> None:
    objects = [*machines("ab"), *replicas("web", "a" * 10)]
    rules = policy("ResourceOptimization", maxReschedulePods=1)
    found = list(rounds(objects, rules, at_most=4))
    assert [len(each.plan.moves) for each in found] == [1, 1, 0]
    assert places(after(found[-1].objects, found[-1].plan), "web") == {"a": 8, "b": 2}
