"""Install what is shipped on real nodes: how long it takes, how large it is, what it needs.

Memory is what counts against a pod's limit and cannot be dropped: what its cgroup says it uses,
without the inactive pages of files (`memory.current` or `memory.usage_in_bytes`, `inactive_file`).
"""

import gzip
import json
import shutil
import sys
import tarfile
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks.figures import Figure, report
from testcluster import TestCluster
from testcluster.client import JsonObject
from testcluster.image import ensure_image, missing_image_tool
from testcluster.realnodes import cgroups
from testcluster.realnodes.installing import NAMESPACE, write_kustomization
from testcluster.realnodes.requirements import missing_requirement
from testcluster.waiting import wait_until

MEGABYTE = 1e6
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/rescheduler"
# Until caches are filled, and what starting left behind is freed.
SETTLE_SECONDS = 60.0
# By the version of cgroups: what a cgroup uses, and the name of what is left out of it.
USAGE_FILES = {
    "memory.current": "inactive_file",
    "memory.usage_in_bytes": "total_inactive_file",
}


def main() -> None:
    if reason := missing_requirement() or missing_image_tool():
        print(f"    left out: {reason}", file=sys.stderr)
        report([])
        return
    image = ensure_image()
    with TestCluster(real_nodes=3, kwok=False) as cluster:
        cluster.nodes.import_images(image)
        report([*sizes(image), *times(cluster), *memory(cluster)])


def sizes(archive: Path) -> list[Figure]:
    """How large the image is: its layers, as a registry has them, and the files in them."""
    with tempfile.TemporaryFile() as compressed, archive.open("rb") as plain:
        with gzip.GzipFile(fileobj=compressed, mode="wb", compresslevel=6) as packed:
            shutil.copyfileobj(plain, packed)
        compressed_bytes = compressed.tell()
    return [
        Figure("install: image, compressed", compressed_bytes / MEGABYTE, "MB"),
        Figure("install: image, unpacked", unpacked_bytes(archive) / MEGABYTE, "MB"),
    ]


def unpacked_bytes(archive: Path) -> int:
    """The sizes of all files in all layers."""
    total = 0
    with tarfile.open(archive) as image:
        manifest = image.extractfile("manifest.json")
        assert manifest is not None
        for name in json.load(manifest)[0]["Layers"]:
            with tarfile.open(fileobj=image.extractfile(name)) as layer:
                total += sum(entry.size for entry in layer)
    return total


def times(cluster: TestCluster) -> list[Figure]:
    """How long it takes from `kubectl apply` until all replicas are Ready, and one has planned."""
    directory = cluster.layout.directory / "deploy"
    write_kustomization(directory)
    started = time.perf_counter()
    cluster.kubectl("apply", "-k", str(directory))
    cluster.kubectl("-n", NAMESPACE, "rollout", "status", "deployment", "--timeout=120s")
    ready = time.perf_counter() - started
    wait_until(partial(has_planned, cluster), what="a first round")
    planned = time.perf_counter() - started
    return [
        Figure("install: from apply to all Ready", ready, "s", 60),
        Figure("install: from apply to the first round", planned, "s"),
    ]


def has_planned(cluster: TestCluster) -> bool:
    """Whether a replica has finished a round."""
    options = ("--selector=app.kubernetes.io/name=rescheduler", "--tail=-1")
    return "Finished a round" in cluster.kubectl("-n", NAMESPACE, "logs", *options)


def memory(cluster: TestCluster) -> list[Figure]:
    """How much the pods use: the one that leads, and the one that stands by."""
    time.sleep(SETTLE_SECONDS)
    holder = str(cluster.client.get(LEASE)["spec"]["holderIdentity"])
    pods = cluster.client.get(PODS)["items"]
    leads = {holder.startswith(f"{pod['metadata']['name']}_"): pod for pod in pods}
    return [
        Figure(f"install: memory of the {title}", used_bytes(cluster, pod) / MEGABYTE, "MB")
        for title, pod in (("leader", leads[True]), ("standby", leads[False]))
    ]


def used_bytes(cluster: TestCluster, pod: JsonObject) -> int:
    """What a pod uses, all its containers together."""
    node = Path(cluster.nodes.cgroup) / pod["spec"]["nodeName"]
    for hierarchy in cgroups.hierarchies():
        for name, left_out in USAGE_FILES.items():
            for file in (hierarchy.root / node).glob(f"**/pod{pod['metadata']['uid']}/{name}"):
                lines = file.with_name("memory.stat").read_text().splitlines()
                counts = dict(line.split() for line in lines)
                return int(file.read_text()) - int(counts[left_out])
    raise AssertionError(f"no cgroup of {pod['metadata']['name']}")


if __name__ == "__main__":
    main()
