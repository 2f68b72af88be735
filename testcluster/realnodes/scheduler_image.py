"""The image of a second kube-scheduler: that of the control plane, under its own name."""

import re
import subprocess
from pathlib import Path

from testcluster.build import KUBERNETES_VERSION
from testcluster.cluster import TestCluster
from testcluster.realnodes.images import Image, write_archive

SCHEDULER_IMAGE = f"docker.io/library/kube-scheduler:{KUBERNETES_VERSION}"
PROGRAM = "/usr/local/bin/kube-scheduler"
LIBRARY = re.compile(r"(/\S+) \(0x")


def import_scheduler_image(cluster: TestCluster) -> None:
    """Give all nodes the image, with the program that the cluster runs."""
    archive = cluster.layout.directory / "kube-scheduler.tar"
    programs = {PROGRAM: cluster.binary, **libraries_of(cluster.binary)}
    write_archive(archive, programs, Image(SCHEDULER_IMAGE, (PROGRAM,)))
    cluster.nodes.import_images(archive)
    archive.unlink()


def libraries_of(program: Path) -> dict[str, Path]:
    """The libraries that it is linked to, by their paths; none where no C compiler was."""
    done = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    return {path: Path(path) for path in LIBRARY.findall(done.stdout)}
