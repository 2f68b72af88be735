"""ReplicaSets in memory: whom they adopt and release, and whom they delete first."""

import asyncio
from typing import Any

import pytest

from rescheduler.labels import DELETION_COST
from rescheduler.simulation.cluster.cluster import SimulatedCluster
from rescheduler.simulation.cluster.json_objects import Json, controller_of, key_of
from testcluster.builders import node, pod, replicaset
from tests.simulation.simulated_clusters import in_simulated_cluster, names_of, pods_of, ready_of

LONG_AGO, A_WHILE_AGO = "2026-02-01T08:00:00Z", "2026-03-01T07:00:00Z"


def web(name: str, **more: Any) -> Json:
    """A pod of the ReplicaSet `web`, which adopts it."""
    return pod(f"shop/{name}", cpu="10m", labels={"app": "web"}, **{"on": "a", **more})


def kept(pods: list[Json], count: int) -> set[str]:
    """The pods that are left of these when only so many are wanted."""

    async def steps(cluster: SimulatedCluster) -> set[str]:
        return names_of(cluster, "web")

    nodes = [node("a"), node("b")]
    return in_simulated_cluster(
        [*nodes, replicaset("shop/web", count, labels={"app": "web"}), *pods], steps
    )


def test_as_many_pods_are_made_as_are_wanted() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        assert ready_of(cluster, "web") == 3
        assert all(name.startswith("web-") for name in names_of(cluster, "web"))
        cluster.patch("ReplicaSet", "shop/web", {"spec": {"replicas": 5}})
        await asyncio.sleep(30)
        assert ready_of(cluster, "web") == 5
        status = cluster.list("ReplicaSet")["shop/web"]["status"]
        assert (status["replicas"], status["readyReplicas"]) == (5, 5)
        assert status["observedGeneration"] == 2

    in_simulated_cluster([node("a"), replicaset("shop/web", 3)], steps)


def test_a_pod_that_is_deleted_is_replaced() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        gone = key_of(pods_of(cluster, "web")[0])
        cluster.delete("Pod", gone)
        await asyncio.sleep(30)
        assert ready_of(cluster, "web") == 2
        assert cluster.get("Pod", gone) is None

    in_simulated_cluster([node("a"), replicaset("shop/web", 2)], steps)


def test_a_pod_that_matches_is_adopted_and_one_that_no_longer_does_is_released() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        cluster.create(pod("shop/stranger", cpu="10m", labels={"app": "web"}))
        await asyncio.sleep(30)
        assert len(pods_of(cluster, "web")) == 2
        released = key_of(pods_of(cluster, "web")[0])
        cluster.patch("Pod", released, {"metadata": {"labels": {"app": "other"}}})
        await asyncio.sleep(30)
        assert controller_of(cluster.list("Pod")[released]) is None
        assert ready_of(cluster, "web") == 2

    in_simulated_cluster([node("a"), replicaset("shop/web", 2)], steps)


def test_a_pod_of_another_controller_is_left_alone() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        assert len(pods_of(cluster, "web")) == 3

    other = replicaset("shop/other", 1, labels={"app": "web", "part": "other"})
    mine = replicaset("shop/web", 2, labels={"app": "web", "part": "mine"})
    for owner in (other, mine):
        owner["spec"]["selector"] = {"matchLabels": {"part": owner["metadata"]["labels"]["part"]}}
    in_simulated_cluster([node("a"), other, mine], steps)


@pytest.mark.parametrize(
    ("first_to_go", "others"),
    [
        (web("waits", on=None, created=LONG_AGO, nodeSelector={"no": "node"}), {}),
        (web("starts", phase="Pending", nodeSelector={"x": "y"}), {"on": "b"}),
        (web("unready", ready=False), {}),
        (web("cheap", annotations={DELETION_COST: "-10"}), {}),
        (web("young", created=A_WHILE_AGO), {"created": LONG_AGO}),
    ],
    ids=["not placed", "not running", "not Ready", "cheapest", "youngest"],
)
def test_of_two_pods_the_right_one_is_deleted_first(first_to_go: Json, others: Json) -> None:
    name = first_to_go["metadata"]["name"]
    rest = [web(f"other-{number}", **others) for number in range(2)]
    assert kept([first_to_go, *rest], 2) == {"other-0", "other-1"}, name


def test_a_pod_that_is_not_ready_goes_before_the_cheapest() -> None:
    cheap = web("cheap", annotations={DELETION_COST: "-2147483647"})
    assert kept([web("unready", ready=False), cheap, web("dear")], 2) == {"cheap", "dear"}


def test_of_pods_that_share_a_node_one_goes_before_one_that_is_alone() -> None:
    left = kept([web("one"), web("two"), web("alone", on="b")], 2)
    assert "alone" in left


def test_when_it_is_deleted_its_pods_go_with_it() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        cluster.delete("ReplicaSet", "shop/web")
        await asyncio.sleep(30)
        assert not cluster.list("Pod")

    in_simulated_cluster([node("a"), replicaset("shop/web", 2)], steps)


def test_pods_count_as_available_only_after_min_ready_seconds() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        status = cluster.list("ReplicaSet")["shop/web"]["status"]
        assert (status["readyReplicas"], status["availableReplicas"]) == (2, 0)
        await asyncio.sleep(60)
        assert cluster.list("ReplicaSet")["shop/web"]["status"]["availableReplicas"] == 2

    in_simulated_cluster(
        [node("a"), replicaset("shop/web", 2, minReadySeconds=60)], steps, settle=20
    )
