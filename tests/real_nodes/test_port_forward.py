"""The status is for those alone who may forward ports: by `rescheduler status`, or by kubectl."""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from rescheduler.install.metadata import CONTROLLER, labels
from testcluster import ClusterError, TestCluster
from testcluster.applying import apply
from testcluster.builders import deployment
from testcluster.client import JsonObject
from testcluster.ports import pick_ports
from testcluster.realnodes.workloads import web_server
from testcluster.waiting import wait_until
from tests.migration.support import is_ready
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


def test_only_who_forwards_a_port_reads_the_status(
    real_cluster: TestCluster, tmp_path: Path
) -> None:
    nodes = real_cluster.nodes
    node = nodes.names[0]
    with namespace_of(real_cluster, NAMESPACE) as sandbox:
        (port,) = pick_ports(1)
        template = {
            **web_server("-ports", str(WEB_PORT), port=WEB_PORT),
            "nodeName": node,
            "hostNetwork": True,
        }
        # By these, the command finds a pod to ask; its program does not look at the second one.
        template["containers"][0]["args"] += ["--", f"--health=:{port}"]
        replicas = deployment(
            f"{NAMESPACE}/rescheduler", 1, labels=labels(CONTROLLER), template=template
        )
        apply(real_cluster, replicas)

        def ready() -> list[JsonObject]:
            return [pod for pod in sandbox.pods() if is_ready(pod)]

        (pod,) = wait_until(ready, what="the pod is Ready")
        # A process in the network of the node, and so of the pod, as if it were in the pod.
        health = f"--health=:{port}"
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
            # The API server's proxy comes by the address of the pod, as everybody else does.
            proxy = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}:{port}/proxy"
            for path in ("healthz", "readyz", "metrics"):
                assert real_cluster.kubectl("get", "--raw", f"{proxy}/{path}")
            with pytest.raises(ClusterError, match="Forbidden"):
                real_cluster.kubectl("get", "--raw", f"{proxy}/status")
            lease = f"--leader-election-lease={NAMESPACE}/rescheduler"
            direct = json.loads(rescheduler(real_cluster, "status", lease, "-o", "json"))
            assert direct["replica"]["role"] == "Planner"
            assert direct["source"].endswith("/portforward")
            with running([*forward], forwarded, real_cluster.kubectl_env):
                (local,) = wait_until(
                    lambda: FORWARDING.findall(forwarded.read_text()), what="it is forwarded"
                )
                url = f"--url=http://127.0.0.1:{local}"
                status = json.loads(rescheduler(real_cluster, "status", url, "-o", "json"))
    assert status["replica"]["role"] == "Planner"
    assert status["replica"]["round"]["reason"]
