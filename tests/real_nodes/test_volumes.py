"""Pods with real volumes: one that can follow its pod, and one that stays on its node."""

import asyncio
from pathlib import Path

from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import HOSTNAME_LABEL, statefulset
from testcluster.client import JsonObject
from testcluster.realnodes.web_apps import cordoned
from testcluster.realnodes.workloads import web_server
from tests.extender.running_extender import serving_on, wait_until_webhook_is_called
from tests.migration.support import Sandbox, controller_on, node_of
from tests.real_nodes.support import namespace_of, rescheduler, traces_of_moves

CLAIM = {
    "accessModes": ["ReadWriteOnce"],
    "storageClassName": "by-hand",
    "resources": {"requests": {"storage": "1Gi"}},
}


def volume(name: str, claim: str, source: JsonObject, node: str = "") -> JsonObject:
    """A volume for one claim; with a node, only pods there can use it."""
    namespace, _, claim_name = claim.partition("/")
    spec: JsonObject = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "by-hand",
        "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": {"namespace": namespace, "name": claim_name},
        **source,
    }
    if node:
        here = {"key": HOSTNAME_LABEL, "operator": "In", "values": [node]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": spec,
    }


def database(sandbox: Sandbox, name: str) -> JsonObject:
    """A StatefulSet with one pod, which has a volume of its own."""
    template = web_server(volumeMounts=[{"name": "data", "mountPath": "/data"}])
    claim = {"metadata": {"name": "data"}, "spec": CLAIM}
    return statefulset(
        f"{sandbox.namespace}/{name}", 1, template=template, volumeClaimTemplates=[claim]
    )


async def test_a_pod_whose_volume_can_follow_is_steered_and_one_whose_volume_stays_is_left_alone(
    real_cluster: TestCluster, tmp_path: Path
) -> None:
    cluster, namespace = real_cluster, "volumes"
    source, target, _other = cluster.nodes.names
    (cluster.nodes.root(source) / "var/lib/disk").mkdir(exist_ok=True)
    volumes = [
        volume(
            "follows",
            f"{namespace}/data-follows-0",
            {"hostPath": {"path": "/var/lib/anywhere", "type": "DirectoryOrCreate"}},
        ),
        volume("stays", f"{namespace}/data-stays-0", {"local": {"path": "/var/lib/disk"}}, source),
    ]
    with namespace_of(cluster, namespace) as sandbox:
        with cordoned(cluster, cluster.nodes.names[1:]):
            apply(cluster, *volumes, database(sandbox, "follows"), database(sandbox, "stays"))
            (pod,) = sandbox.wait_ready("follows", 1)
            (kept,) = sandbox.wait_ready("stays", 1)
        async with serving_on(cluster, tmp_path, webhook=True), controller_on(cluster):
            await asyncio.to_thread(wait_until_webhook_is_called, sandbox)
            move = sandbox.migrate(pod, target, mode="Evict")
            (status,) = await sandbox.finished(move, timeout=180)
        assert (status["outcome"], status["steered"]) == ("Landed", True), status
        (moved,) = sandbox.wait_ready("follows", 1)
        assert node_of(moved) == target
        output = rescheduler(cluster, "drain", source, "--here", code=1)
        assert f"pod {namespace}/stays-0 stays: " in output, output
        assert "volume" in output, output
        (same,) = sandbox.wait_ready("stays", 1)
        assert same["metadata"]["uid"] == kept["metadata"]["uid"]
        assert traces_of_moves(sandbox) == []
    for found in volumes:
        cluster.client.delete(f"/api/v1/persistentvolumes/{found['metadata']['name']}")
