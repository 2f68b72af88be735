"""Real nodes run real pods, reach each other, and fail as real nodes do."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import deployment, service
from testcluster.client import JsonObject
from testcluster.realnodes import cgroups
from testcluster.realnodes.addresses import FABRIC_ADDRESS, FABRIC_MAC
from testcluster.realnodes.cpu_priority import (
    PREFERRED,
    SHARES_FILE,
    WEIGHT_FILE,
    cgroup_among,
    cpu_hierarchy,
)
from testcluster.realnodes.workloads import web_server
from testcluster.waiting import wait_until
from tests.conftest import FreshCluster

numbers = count(1)


@pytest.fixture
def namespace(real_cluster: TestCluster) -> Iterator[str]:
    name = f"real-nodes-{next(numbers)}"
    yield name
    real_cluster.kubectl("delete", "namespace", name, "--ignore-not-found", "--wait=false")


def run_web(cluster: TestCluster, namespace: str, replicas: int) -> str:
    """The URL of a web server behind a Service, when every node reaches all its pods."""
    template = web_server("-work", "2ms")
    *_, created = apply(
        cluster,
        deployment(f"{namespace}/web", replicas=replicas, template=template),
        service(f"{namespace}/web"),
    )
    cluster.kubectl("-n", namespace, "rollout", "status", "deployment/web", "--timeout=120s")
    url = f"http://{created['spec']['clusterIP']}/"
    cluster.nodes.wait_until_all_reach(url, pod_names(cluster, namespace))
    return url


def ready_status(cluster: TestCluster, node: str) -> str:
    conditions = cluster.client.get(f"/api/v1/nodes/{node}")["status"]["conditions"]
    return next(str(found["status"]) for found in conditions if found["type"] == "Ready")


def pods(cluster: TestCluster, namespace: str) -> list[JsonObject]:
    items: list[JsonObject] = cluster.client.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return items


def pod_names(cluster: TestCluster, namespace: str) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods(cluster, namespace)}


def test_three_nodes_get_ready(real_cluster: TestCluster) -> None:
    assert real_cluster.nodes.names == ["node-1", "node-2", "node-3"]
    for name in real_cluster.nodes.names:
        node = real_cluster.client.get(f"/api/v1/nodes/{name}")
        assert ready_status(real_cluster, name) == "True"
        assert node["status"]["nodeInfo"]["containerRuntimeVersion"].startswith("containerd://")


def test_nodes_and_pods_get_the_cpu_before_tests_that_compute(real_cluster: TestCluster) -> None:
    hierarchy = cpu_hierarchy(cgroups.hierarchies())
    memberships = [text for pid in real_cluster.pids if (text := memberships_of(pid))]
    assert len(memberships) >= len(real_cluster.nodes.names)
    assert {cgroup_among(text, hierarchy) for text in memberships} == {PREFERRED}
    of_pods, usual = (
        weight(hierarchy.root / name)
        for name in (real_cluster.nodes.cgroup, f"{real_cluster.nodes.cgroup}/node-1")
    )
    assert of_pods == weight(hierarchy.root / PREFERRED)
    assert of_pods > usual


def memberships_of(pid: int) -> str:
    """Which cgroups a process is in; an empty string if it has ended, as some soon do."""
    try:
        return Path(f"/proc/{pid}/cgroup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def weight(cgroup: Path) -> int:
    (file,) = [cgroup / name for name in (SHARES_FILE, WEIGHT_FILE) if (cgroup / name).exists()]
    return int(file.read_text())


def test_a_service_answers_from_every_node_with_all_its_pods(
    real_cluster: TestCluster, namespace: str
) -> None:
    url = run_web(real_cluster, namespace, replicas=4)
    names = pod_names(real_cluster, namespace)
    assert len(names) == 4
    for node in real_cluster.nodes.names:
        report = real_cluster.nodes.load(node, "-urls", url, "-rate", "200", "-for", "1s").report()
        assert (report.sent, report.failed) == (200, 0), report
        assert set(report.answers_by_host) == names


def test_the_logs_of_a_pod_can_be_read(real_cluster: TestCluster, namespace: str) -> None:
    run_web(real_cluster, namespace, replicas=1)
    logs = real_cluster.kubectl("-n", namespace, "logs", "deployment/web")
    assert "listening on 8080" in logs


def test_a_halted_kubelet_makes_its_node_not_ready_and_its_pods_go_on(
    real_cluster: TestCluster, namespace: str
) -> None:
    run_web(real_cluster, namespace, replicas=3)
    nodes = real_cluster.nodes
    pod = pods(real_cluster, namespace)[0]
    node, url = pod["spec"]["nodeName"], f"http://{pod['status']['podIP']}:8080/"
    nodes.stop_kubelet(node)
    try:
        wait_until(lambda: ready_status(real_cluster, node) == "Unknown", what="it is NotReady")
        other = next(name for name in nodes.names if name != node)
        assert nodes.load(other, "-urls", url, "-rate", "10", "-for", "1s").report().failed == 0
    finally:
        nodes.continue_kubelet(node)
    wait_until(lambda: ready_status(real_cluster, node) == "True", what="it is Ready again")


def test_load_ends_when_it_is_told_to(real_cluster: TestCluster, namespace: str) -> None:
    url = run_web(real_cluster, namespace, replicas=1)
    options = ("-urls", url, "-rate", "50", "-for", "1h", "-keep-alive")
    with real_cluster.nodes.load("node-2", *options) as load:
        real_cluster.kubectl("-n", namespace, "scale", "deployment/web", "--replicas=2")
        real_cluster.kubectl("-n", namespace, "rollout", "status", "deployment/web")
        report = load.stop()
    assert report.sent == report.ok > 0


@pytest.mark.usefixtures("needs_real_nodes")
def test_a_killed_node_takes_its_pods_along_and_the_others_stay(
    fresh_cluster: FreshCluster,
) -> None:
    cluster = fresh_cluster(real_nodes=2)
    run_web(cluster, "shop", replicas=4)
    gone = [pod for pod in pods(cluster, "shop") if pod["spec"]["nodeName"] == "node-1"]
    stays = next(pod for pod in pods(cluster, "shop") if pod["spec"]["nodeName"] == "node-2")
    cluster.nodes.kill("node-1")
    wait_until(lambda: ready_status(cluster, "node-1") == "Unknown", what="it is NotReady")
    url = f"http://{gone[0]['status']['podIP']}:8080/"
    lost = cluster.nodes.load("node-2", "-urls", url, "-rate", "2", "-for", "1s", "-timeout", "2s")
    assert lost.report().ok == 0
    url = f"http://{stays['status']['podIP']}:8080/"
    kept = cluster.nodes.load("node-2", "-urls", url, "-rate", "2", "-for", "1s")
    assert kept.report().failed == 0


def test_the_way_to_the_api_server_does_not_depend_on_any_node(real_cluster: TestCluster) -> None:
    for name in real_cluster.nodes.names:
        neighbour = real_cluster.nodes.run_in(name, "ip", "neighbour", "show", FABRIC_ADDRESS)
        assert f"lladdr {FABRIC_MAC}" in neighbour


@pytest.mark.usefixtures("needs_real_nodes")
def test_two_clusters_run_side_by_side(
    real_cluster: TestCluster, namespace: str, fresh_cluster: FreshCluster
) -> None:
    other = fresh_cluster(real_nodes=1)
    urls = {
        real_cluster: run_web(real_cluster, namespace, replicas=2),
        other: run_web(other, namespace, replicas=1),
    }
    for cluster, url in urls.items():
        report = cluster.nodes.load("node-1", "-urls", url, "-rate", "50", "-for", "1s").report()
        assert report.failed == 0, report
        assert set(report.answers_by_host) == pod_names(cluster, namespace)
