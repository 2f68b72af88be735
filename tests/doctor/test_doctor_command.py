"""`rescheduler doctor` says what is wrong with an installation, and nothing that is not."""

import json
import subprocess
import sys
from pathlib import Path

from rescheduler.install.manifests import manifests
from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import node
from testcluster.client import JsonObject
from testcluster.ports import pick_ports
from testcluster.waiting import wait_until
from tests.cli.pod_connections import pods_reached_by
from tests.conftest import FreshCluster
from tests.install.installs import INSTALLS

COMMAND = Path(sys.executable).with_name("rescheduler")
NAMESPACE = "moving-company"

Findings = dict[str, dict[str, str]]


def doctor(cluster: TestCluster, *, code: int) -> Findings:
    """What it finds, by subject; it must end with this code."""
    done = subprocess.run(
        [COMMAND, "doctor", "-n", NAMESPACE, "-o", "json", f"--kubeconfig={cluster.kubeconfig}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return {found["subject"]: found for found in json.loads(done.stdout)["findings"]}


def subjects(findings: Findings, health: str) -> set[str]:
    return {subject for subject, found in findings.items() if found["health"] == health}


def install(cluster: TestCluster, **replaced: str) -> None:
    """Install what is shipped, with some texts of it replaced."""
    items = json.dumps(manifests(INSTALLS["full"], NAMESPACE))
    for old, new in replaced.items():
        items = items.replace(old, new)
    objects = {"apiVersion": "v1", "kind": "List", "items": json.loads(items)}
    cluster.kubectl("apply", "--server-side", "-f", "-", input=json.dumps(objects))


def test_an_installation_is_looked_over_from_nothing_to_a_leader(
    fresh_cluster: FreshCluster,
) -> None:
    # No node, so no pod runs: nobody calls an address of a pod.
    cluster = fresh_cluster()

    # Nothing is installed.
    found = doctor(cluster, code=1)
    assert subjects(found, "bad") == {"migrations.rescheduler.dev", "moverecords.rescheduler.dev"}
    assert "rescheduler crds | kubectl apply" in found["migrations.rescheduler.dev"]["todo"]
    assert subjects(found, "doubtful") == {"controller"}
    # The administrator may do everything, so `drain --here` would work.
    assert found["rights to carry out moves"]["health"] == "good"

    # Installed, but nothing of ours runs.
    install(cluster)
    unfilled = {"leader", "webhook", "certificate", "way to the webhook", "second scheduler"}
    found = doctor(cluster, code=1)
    assert subjects(found, "bad") == {"controller", *unfilled}
    assert "its replicas create it" in found["leader"]["todo"]
    assert found["controller"]["detail"] == "0 of 2 replicas are ready"
    assert "no endpoints available" in found["way to the webhook"]["detail"]

    # Somebody leads, and a right is taken away.
    lease: JsonObject = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "rescheduler", "namespace": NAMESPACE},
        "spec": {"holderIdentity": "rescheduler-1", "leaseDurationSeconds": 15},
    }
    apply(cluster, lease)
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/rescheduler-move"
    rules = cluster.client.get(role)["rules"]
    kept = [rule for rule in rules if rule["resources"] != ["pods/eviction"]]
    assert len(kept) == len(rules) - 1
    cluster.client.patch(role, {"rules": kept})

    def is_noticed() -> Findings:
        found = doctor(cluster, code=1)
        return found if found["rights to carry out moves"]["health"] == "bad" else {}

    # The authorizer learns of it by a watch.
    found = wait_until(is_noticed, what="the right is missing")
    missing = found["rights to carry out moves"]
    assert "1 of " in missing["detail"]
    assert "create pods/eviction (pods that must not run twice are evicted)" in missing["detail"]
    assert f"system:serviceaccount:{NAMESPACE}:rescheduler" in missing["todo"]
    assert found["leader"]["health"] == "good"
    assert found["leader"]["detail"].startswith("rescheduler-1")
    assert found["policy"]["health"] == "good"

    # The leader has refused a policy.
    problem = {"rescheduler.dev/policy-problem": "cpuThreshold: '5oom': expected a number"}
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/rescheduler"
    cluster.client.patch(path, {"metadata": {"annotations": problem}})
    refused = doctor(cluster, code=1)["policy"]
    assert refused["health"] == "bad"
    assert "expected a number" in refused["detail"]


def test_a_service_that_the_api_server_reaches_is_good(fresh_cluster: FreshCluster) -> None:
    """The pods are simulated; what answers at their addresses is a process of this machine."""
    cluster = fresh_cluster()
    (port,) = pick_ports(1)
    manifest = json.dumps(manifests(INSTALLS["full"], NAMESPACE))
    assert '"containerPort": 8443' in manifest
    install(cluster, **{'"containerPort": 8443': f'"containerPort": {port}'})
    apply(cluster, node("a"))
    secret = f"--certificates-secret={NAMESPACE}/rescheduler-certificates"
    options = (f"--listen=127.0.0.1:{port}", secret, f"--kubeconfig={cluster.kubeconfig}")

    def reached() -> dict[str, str]:
        found = doctor(cluster, code=1)["way to the webhook"]
        return found if found["health"] == "good" else {}

    with pods_reached_by(cluster), subprocess.Popen([COMMAND, "serve", *options]) as process:
        try:
            found = wait_until(reached, what="the API server reaches it")
        finally:
            process.terminate()
    assert found["detail"] == "the API server reaches a replica that is ready"


def test_a_server_that_cannot_be_reached_is_the_only_finding(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "users": [{"name": "c", "user": {"token": "t"}}],
        "current-context": "c",
    }
    kubeconfig.write_text(json.dumps(config))
    done = subprocess.run(
        [COMMAND, "doctor", f"--kubeconfig={kubeconfig}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout.startswith("✗ API server: ")
    assert "→ check the address and the credentials" in done.stdout
    assert len(done.stdout.split("✗")) == 2
