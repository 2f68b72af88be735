"""Installs the rescheduler on real nodes, as `kubectl apply -k deploy/` does."""

import shutil
from pathlib import Path

import yaml

from image.builders import ROOT
from testcluster.client import JsonObject
from testcluster.cluster import TestCluster
from testcluster.image import ARCHIVED_NAME, ensure_image

NAMESPACE = "rescheduler"
DEPLOYMENT = "deployment/rescheduler"


def install(cluster: TestCluster) -> None:
    """Build the image, install it with what is shipped, and wait until all replicas are Ready."""
    cluster.nodes.import_images(ensure_image())
    directory = cluster.layout.directory / "deploy"
    write_kustomization(directory)
    cluster.kubectl("apply", "-k", str(directory))
    rollout = ("rollout", "status", DEPLOYMENT, "--timeout=120s")
    cluster.kubectl("--namespace", NAMESPACE, *rollout)


def write_kustomization(directory: Path, **more: list[JsonObject]) -> None:
    """Write `deploy/` with the image that the nodes have, and perhaps with more fields."""
    shutil.copytree(ROOT / "deploy", directory)
    file = directory / "kustomization.yaml"
    content = yaml.safe_load(file.read_text())
    (ours,) = (image for image in content["images"] if image["name"] == "rescheduler")
    ours["newName"], _, ours["newTag"] = ARCHIVED_NAME.rpartition(":")
    file.write_text(yaml.safe_dump({**content, **more}))
