"""The ways to install what is shipped, each as an operator does it."""

import shutil
from pathlib import Path
from typing import Any

import yaml

from rescheduler.install.options import PROJECT_VERSION
from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import namespace
from testcluster.image import ARCHIVED_NAME
from testcluster.realnodes.installing import NAMESPACE, write_kustomization
from tests.install.helm import Helm, objects_in, settings
from tests.install.test_files import CHART

RELEASE = "mover"
NEXT_VERSION, NEXT_DESCRIPTION = "99.0.0", "Which pod is moved"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
"""On a namespace: what its pods must not be able to do, as on the one of `deploy/`."""
# Nothing is pulled, because the nodes have it.
IMAGE, _, _ = ARCHIVED_NAME.rpartition(":")
OF_CHART: dict[str, Any] = {"image.repository": IMAGE}


class Kustomization:
    """`kubectl apply -k`, after the only file to change was changed."""

    moves = True

    def __init__(self, cluster: TestCluster, directory: Path, *patches: dict[str, Any]) -> None:
        self._cluster = cluster
        self._directory = directory / "deploy"
        write_kustomization(self._directory, patches=[*patches])

    def kinds(self) -> set[str]:
        """The kinds of the objects that are applied."""
        return {each["kind"] for each in objects_in(self._run("kustomize"))}

    def install(self) -> None:
        self._run("apply", "-k")

    def remove(self) -> None:
        self._run("delete", "--wait", "--timeout=300s", "-k")

    def _run(self, *command: str) -> str:
        return self._cluster.kubectl(*command, str(self._directory))


class Release:
    """A release of the chart, in a namespace made for it."""

    def __init__(
        self, cluster: TestCluster, helm: Helm, values: dict[str, Any], chart: Path = CHART
    ) -> None:
        self._cluster = cluster
        self._helm = helm
        self._values = values
        self.moves = not values.get("dryRun", False)
        self._chart = chart

    def install(self) -> None:
        apply(self._cluster, namespace(NAMESPACE, RESTRICTED))
        self._run("install", self._chart)

    def upgrade(self, chart: Path) -> None:
        """Upgrade to another version of the chart, without waiting for the pods."""
        self._run("upgrade", chart)

    def remove(self) -> None:
        self._helm("uninstall", RELEASE, "--namespace", NAMESPACE, "--wait")
        self._cluster.kubectl("delete", "namespace", NAMESPACE)

    def _run(self, command: str, chart: Path) -> None:
        self._helm(command, RELEASE, str(chart), "-n", NAMESPACE, *settings(self._values))


Way = Kustomization | Release


def next_chart(directory: Path) -> Path:
    """Ours with another version, so of another image, and with another text in a definition."""
    chart = directory / "next"
    shutil.copytree(CHART, chart)
    for name, old, new in (
        ("Chart.yaml", PROJECT_VERSION, NEXT_VERSION),
        ("templates/crds.yaml", "The pod to move", NEXT_DESCRIPTION),
    ):
        text = (chart / name).read_text()
        assert old in text
        (chart / name).write_text(text.replace(old, new))
    return chart


def parent_chart(helm: Helm, directory: Path) -> Path:
    """A chart of somebody else that has ours as a dependency, and values for all its charts."""
    chart = directory / "platform"
    chart.mkdir()
    ours = yaml.safe_load((CHART / "Chart.yaml").read_text())
    dependency = {
        "name": ours["name"],
        "version": ours["version"],
        "repository": f"file://{CHART}",
        "condition": f"{ours['name']}.enabled",
    }
    described = {
        "apiVersion": "v2",
        "name": "platform",
        "version": "1.0.0",
        "dependencies": [dependency],
    }
    (chart / "Chart.yaml").write_text(yaml.safe_dump(described))
    (chart / "values.yaml").write_text(yaml.safe_dump({"global": {"team": "platform"}}))
    helm("dependency", "update", str(chart))
    return chart
