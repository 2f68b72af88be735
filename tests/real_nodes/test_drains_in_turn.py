"""Three nodes are drained one after the other, with pods that start and stop as real ones do."""

from testcluster import TestCluster
from testcluster.builders import pod as pod_object
from testcluster.client import JsonObject
from testcluster.realnodes.web_apps import WebApp, set_cordoned, traffic_during
from testcluster.realnodes.workloads import web_server
from testcluster.waiting import wait_until
from tests.migration.support import Sandbox, is_ready, node_of
from tests.real_nodes.support import namespace_of, rescheduler, run_apps, traces_of_moves

RATE = 20.0
NAMESPACE = "drains-in-turn"
LINGERING = WebApp("lingering", replicas=1, pre_stop_seconds=10)
RESIZED = WebApp("resized", replicas=1, on_one_node=True, abrupt=True)
APPS = [
    WebApp("pair", replicas=2, abrupt=True),
    WebApp("slow", replicas=1, on_one_node=True, server_options=("-warm-up", "8s")),
    RESIZED,
]
MORE = {"requests": {"cpu": "30m", "memory": "24Mi"}}


def test_nodes_are_drained_and_used_again_one_after_the_other(real_cluster: TestCluster) -> None:
    cluster = real_cluster
    first, second, third = cluster.nodes.names
    sandbox = Sandbox(cluster, NAMESPACE)
    manifest = pod_object("kube-system/agent", **web_server())
    static = cluster.nodes.run_static_pod(first, without_status(manifest))

    def drain_all() -> None:
        wait_until(lambda: mirror_pods(cluster, first), what="the static pod is Ready")
        resize(sandbox, MORE)
        drain(sandbox, first)
        assert mirror_pods(cluster, first), "the static pod stays"
        drain(sandbox, third)
        drain(sandbox, second)
        assert len(running_pods(sandbox)) == sum(app.replicas for app in APPS)
        (resized,) = running_pods(sandbox, RESIZED.name)
        assert resized["spec"]["containers"][0]["resources"] == MORE

    try:
        found = traffic_during(drain_all, cluster, NAMESPACE, APPS, RATE)
    finally:
        static.unlink()
    wait_until(lambda: not mirror_pods(cluster, first), what="the static pod is gone")
    for traffic in found:
        assert traffic.load.failed == 0, (traffic.app.name, traffic.load.failures)
        assert traffic.fewest_ready >= traffic.app.replicas, traffic


def test_a_drain_waits_for_a_pod_that_takes_its_time_to_stop_and_says_so(
    real_cluster: TestCluster,
) -> None:
    node = real_cluster.nodes.names[0]
    with namespace_of(real_cluster, "lingering") as sandbox:
        run_apps(sandbox, [LINGERING], node)
        (old,) = sandbox.pods()
        output = drain(sandbox, node)
    assert "1 pod is still stopping, until " in output, output
    assert f"at the latest: lingering/{old['metadata']['name']}" in output, output


def drain(sandbox: Sandbox, node: str) -> str:
    """Empty a node and let it take pods again; what the command printed."""
    output = rescheduler(sandbox.cluster, "drain", node, "--here")
    assert f"node {node} is empty" in output, output
    pods = running_pods(sandbox)
    assert [pod["metadata"]["name"] for pod in pods if node_of(pod) == node] == []
    assert all(map(is_ready, pods))
    assert traces_of_moves(sandbox) == []
    set_cordoned(sandbox.cluster, [node], False)
    return output


def running_pods(sandbox: Sandbox, app: str = "") -> list[JsonObject]:
    """The pods of an app, or all, without those that have ended: they may stay for a moment."""
    return [pod for pod in sandbox.pods(app) if pod["status"]["phase"] == "Running"]


def resize(sandbox: Sandbox, resources: JsonObject) -> None:
    """Give a running pod other resources than its template says, and wait until it has them."""
    (pod,) = sandbox.pods(RESIZED.name)
    path = sandbox.path("pods", pod["metadata"]["name"])
    containers = [{"name": "web", "resources": resources}]
    sandbox.outside.request(
        "PATCH",
        f"{path}/resize",
        {"spec": {"containers": containers}},
        "application/strategic-merge-patch+json",
    )

    def has_them() -> bool:
        (status,) = sandbox.outside.get(path)["status"]["containerStatuses"]
        return bool(status["resources"] == resources)

    wait_until(has_them, what="the kubelet has resized the pod")


def mirror_pods(cluster: TestCluster, node: str) -> list[JsonObject]:
    """The Ready pods by which a node shows its static pods."""
    pods = cluster.client.get("/api/v1/namespaces/kube-system/pods")["items"]
    return [pod for pod in pods if node_of(pod) == node and is_ready(pod)]


def without_status(pod: JsonObject) -> JsonObject:
    """A manifest for a file, in which the server has written nothing."""
    names = {key: pod["metadata"][key] for key in ("name", "namespace")}
    return {**{key: pod[key] for key in ("apiVersion", "kind", "spec")}, "metadata": names}
