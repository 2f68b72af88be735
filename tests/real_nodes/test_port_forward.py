"""A replica that only processes of its pod reach is asked through `kubectl port-forward`."""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import deployment
from testcluster.client import JsonObject
from testcluster.ports import pick_ports
from testcluster.realnodes.workloads import web_server
from testcluster.waiting import wait_until
from tests.migration.support import is_ready
from tests.monitoring.scraping import page
from tests.real_nodes.support import COMMAND, namespace_of, rescheduler

NAMESPACE = "forwarded"
# A port of the node, which its pod shares.
WEB_PORT = 8090
FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+)")


@contextmanager
def running(
    command: list[str], output: Path, env: Mapping[str, str] | None = None
) -> Iterator[None]:
    with (
        output.open("wb") as file,
        subprocess.Popen(command, stdout=file, stderr=file, env=env) as process,
    ):
        try:
            yield
        finally:
            process.terminate()


def test_status_works_through_kubectl_port_forward(
    real_cluster: TestCluster, tmp_path: Path
) -> None:
    nodes = real_cluster.nodes
    node = nodes.names[0]
    with namespace_of(real_cluster, NAMESPACE) as sandbox:
        container = web_server("-ports", str(WEB_PORT), port=WEB_PORT)
        template = {**container, "nodeName": node, "hostNetwork": True}
        apply(real_cluster, deployment(f"{NAMESPACE}/rescheduler", 1, template=template))

        def ready() -> list[JsonObject]:
            return [pod for pod in sandbox.pods() if is_ready(pod)]

        (pod,) = wait_until(ready, what="the pod is Ready")
        # A process in the network of the node, and so of the pod, as if it were in the pod.
        (port,) = pick_ports(1)
        health = f"--health=127.0.0.1:{port}"
        kubeconfig = f"--kubeconfig={nodes.kubeconfig}"
        replica = nodes.command_of(node, COMMAND, "run", "--dry-run", health, kubeconfig)
        forward = (
            *(str(real_cluster.binary), "kubectl", "--kubeconfig", str(real_cluster.kubeconfig)),
            *("--namespace", NAMESPACE, "port-forward", f"pod/{pod['metadata']['name']}"),
            f":{port}",
        )
        log, forwarded = tmp_path / "replica", tmp_path / "kubectl"
        with running(replica, log):
            wait_until(lambda: "Finished a round" in log.read_text(), what="a round")
            assert page(port, "/status") == (0, ""), "only its pod reaches it"
            with running([*forward], forwarded, real_cluster.kubectl_env):
                (local,) = wait_until(
                    lambda: FORWARDING.findall(forwarded.read_text()), what="it is forwarded"
                )
                url = f"--url=http://127.0.0.1:{local}"
                status = json.loads(rescheduler(real_cluster, "status", url, "-o", "json"))
    assert status["replica"]["role"] == "Planner"
    assert status["replica"]["round"]["reason"]
