"""The image of a second kube-scheduler: the cluster's own, under its own name."""

import re
import subprocess
from pathlib import Path

from testcluster.cluster import TestCluster
from testcluster.realnodes.images import Image, write_archive

REPOSITORY = "docker.io/library/kube-scheduler"
PROGRAM = "/usr/local/bin/kube-scheduler"
LIBRARY = re.compile(r"(/\S+) \(0x")


def import_scheduler_image(cluster: TestCluster) -> None:
    """Give all nodes the image; its tag is the version of the cluster."""
    version = cluster.client.get("/version")["gitVersion"]
    archive = cluster.layout.directory / "kube-scheduler.tar"
    programs = {PROGRAM: cluster.servers, **libraries_of(cluster.servers)}
    write_archive(archive, programs, Image(f"{REPOSITORY}:{version}", (PROGRAM,)))
    cluster.nodes.import_images(archive)
    archive.unlink()


def libraries_of(program: Path) -> dict[str, Path]:
    """The libraries that it is linked to, by their paths; none if it was built without C."""
    done = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    return {path: Path(path) for path in LIBRARY.findall(done.stdout)}
