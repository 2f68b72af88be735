"""A person with one of the roles for people can run its commands, and nothing more.

The commands run on a real API server, as service accounts with these roles alone. The audit log
says what they asked for.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rescheduler.install.manifests import manifests
from rescheduler.install.people_rights import AGGREGATED
from rescheduler.install.roles import RBAC
from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import deployment, node
from testcluster.components import kubeconfig_text
from testcluster.waiting import wait_until
from tests.install.audit_log import Permission, refused, used
from tests.install.features import POLICY
from tests.install.installs import INSTALLS, leftovers
from tests.install.local_pod import LocalPod, Rendered
from tests.install.test_rights import OWN_NAMESPACE, installed
from tests.migration.support import is_ready, node_of

SHOP = "shop"
PODS = f"/api/v1/namespaces/{SHOP}/pods"
# Asked for besides `get` where a websocket is opened. The audit log names one verb of a request.
UNLOGGED = Permission("", "pods/portforward", "create")
COMMAND = Path(sys.executable).with_name("rescheduler")


class Person:
    """Somebody with one role in the cluster, who may also ask the leader for its status."""

    def __init__(self, cluster: TestCluster, rendered: Rendered, role: str, place: Path) -> None:
        self._cluster = cluster
        self._rendered = rendered
        self._role = role
        subject = {"kind": "ServiceAccount", "name": role, "namespace": OWN_NAMESPACE}
        apply(cluster, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named(subject)})
        self._bind("ClusterRole", role, subject)
        self._bind("Role", "rescheduler-user-status", subject)
        tokens = f"/api/v1/namespaces/{OWN_NAMESPACE}/serviceaccounts/{role}/token"
        token = cluster.client.create(tokens, {"spec": {}})["status"]["token"]
        self._kubeconfig = place / f"{role}.kubeconfig"
        self._kubeconfig.write_text(kubeconfig_text(cluster.server, cluster.ca_file, role, token))
        self._audit_start = cluster.layout.audit_log.stat().st_size

    def _bind(self, kind: str, role: str, subject: dict[str, str]) -> None:
        metadata = {"name": f"{self._role}-{role}"}
        if kind == "Role":
            metadata["namespace"] = OWN_NAMESPACE
        binding = {
            "apiVersion": f"{RBAC}/v1",
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
            "subjects": [subject],
        }
        apply(self._cluster, binding)

    def unbind(self) -> None:
        path = f"/apis/{RBAC}/v1/clusterrolebindings/{self._role}-{self._role}"
        self._cluster.client.delete(path)

    def run(self, *arguments: str | Path, code: int = 0) -> str:
        """Run a command; what it said."""
        return self._run(code, COMMAND, *arguments)

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl; what it said."""
        return self._run(0, self._cluster.binary, "kubectl", *arguments)

    def _run(self, code: int, *arguments: str | Path) -> str:
        command = [*arguments, f"--kubeconfig={self._kubeconfig}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def granted(self) -> set[Permission]:
        """All that the roles grant, but what `kubectl get` alone needs of our own kinds."""
        rules = [
            rule
            for kind, name in (("ClusterRole", self._role), ("Role", "rescheduler-user-status"))
            for rule in self._rendered.get(kind, name)["rules"]
        ]
        kinds = {right.resources[0] for right in AGGREGATED.rights}
        return {
            Permission(group, resource, verb, name)
            for rule in rules
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
            for name in rule.get("resourceNames", [""])
            if not (resource in kinds and verb in ("get", "watch"))
        }

    def requests(self) -> list[dict[str, Any]]:
        user = f"system:serviceaccount:{OWN_NAMESPACE}:{self._role}"
        with self._cluster.layout.audit_log.open("rb") as file:
            file.seek(self._audit_start)
            events = [json.loads(line) for line in file]
        return [event for event in events if event["user"]["username"] == user]

    def refused(self) -> list[dict[str, Any]]:
        """The requests for which a right was missing."""
        return refused(self.requests())

    def unused(self) -> set[Permission]:
        """The rights that no request needed."""
        rights = (right for event in self.requests() for right in used(event) or ())
        return self.granted() - {*rights} - {UNLOGGED}


def named(subject: dict[str, str]) -> dict[str, str]:
    return {key: subject[key] for key in ("name", "namespace")}


@pytest.fixture
def rendered() -> Rendered:
    return Rendered(manifests({**INSTALLS["default"], "policy": POLICY}, OWN_NAMESPACE))


@pytest.fixture
def shop(audited: TestCluster, rendered: Rendered) -> Iterator[TestCluster]:
    """Two pods on one of two nodes, and an installation."""
    client = audited.client
    apply(audited, node("left"), deployment(f"{SHOP}/web", 2))

    def ready() -> int:
        return sum(map(is_ready, client.get(PODS)["items"]))

    wait_until(lambda: ready() == 2, what="both pods are Ready")
    apply(audited, node("right"))
    with installed(audited, rendered):
        yield audited
    client.delete(f"/api/v1/namespaces/{SHOP}")
    wait_until(lambda: not client.exists(f"/api/v1/namespaces/{SHOP}"), what="the shop is gone")
    for name in ("left", "right"):
        client.delete(f"/api/v1/nodes/{name}")
    assert leftovers(audited) == []


def test_people_can_run_the_commands_of_their_role_and_nothing_more(
    shop: TestCluster, rendered: Rendered, tmp_path: Path
) -> None:
    viewer, mover, drainer = (
        Person(shop, rendered, f"rescheduler-user-{what}", tmp_path)
        for what in ("view", "move", "drain")
    )
    pod = shop.client.get(PODS)["items"][0]["metadata"]["name"]
    move = ("move", f"{SHOP}/{pod}", "--to", "right")
    lease = f"--leader-election-lease={OWN_NAMESPACE}/rescheduler"
    status = ("status", lease)
    controller = LocalPod(shop, rendered, "rescheduler", tmp_path / "pod")
    try:
        # Nobody leads, so a pod of the installation is asked.
        viewer.run(*status)
        controller.start()
        wait_until(lambda: "Became the leader" in controller.log, what="somebody leads")
        viewer.run(*status)
        viewer.run("history")
        viewer.run("plan")
        viewer.run("explain", f"{SHOP}/{pod}")
        assert viewer.refused() == []
        assert viewer.unused() == set()
        assert "cannot create resource" in viewer.run(*move, code=1)

        mover.run(*move, "--wait")
        # As the command does with one that cannot start.
        mover.kubectl("delete", "migration", "gone", "--namespace", SHOP, "--ignore-not-found")
        assert mover.refused() == []
        assert mover.unused() <= viewer.granted()
        assert "cannot get resource" in mover.run("drain", "left", code=1)

        drainer.run("drain", "left", "--wait")
        assert drainer.refused() == []
        assert drainer.unused() <= mover.granted()
        controller.stop()
    finally:
        controller.kill()
        for person in (viewer, mover, drainer):
            person.unbind()
    assert {node_of(each) for each in shop.client.get(PODS)["items"]} == {"right"}
