"""`rescheduler doctor` says what is wrong with an installation, and nothing that is not."""

import json
import subprocess
import sys
from pathlib import Path

from rescheduler.install.manifests import manifests
from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.waiting import wait_until
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


def install(cluster: TestCluster) -> None:
    objects = {"apiVersion": "v1", "kind": "List", "items": manifests(INSTALLS["full"], NAMESPACE)}
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
    lease = {
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
