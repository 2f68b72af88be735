"""Draining real nodes: kubelets take their time to stop pods, and sometimes do not answer."""

from collections.abc import Iterator

import pytest

from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import deployment
from testcluster.client import JsonObject
from testcluster.realnodes.web_apps import WebApp, cordoned, ready_pods, running
from testcluster.realnodes.workloads import web_server
from testcluster.waiting import wait_until
from tests.real_nodes.support import rescheduler

NAMESPACE = "drained"


def pods_on(cluster: TestCluster, node: str) -> list[JsonObject]:
    path = f"/api/v1/namespaces/{NAMESPACE}/pods?fieldSelector=spec.nodeName={node}"
    found: list[JsonObject] = cluster.client.get(path)["items"]
    return found


def wait_until_gone(cluster: TestCluster, node: str) -> None:
    """Containers have ended when a drain has; the objects may be there for a moment longer."""
    wait_until(lambda: not pods_on(cluster, node), what=f"{node} has no pods")


def test_a_drain_is_successful_though_its_old_pods_take_their_time_to_stop(
    real_cluster: TestCluster,
) -> None:
    first = real_cluster.nodes.names[0]
    slow = WebApp("slow", replicas=2, on_one_node=True, pre_stop_seconds=8)
    with running(real_cluster, NAMESPACE, [slow]):
        output = rescheduler(real_cluster, "drain", first, "--here")
        assert "still stopping, until" in output
        assert output.endswith(f"node {first} is empty\n")
        wait_until_gone(real_cluster, first)
        assert ready_pods(real_cluster, NAMESPACE, slow)


@pytest.fixture
def silent_node(real_cluster: TestCluster) -> Iterator[str]:
    """A node with one pod, whose kubelet is stopped."""
    first, *others = real_cluster.nodes.names
    app = WebApp("quiet", replicas=1)
    with running(real_cluster, NAMESPACE, []):
        template = {**web_server("-ports", "8080"), "terminationGracePeriodSeconds": 1}
        with cordoned(real_cluster, others):
            apply(real_cluster, deployment(f"{NAMESPACE}/quiet", 1, template=template))
            wait_until(lambda: ready_pods(real_cluster, NAMESPACE, app), what="it runs")
        real_cluster.nodes.stop_kubelet(first)
        try:
            yield first
        finally:
            real_cluster.nodes.continue_kubelet(first)


def test_a_pod_that_its_kubelet_does_not_stop_is_listed_and_gone_when_the_kubelet_is_back(
    real_cluster: TestCluster, silent_node: str
) -> None:
    (old,) = pods_on(real_cluster, silent_node)
    output = rescheduler(real_cluster, "drain", silent_node, "--here", code=1)
    name = f"{NAMESPACE}/{old['metadata']['name']}"
    assert f"pod {name} is still stopping after its grace period: " in output
    assert f"kubectl uncordon {silent_node}" in output
    real_cluster.nodes.continue_kubelet(silent_node)
    # Its grace period is over, so a drain would not wait for a kubelet that is still waking up.
    wait_until_gone(real_cluster, silent_node)
    output = rescheduler(real_cluster, "drain", silent_node, "--here")
    assert output.endswith(
        (f"node {silent_node} is empty\n", f"node {silent_node} has no pods to move\n")
    )
