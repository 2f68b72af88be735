"""A generated large cluster is consistent, and a real control plane accepts it."""

from collections import Counter, defaultdict
from collections.abc import Callable

import msgspec
import pytest

from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import pod, replicaset
from testcluster.client import JsonObject
from testcluster.large import generate_large_cluster
from testcluster.loader import load_large_cluster
from testcluster.waiting import wait_until


def of_kind(objects: list[JsonObject], kind: str) -> list[JsonObject]:
    return [item for item in objects if item["kind"] == kind]


def requested_cpu_millis(item: JsonObject) -> int:
    requests = [
        container["resources"]["requests"]["cpu"] for container in item["spec"]["containers"]
    ]
    return sum(int(cpu.removesuffix("m")) for cpu in requests)


def test_it_has_the_requested_nodes_pods_and_workloads() -> None:
    kinds = Counter(item["kind"] for item in generate_large_cluster(20, 300, templates=40))
    assert kinds == {
        "Namespace": 2, "Node": 20, "Deployment": 40, "ReplicaSet": 40, "Pod": 300,
    }  # fmt: skip


def test_the_same_seed_gives_the_same_cluster() -> None:
    once, again = (list(generate_large_cluster(10, 200, seed=7)) for _ in range(2))
    assert once == again
    assert once != list(generate_large_cluster(10, 200, seed=8))


def test_names_and_uids_are_unique() -> None:
    objects = list(generate_large_cluster(50, 2000))
    assert len({item["metadata"]["uid"] for item in objects}) == len(objects)
    keys = {(o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]) for o in objects}
    assert len(keys) == len(objects)


def test_no_node_is_over_its_capacity_and_load_is_uneven() -> None:
    objects = list(generate_large_cluster(50, 1500))
    used: dict[str, int] = defaultdict(int)
    for item in of_kind(objects, "Pod"):
        used[item["spec"]["nodeName"]] += requested_cpu_millis(item)
    fractions = [
        used[item["metadata"]["name"]] / int(item["status"]["allocatable"]["cpu"].removesuffix("m"))
        for item in of_kind(objects, "Node")
    ]
    assert max(fractions) <= 1
    assert max(fractions) - min(fractions) > 0.3


def test_more_pods_than_the_nodes_can_hold_are_rejected() -> None:
    with pytest.raises(ValueError, match="1 nodes cannot hold"):
        list(generate_large_cluster(1, 500))


def test_pods_are_about_as_large_as_real_ones() -> None:
    pods = of_kind(list(generate_large_cluster(50, 1000)), "Pod")
    average_bytes = sum(len(msgspec.json.encode(item)) for item in pods) / len(pods)
    assert 3000 < average_bytes < 6500


def test_the_controllers_of_a_real_cluster_leave_a_loaded_one_as_it_is(
    fresh_cluster: Callable[..., TestCluster],
) -> None:
    cluster = fresh_cluster()
    generated = list(generate_large_cluster(20, 300, managed=True))
    assert load_large_cluster(cluster, 20, 300) == len(generated)
    wait_for_controllers(cluster)
    expected = {item["metadata"]["uid"] for item in of_kind(generated, "Pod")}
    pods = [item for item in cluster.client.get("/api/v1/pods")["items"] if is_loaded(item)]
    assert {item["metadata"]["uid"] for item in pods} == expected
    assert all("deletionTimestamp" not in item["metadata"] for item in pods)
    for kind in ("deployments", "replicasets"):
        for item in filter(is_loaded, cluster.client.get(f"/apis/apps/v1/{kind}")["items"]):
            assert item["status"]["readyReplicas"] == item["spec"]["replicas"]
    assert len(cluster.client.get("/api/v1/nodes")["items"]) == 20


def is_loaded(item: JsonObject) -> bool:
    return str(item["metadata"]["namespace"]).startswith("team-")


def wait_for_controllers(cluster: TestCluster) -> None:
    """Wait until the controllers fill a new ReplicaSet and collect garbage.

    By then they have processed all objects that existed before.
    """
    missing = replicaset("canary/missing")
    apply(cluster, replicaset("canary/filled", replicas=1), pod("canary/garbage", owner=missing))
    filled = "/apis/apps/v1/namespaces/canary/replicasets/filled"
    wait_until(
        lambda: cluster.client.get(filled)["status"].get("readyReplicas") == 1,
        what="a new ReplicaSet is filled",
    )
    garbage = "/api/v1/namespaces/canary/pods/garbage"
    wait_until(lambda: not cluster.client.exists(garbage), what="garbage is collected")
