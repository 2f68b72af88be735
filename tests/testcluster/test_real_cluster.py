"""The test cluster is a real Kubernetes with the behavior that tests rely on."""

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.build import servers_program
from testcluster.builders import (
    budget,
    daemonset,
    deployment,
    job,
    namespace,
    node,
    pod,
    replicaset,
    statefulset,
)
from testcluster.client import ApiError, Client, JsonObject
from testcluster.cluster import ClusterError
from testcluster.waiting import wait_until

OWN_NODES = {"for": "test-cluster"}
# Pods of these tests stay on the nodes of these tests, also when those are gone: others use the
# same cluster.
HERE: dict[str, Any] = {
    "tolerations": [{"key": "for", "value": "test-cluster", "effect": "NoSchedule"}],
    "nodeSelector": OWN_NODES,
}


@pytest.fixture(scope="module")
def nodes(cluster: TestCluster) -> Iterator[list[JsonObject]]:
    """Two nodes, for this module's tests alone thanks to a taint and a label."""
    taint = {"key": "for", "value": "test-cluster", "effect": "NoSchedule"}
    yield apply(
        cluster,
        node("tc-a", cpu="4", memory="8Gi", zone="tc-1", taints=[taint], labels=OWN_NODES),
        node("tc-b", cpu="4", memory="8Gi", zone="tc-2", taints=[taint], labels=OWN_NODES),
    )
    for name in ("tc-a", "tc-b"):
        cluster.client.delete(f"/api/v1/nodes/{name}")


@pytest.fixture(scope="module")
def bare(binary: Path) -> Iterator[TestCluster]:
    """A cluster without controllers, in addition to the one that all tests share."""
    with TestCluster(controllers=False, scheduler=False, kwok=False) as without_controllers:
        yield without_controllers


def status_of(cluster: TestCluster, path: str) -> JsonObject:
    status: JsonObject = cluster.client.get(path).get("status", {})
    return status


def test_reports_the_kubernetes_version_it_was_built_from(cluster: TestCluster) -> None:
    version = servers_program().version
    assert cluster.client.get("/version")["gitVersion"] == version
    assert f"Server Version: {version}" in cluster.kubectl("version")


def test_a_deployment_becomes_ready_on_fake_nodes(
    cluster: TestCluster, nodes: list[JsonObject]
) -> None:
    apply(cluster, deployment("tc-ready/cart", replicas=3, cpu="500m", template=HERE))
    path = "/apis/apps/v1/namespaces/tc-ready/deployments/cart"
    wait_until(lambda: status_of(cluster, path).get("readyReplicas") == 3, what="cart is ready")
    pods = cluster.client.get("/api/v1/namespaces/tc-ready/pods")["items"]
    assert {item["spec"]["nodeName"] for item in pods} <= {"tc-a", "tc-b"}
    assert {item["status"]["phase"] for item in pods} == {"Running"}


def test_the_address_of_a_played_pod_is_not_looked_for_outside(
    cluster: TestCluster, nodes: list[JsonObject]
) -> None:
    body = pod("tc-proxy/web", **HERE)
    del body["status"]
    apply(cluster, body)
    path = "/api/v1/namespaces/tc-proxy/pods/web"
    wait_until(lambda: status_of(cluster, path).get("podIP"), what="it has an address")
    with pytest.raises(ApiError, match="dial unix") as refused:
        cluster.client.get(f"{path}/proxy/")
    assert refused.value.status == 503


def test_a_deleted_pod_is_replaced(cluster: TestCluster, nodes: list[JsonObject]) -> None:
    apply(cluster, deployment("tc-delete/cart", template=HERE))
    path = "/api/v1/namespaces/tc-delete/pods"
    first = wait_until(lambda: cluster.client.get(path)["items"], what="a pod")[0]["metadata"]
    cluster.client.delete(f"{path}/{first['name']}")

    def uids() -> list[str]:
        return [item["metadata"]["uid"] for item in cluster.client.get(path)["items"]]

    wait_until(lambda: len(uids()) == 1 and first["uid"] not in uids(), what="another pod")


def test_a_job_completes(cluster: TestCluster, nodes: list[JsonObject]) -> None:
    apply(cluster, job("tc-job/import", completions=2, template=HERE))
    path = "/apis/batch/v1/namespaces/tc-job/jobs/import"
    wait_until(lambda: status_of(cluster, path).get("succeeded") == 2, what="the job is done")


def test_fake_nodes_keep_the_allocatable_they_were_given_and_hold_a_lease(
    cluster: TestCluster, nodes: list[JsonObject]
) -> None:
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/tc-a"
    wait_until(lambda: cluster.client.exists(lease), what="tc-a has a lease")
    assert status_of(cluster, "/api/v1/nodes/tc-a")["allocatable"] == {
        "cpu": "4",
        "memory": "8Gi",
        "pods": "110",
    }


def test_the_api_server_accepts_all_built_objects(
    cluster: TestCluster, nodes: list[JsonObject]
) -> None:
    created = apply(
        cluster,
        namespace("tc-built", labels={"team": "shop"}),
        replicaset("tc-built/cart-1", replicas=1, template=HERE),
        pod("tc-built/single", on="tc-a", cpu="100m", labels={"app": "cart"}),
        pod("tc-built/waiting", memory="1Gi", nodeSelector={"disk": "fast"}),
        statefulset("tc-built/db", replicas=2, template=HERE),
        daemonset("tc-built/agent", template=HERE),
        budget("tc-built/cart", min_available=1),
        node("tc-not-ready", ready=False, managed=False, unschedulable=True),
    )
    kinds = [item["kind"] for item in created]
    assert kinds == [
        "Namespace", "ReplicaSet", "Pod", "Pod", "StatefulSet", "DaemonSet",
        "PodDisruptionBudget", "Node",
    ]  # fmt: skip
    cluster.client.delete("/api/v1/nodes/tc-not-ready")


def test_a_pod_has_the_status_it_was_built_with(bare: TestCluster) -> None:
    apply(bare, node("a"), pod("ready/cart-0", on="a"), pod("ready/cart-1", on="a", ready=False))
    pods = bare.client.get("/api/v1/namespaces/ready/pods")["items"]
    ready = [
        condition["status"]
        for item in pods
        for condition in item["status"]["conditions"]
        if condition["type"] == "Ready"
    ]
    assert ready == ["True", "False"]


def test_a_built_pod_refers_to_its_built_owner_by_the_uid_of_the_server(
    bare: TestCluster,
) -> None:
    owner = replicaset("shop/cart-1", labels={"app": "cart"})
    created, owned = apply(bare, owner, pod("shop/cart-1-a", on="a", owner=owner))
    assert owned["metadata"]["ownerReferences"][0]["uid"] == created["metadata"]["uid"]
    assert created["status"]["readyReplicas"] == 1


def test_the_powerless_user_is_forbidden_to_list_pods(cluster: TestCluster) -> None:
    powerless = Client(cluster.server, cluster.powerless_token, cluster.ca_file)
    with pytest.raises(ApiError) as refused:
        powerless.get("/api/v1/pods")
    assert refused.value.status == 403


def test_an_unknown_token_is_unauthorized(cluster: TestCluster) -> None:
    with pytest.raises(ApiError) as refused:
        Client(cluster.server, "unknown", cluster.ca_file).get("/api/v1/pods")
    assert refused.value.status == 401


def test_the_server_is_not_trusted_without_its_ca(cluster: TestCluster) -> None:
    client = Client(cluster.server, cluster.admin_token, cluster.ca_file)
    client.tls = ssl.create_default_context()
    with pytest.raises(ssl.SSLError):
        client.get("/version")


def test_kubectl_errors_are_raised_with_the_output_of_kubectl(cluster: TestCluster) -> None:
    with pytest.raises(ClusterError, match='namespaces "missing" not found'):
        cluster.kubectl("get", "namespace", "missing")


def test_all_components_listen_on_this_machine_only(cluster: TestCluster) -> None:
    listening = [
        connection.laddr.ip
        for pid in cluster.pids
        for connection in psutil.Process(pid).net_connections()
        if connection.status == psutil.CONN_LISTEN
    ]
    assert len(listening) == 6
    assert set(listening) == {"127.0.0.1"}


def test_two_clusters_run_side_by_side(cluster: TestCluster, bare: TestCluster) -> None:
    apply(bare, namespace("tc-only-here"))
    assert bare.client.exists("/api/v1/namespaces/tc-only-here")
    assert not cluster.client.exists("/api/v1/namespaces/tc-only-here")


def test_a_restarted_api_server_has_the_same_address_and_data(bare: TestCluster) -> None:
    apply(bare, namespace("kept"))
    server, client = bare.server, bare.client
    before = client.get("/api/v1/namespaces/kept")
    bare.restart_apiserver()
    assert bare.server == server
    assert client.get("/api/v1/namespaces/kept") == before
