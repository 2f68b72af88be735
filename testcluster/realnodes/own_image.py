"""The image of the rescheduler on real nodes, built from this folder."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from secrets import token_hex

from testcluster.cluster import TestCluster

ROOT = Path(__file__).parent.parent.parent
OWN_IMAGE = f"docker.io/library/rescheduler:{version('kube-rescheduler')}"
"""The image of the manifests that are shipped, with the registry that containerd adds."""
# Nothing is pulled, and the parts that stay the same are built once.
BUILD_OPTIONS = ("--builder", "buildah", "--kept-base")


class OwnImageError(Exception):
    """The image cannot be built; the message says why, and what to do."""


def write_own_image(archive: Path) -> None:
    """Build the image, and write it as an archive, as `docker save` does."""
    # Others may build one of the same version at the same time.
    tag = f"rescheduler:testcluster-{token_hex(4)}"
    run(sys.executable, "-m", "image", "--tag", tag, *BUILD_OPTIONS)
    try:
        run("buildah", "push", "--quiet", tag, f"docker-archive:{archive}:{OWN_IMAGE}")
    finally:
        run("buildah", "rmi", tag)


def import_own_image(cluster: TestCluster) -> None:
    """Build the image, and give it to all real nodes."""
    archive = cluster.layout.directory / "rescheduler.tar"
    write_own_image(archive)
    cluster.nodes.import_images(archive)
    archive.unlink()


def run(*command: str) -> None:
    """Run a command; raises with its error if it fails."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OwnImageError(done.stderr.strip() or done.stdout.strip())
