"""Deployments in memory: rollouts within their limits, scaling, and what they steps."""

import asyncio
from typing import Any

import pytest

from rescheduler.simulation.cluster.cluster import SimulatedCluster
from rescheduler.simulation.cluster.json_objects import Json, annotations_of, is_active
from testcluster.builders import deployment, node
from tests.simulation.simulated_clusters import (
    ReadyCountRange,
    in_simulated_cluster,
    pods_of,
    ready_of,
)

VERSION_2 = {"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}}
WEB = "shop/web"


def rolling(surge: Any, unavailable: Any) -> Json:
    limits = {"maxSurge": surge, "maxUnavailable": unavailable}
    return {"type": "RollingUpdate", "rollingUpdate": limits}


def versions(cluster: SimulatedCluster) -> list[str]:
    return [annotations_of(pod).get("version", "1") for pod in pods_of(cluster, "web")]


@pytest.mark.parametrize(
    ("surge", "unavailable", "fewest", "most"),
    [(1, 0, 4, 5), (0, 1, 3, 4), ("50%", "25%", 3, 6), (2, 0, 4, 6)],
)
def test_a_rollout_stays_within_its_limits(
    surge: Any, unavailable: Any, fewest: int, most: int
) -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        seen = ReadyCountRange(cluster, "web")
        there = [4]
        cluster.subscribe("Pod", lambda old, new: there.append(active(cluster)))
        cluster.patch("Deployment", WEB, VERSION_2)
        await asyncio.sleep(120)
        assert versions(cluster) == ["2"] * 4
        assert (seen.lowest, max(there)) == (fewest, most)

    def active(cluster: SimulatedCluster) -> int:
        return sum(map(is_active, cluster.list("Pod").values()))

    made = deployment(WEB, 4, strategy=rolling(surge, unavailable))
    in_simulated_cluster([node("a"), made], steps)


def test_recreate_stops_all_pods_before_it_starts_any() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        mixed = []
        cluster.subscribe("Pod", lambda old, new: mixed.append(len(set(versions(cluster)))))
        cluster.patch("Deployment", WEB, VERSION_2)
        await asyncio.sleep(60)
        assert versions(cluster) == ["2"] * 3
        assert max(mixed) == 1

    in_simulated_cluster([node("a"), deployment(WEB, 3, strategy={"type": "Recreate"})], steps)


def test_going_back_takes_the_old_replica_set_again() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        before = set(cluster.list("ReplicaSet"))
        cluster.patch("Deployment", WEB, VERSION_2)
        await asyncio.sleep(60)
        cluster.patch(
            "Deployment", WEB, {"spec": {"template": {"metadata": {"annotations": None}}}}
        )
        await asyncio.sleep(60)
        assert len(cluster.list("ReplicaSet")) == 2
        used = [key for key, each in cluster.list("ReplicaSet").items() if each["spec"]["replicas"]]
        assert set(used) == before

    in_simulated_cluster([node("a"), deployment(WEB, 2)], steps)


def test_scaling_in_the_middle_of_a_rollout_is_shared_by_both_versions() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        cluster.patch("Deployment", WEB, VERSION_2)
        await asyncio.sleep(1)
        cluster.patch("Deployment", WEB, {"spec": {"replicas": 20}})
        await asyncio.sleep(1)
        sizes = sorted(
            replica_set["spec"]["replicas"] for replica_set in cluster.list("ReplicaSet").values()
        )
        assert sum(sizes) == 25
        assert sizes[0] > 3
        await asyncio.sleep(120)
        assert versions(cluster) == ["2"] * 20

    made = deployment(WEB, 10, "10m", strategy=rolling("25%", "25%"))
    in_simulated_cluster([node("a"), made], steps)


def test_its_status_tells_how_far_it_is() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        status = cluster.list("Deployment")[WEB]["status"]
        assert status["updatedReplicas"] == status["replicas"] == status["readyReplicas"] == 3
        cluster.patch("Deployment", WEB, VERSION_2)
        await asyncio.sleep(2)
        status = cluster.list("Deployment")[WEB]["status"]
        assert status["observedGeneration"] == 2
        assert status["updatedReplicas"] < status["replicas"]

    in_simulated_cluster([node("a"), deployment(WEB, 3)], steps)


def test_a_paused_one_rolls_nothing_out_but_is_scaled() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        cluster.patch("Deployment", WEB, {"spec": {"paused": True, "replicas": 4}})
        cluster.patch("Deployment", WEB, VERSION_2)
        await asyncio.sleep(60)
        assert versions(cluster) == ["1"] * 4

    in_simulated_cluster([node("a"), deployment(WEB, 2)], steps)


def test_when_it_is_deleted_everything_goes_with_it() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        cluster.delete("Deployment", WEB)
        await asyncio.sleep(30)
        assert not cluster.list("ReplicaSet")
        assert ready_of(cluster, "web") == 0
        assert not cluster.list("Pod")

    in_simulated_cluster([node("a"), deployment(WEB, 2)], steps)
