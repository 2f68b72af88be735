"""A target on which new pods do not work: every move is undone, and nobody notices."""

from pathlib import Path

from testcluster import TestCluster
from testcluster.realnodes.images import TRAFFIC_IMAGE
from testcluster.realnodes.web_apps import WebApp, cordoned, traffic_during
from testcluster.waiting import wait_until
from tests.migration.support import FINISHED, Sandbox, is_ready
from tests.real_nodes.support import rescheduler

RATE = 20.0
# Nobody listens there, so a pull fails at once.
RARE_IMAGE = "127.0.0.1:5000/rare:1"
POLICY = "migration: {timeout: 25s, maxRetries: 0, maxPerNode: 20}"


def badly_placed(name: str, fault: str = "", /, **container: object) -> WebApp:
    """An application with one pod on the first node, and trouble on the second."""
    options = ("-fault", fault, "-on", "node-2") if fault else ()
    return WebApp(name, replicas=1, on_one_node=True, server_options=options, container=container)


MEMORY = {"requests": {"cpu": "20m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}}
FLAPS_AT_ONCE = {
    "httpGet": {"path": "/readyz", "port": 8080},
    "periodSeconds": 1,
    "timeoutSeconds": 10,
    "failureThreshold": 1,
}

APPS = [
    badly_placed("never-pulled", image=RARE_IMAGE),
    badly_placed("not-pulled", image=RARE_IMAGE, imagePullPolicy="IfNotPresent"),
    badly_placed("crashing", "crash"),
    badly_placed("too-big", "hog", resources=MEMORY),
    badly_placed("flapping", "flap", readinessProbe=FLAPS_AT_ONCE),
]
REASONS = {
    "never-pulled": "cannot start: ErrImageNeverPull on node-2",
    "not-pulled": RARE_IMAGE,
    "crashing": "keeps crashing: container web has been restarted once on node-2",
    "too-big": "OOMKilled",
    "flapping": "not Ready",
}


def test_moves_to_a_node_on_which_the_new_pods_do_not_work_are_undone(
    real_cluster: TestCluster, tmp_path: Path
) -> None:
    cluster, namespace = real_cluster, "bad-targets"
    source, _target, other = cluster.nodes.names
    cluster.nodes.tag_image(source, TRAFFIC_IMAGE, RARE_IMAGE)
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    sandbox = Sandbox(cluster, namespace)
    output = ""

    def drain() -> None:
        nonlocal output
        before = {pod["metadata"]["uid"] for pod in sandbox.pods()}
        with cordoned(cluster, [other]):
            output = rescheduler(
                cluster, "drain", source, "--here", "--policy", str(policy), code=1
            )
        assert {pod["metadata"]["uid"] for pod in sandbox.pods() if is_ready(pod)} == before
        wait_until(lambda: len(sandbox.pods()) == len(before), what="the new pods are gone")
        phases = {found["status"]["phase"] for found in sandbox.all("migrations")}
        assert phases <= set(FINISHED), phases
        assert sandbox.leftovers() == []

    found = traffic_during(drain, cluster, namespace, APPS, RATE)
    for traffic in found:
        assert traffic.load.failed == 0, (traffic.app.name, traffic.load.failures)
        assert traffic.fewest_ready >= 1, traffic
        lines = [
            line for line in output.splitlines() if f"pod {namespace}/{traffic.app.name}-" in line
        ]
        assert any(REASONS[traffic.app.name] in line for line in lines), (traffic.app.name, output)
