"""Without the right to some kinds, the rest works, and what follows is said."""

import json
from pathlib import Path
from typing import Any

from rescheduler.install.manifests import manifests
from rescheduler.labels import MAINTENANCE
from rescheduler.model.unreadable_objects import MISSING_KINDS
from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import node, replicaset
from testcluster.waiting import wait_until
from tests.install.features import POLICY
from tests.install.installs import INSTALLS
from tests.install.local_pod import LocalPod, Rendered
from tests.install.test_rights import OWN_NAMESPACE, installed

NAMESPACE = "volumes"
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data", "namespace": NAMESPACE},
    "spec": {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "",
        "volumeName": "data",
        "resources": {"requests": {"storage": "1Gi"}},
    },
}
VOLUME = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "data"},
    "spec": {
        "accessModes": ["ReadWriteMany"],
        "capacity": {"storage": "1Gi"},
        "nfs": {"server": "files.example", "path": "/"},
        "claimRef": {"namespace": NAMESPACE, "name": "data"},
    },
}
WITH_VOLUME = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}


def without_missing_kinds(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The objects with roles that lack all rights that can be lacking."""
    missing = {kind.plural for kind in MISSING_KINDS}
    for each in objects:
        if "rules" in each:
            each["rules"] = [
                rule for rule in each["rules"] if not missing.intersection(rule["resources"])
            ]
    return objects


def test_plans_go_on_without_kinds_that_may_not_be_listed(
    audited: TestCluster, tmp_path: Path
) -> None:
    options = {**INSTALLS["read-only"], "policy": POLICY}
    rendered = Rendered(without_missing_kinds(manifests(options, OWN_NAMESPACE)))
    apply(audited, node("left"))
    apply(
        audited,
        VOLUME,
        CLAIM,
        replicaset(f"{NAMESPACE}/plain", 1),
        replicaset(f"{NAMESPACE}/with-volume", 1, template=WITH_VOLUME),
    )
    client = audited.client
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"

    def running() -> int:
        phases = [each["status"].get("phase") for each in client.get(pods)["items"]]
        return phases.count("Running")

    wait_until(lambda: running() == 2, what="both pods run")
    apply(audited, node("right"))
    client.patch("/api/v1/nodes/left", {"metadata": {"labels": {MAINTENANCE: "true"}}})
    with installed(audited, rendered):
        controller = LocalPod(audited, rendered, "rescheduler", tmp_path / "pod")
        try:
            controller.start()
            wait_until(lambda: "Would have requested a move" in controller.log, what="a plan")
            controller.stop()
        finally:
            controller.kill()
    lines = [json.loads(line) for line in controller.log.splitlines()]
    for kind, consequence in MISSING_KINDS.items():
        about_kind = [line for line in lines if line.get("kind") == kind.name]
        assert consequence in [line.get("consequence") for line in about_kind]
        # It is not asked again and again.
        messages = [line["message"] for line in about_kind]
        assert messages.count("Lost the connection of a watch") == 1
    planned = [line["pod"].rpartition("-")[0] for line in lines if "pod" in line]
    assert "volumes/plain" in planned
    assert "volumes/with-volume" not in planned
    client.delete(f"/api/v1/namespaces/{NAMESPACE}")
    client.delete("/api/v1/persistentvolumes/data")
    for name in ("left", "right"):
        client.delete(f"/api/v1/nodes/{name}")
