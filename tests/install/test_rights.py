"""Each install has the rights that it uses, and uses the rights that it has.

The controller runs as its own service account on a real API server, with the roles and the
admission policies that are shipped, and does everything that it can do. The audit log says what it
asked for, and what was refused.
"""

import json
import os
import ssl
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from urllib.error import HTTPError

import pytest

from rescheduler.install.manifests import manifests
from rescheduler.labels import MAINTENANCE
from testcluster import TestCluster
from testcluster.waiting import wait_until
from tests.install.audit_log import Permission, refused, used
from tests.install.features import POLICY, Features
from tests.install.installs import ADMISSION_POLICIES, INSTALLS, leftovers
from tests.install.local_pod import LocalPod, Rendered
from tests.install.local_scheduler import local_scheduler

OWN_NAMESPACE = "rescheduler-system"
IS_EXHAUSTIVE = os.environ.get("EXHAUSTIVE") == "1"
"""The full install has the same roles as the controller alone, and some more."""
REFUSED_BY_POLICY = "validation.policy.admission.k8s.io/validation_failure"


def granted(rendered: Rendered) -> set[Permission]:
    """All that the roles of an install grant to the controller."""
    account = "rescheduler"
    bindings = rendered.of_kind("ClusterRoleBinding", "RoleBinding")
    names = {
        binding["roleRef"]["name"]
        for binding in bindings
        if [subject["name"] for subject in binding["subjects"]] == [account]
    }
    roles = [
        role
        for role in rendered.of_kind("ClusterRole", "Role")
        if role["metadata"]["name"] in names
    ]
    return {
        Permission(group, resource, verb, name)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


@contextmanager
def installed(cluster: TestCluster, rendered: Rendered) -> Iterator[None]:
    """Install while the block runs; afterwards nothing may be left."""
    text = "\n---\n".join(map(json.dumps, rendered.objects))
    cluster.kubectl("apply", "--validate=strict", "-f", "-", input=text)
    try:
        yield
    finally:
        cluster.kubectl("delete", "--wait", "--timeout=300s", "-f", "-", input=text)


@pytest.mark.parametrize("install", INSTALLS if IS_EXHAUSTIVE else ["full", "read-only"])
def test_rights_are_those_that_are_used(audited: TestCluster, install: str, tmp_path: Path) -> None:
    options = INSTALLS[install] | ADMISSION_POLICIES | {"policy": POLICY}
    rendered = Rendered(manifests(options, OWN_NAMESPACE))
    features = Features(audited)
    are_moved = install != "read-only"
    with features.workloads(are_moved=are_moved), installed(audited, rendered):
        controller = LocalPod(audited, rendered, "rescheduler", tmp_path / "pod")
        try:
            wait_until_pods_are_admitted(audited, rendered)
            use(controller, features, install)
            if install == "full":
                use_scheduler(audited, rendered, controller, features, tmp_path / "scheduler")
            controller.stop()
        finally:
            controller.kill()
    events = controller.requests()
    assert refused(events) == []
    assert [event for event in events if REFUSED_BY_POLICY in event["annotations"]] == []
    rights = [right for event in events if (found := used(event)) for right in found]
    assert granted(rendered) - {*rights} == set()
    assert leftovers(audited) == []


def wait_until_pods_are_admitted(cluster: TestCluster, rendered: Rendered) -> None:
    """Wait for a pod of each Deployment; their namespace admits only restricted ones."""
    expected = {
        each["spec"]["template"]["spec"]["serviceAccountName"]
        for each in rendered.of_kind("Deployment")
    }

    def admitted() -> set[str]:
        pods = cluster.client.get(f"/api/v1/namespaces/{OWN_NAMESPACE}/pods")["items"]
        return {each["spec"]["serviceAccountName"] for each in pods}

    wait_until(lambda: admitted() == expected, what="pods of all Deployments are admitted")


def use(controller: LocalPod, features: Features, install: str) -> None:
    """Let the controller do what it can do in this install."""
    if install == "read-only":
        features.client.patch("/api/v1/nodes/old", {"metadata": {"labels": {MAINTENANCE: "true"}}})
        controller.start()
        wait_until(lambda: "Would have requested a move" in controller.log, what="it has planned")
        assert features.pods_on("old")
    else:
        features.create_leftovers()
        controller.start()
        features.use_all()


def answer_to(url: str, token: str) -> int:
    """The status of an answer of the scheduler."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, context=ssl._create_unverified_context()) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code


def use_scheduler(
    cluster: TestCluster,
    rendered: Rendered,
    controller: LocalPod,
    features: Features,
    directory: Path,
) -> None:
    """Let the second scheduler place a pod with the extender, as its own service account."""
    with local_scheduler(cluster, rendered, controller, directory) as scheduler:
        features.schedule("rescheduler-scheduler")
        # The administrator may read them, and shows a token.
        metrics = f"https://127.0.0.1:{scheduler.port}/metrics"
        assert answer_to(metrics, cluster.admin_token) == HTTPStatus.OK
        assert answer_to(metrics, "nobody's") == HTTPStatus.UNAUTHORIZED
    events = scheduler.requests()
    assert refused(events) == []
    assert "extension-apiserver-authentication" not in scheduler.log
    leases = [event for event in events if event.get("objectRef", {}).get("resource") == "leases"]
    assert {event["verb"] for event in leases} == {"get", "create", "update"}
    assert {event["objectRef"]["namespace"] for event in leases} == {OWN_NAMESPACE}
