"""Load a generated large cluster into a real one within minutes, without its API server.

The API server serves whatever is in etcd, status included, so the objects are written there:
thousands per second, instead of 170 if they are created through the API and have to start.
"""

import subprocess
from collections.abc import Iterable

import msgspec

from testcluster.client import ApiError, Client, JsonObject
from testcluster.cluster import ClusterError, TestCluster
from testcluster.large import generate_large_cluster
from testcluster.waiting import wait_until

REGISTRY_NAMES = {
    "Namespace": "namespaces",
    "Node": "minions",
    "Pod": "pods",
    "Deployment": "deployments",
    "ReplicaSet": "replicasets",
}


def load_large_cluster(
    cluster: TestCluster,
    nodes: int = 5000,
    pods: int = 150_000,
    seed: int = 1,
    templates: int | None = None,
) -> int:
    """Generate a large cluster and load it; returns the number of objects.

    kwok, if it runs, simulates the nodes.
    """
    generated = generate_large_cluster(nodes, pods, seed, templates, managed=cluster.kwok)
    return load_objects(cluster, generated)


def load_objects(cluster: TestCluster, objects: Iterable[JsonObject]) -> int:
    """Write objects of the kinds above to etcd as they are; returns how many.

    The controller manager is stopped meanwhile. Otherwise it would create pods for a ReplicaSet
    whose pods are not loaded yet, or delete pods whose ReplicaSet is not.
    """
    with cluster.without_controllers():
        count = write_to_etcd(cluster, objects)
        wait_until(lambda: has_caught_up(cluster.client), 300, "the API server has all objects")
    return count


def has_caught_up(client: Client) -> bool:
    """Whether the watch cache of the API server is as new as etcd.

    The cache is filled by a watch, long after all objects are written.
    """
    latest = client.get("/api/v1/namespaces?limit=1")["metadata"]["resourceVersion"]
    nothing = "fieldSelector=metadata.name=none"
    at_least = f"resourceVersion={latest}&resourceVersionMatch=NotOlderThan"
    try:
        client.get(f"/api/v1/pods?{nothing}&{at_least}")
    except ApiError as error:
        if error.status == 504:
            return False
        raise
    return True


def write_to_etcd(cluster: TestCluster, objects: Iterable[JsonObject]) -> int:
    """Pass the objects to the loader in the test cluster's binary."""
    encode = msgspec.json.Encoder().encode
    command = [str(cluster.binary), "load", cluster.etcd_url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for item in objects:
            process.stdin.write(f"{registry_key(item)}\t".encode() + encode(item) + b"\n")
        process.stdin.close()
        count = process.stdout.read()
    if process.returncode != 0:
        raise ClusterError("could not load objects into etcd; see its output above")
    return int(count)


def registry_key(item: JsonObject) -> str:
    """The key under which the API server looks for the object."""
    kind, metadata = item["kind"], item["metadata"]
    own_namespace = metadata.get("namespace")
    name = f"{own_namespace}/{metadata['name']}" if own_namespace else metadata["name"]
    return f"/registry/{REGISTRY_NAMES[kind]}/{name}"
