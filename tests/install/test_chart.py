"""The chart gives what the code declares, for every combination of switches.

Helm takes minutes to build, so these tests are skipped until `make test-chart` has built it.
"""

import itertools
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from rescheduler.install.manifests import manifests
from rescheduler.install.options import DEFAULTS
from testcluster import TestCluster
from testcluster.build import built_program, helm_program
from testcluster.waiting import wait_until
from tests.install.installs import leftovers
from tests.install.test_files import CHART
from tests.install.test_kustomize import by_identity

NAMESPACE = "rescheduler"
SWITCHES = ("dryRun", "extender.enabled", "scheduler.enabled", "networkPolicy.enabled")
COMBINATIONS = [
    dict(zip(SWITCHES, values, strict=True))
    for values in itertools.product([True, False], repeat=len(SWITCHES))
]
OTHER_VALUES: dict[str, Any] = {
    "image.repository": "registry.example:5000/tools/rescheduler",
    "image.tag": "1.2.3",
    "imagePullSecrets": [{"name": "pull"}],
    "replicas": 3,
    "policy": {"cpuThreshold": 70.5, "enabledStrategies": ["NodeMaintenance"]},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "infra", "operator": "Exists"}],
    "resources": {"limits": {"memory": "1Gi"}},
    "networkPolicy.apiServerPorts": [8443],
    "crds.install": False,
}


class Helm:
    """Helm, with nothing of the user's own configuration."""

    def __init__(self, binary: Path, directory: Path, kubeconfig: Path | None = None) -> None:
        self.binary = binary
        places = ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")
        own = {place: str(directory / place) for place in places}
        config = {"KUBECONFIG": str(kubeconfig or directory / "none")}
        self.environment = {**os.environ, **own, **config}

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [self.binary, *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def __call__(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def template(self, values: dict[str, Any]) -> list[dict[str, Any]]:
        """The objects that the chart gives with these values."""
        settings = [f"--set-json={path}={json.dumps(value)}" for path, value in values.items()]
        output = self("template", "test", str(CHART), "--namespace", NAMESPACE, *settings)
        return [each for each in yaml.safe_load_all(output) if each is not None]


def merged(default: Any, value: Any) -> Any:
    """What Helm makes of a value and its default."""
    if not isinstance(default, dict):
        return value
    return default | {key: merged(default.get(key), inner) for key, inner in value.items()}


@pytest.fixture(scope="session")
def helm_binary(binary: Path) -> Path:
    """Helm. It asks for the cluster's binary, because without a Go toolchain there is neither."""
    built = built_program(helm_program())
    if built is None:
        pytest.skip("Helm is not built; `make test-chart` builds it")
    return built


@pytest.fixture
def helm(helm_binary: Path, tmp_path: Path) -> Helm:
    return Helm(helm_binary, tmp_path)


def test_the_chart_has_nothing_to_complain_about(helm: Helm) -> None:
    assert "1 chart(s) linted, 0 chart(s) failed" in helm("lint", "--strict", str(CHART))


@pytest.mark.parametrize(
    "values",
    [*COMBINATIONS, OTHER_VALUES],
    ids=[*("-".join(map(str, values.values())) for values in COMBINATIONS), "other values"],
)
def test_the_chart_gives_what_the_code_declares(helm: Helm, values: dict[str, Any]) -> None:
    # Helm merges mappings with their defaults.
    whole = {path: merged(DEFAULTS[path], value) for path, value in values.items()}
    expected = [each for each in manifests(whole, NAMESPACE) if each["kind"] != "Namespace"]
    assert by_identity(helm.template(values)) == by_identity(expected)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("replicas=0", "replicas"),
        ("dryrun=true", "dryrun"),
        ("networkPolicy.apiServerPorts=[70000]", "apiServerPorts"),
        ('image.pullPolicy="Sometimes"', "pullPolicy"),
    ],
)
def test_a_wrong_value_is_refused_by_name(helm: Helm, value: str, problem: str) -> None:
    done = helm.run("template", "test", str(CHART), f"--set-json={value}")
    assert done.returncode != 0
    assert problem in done.stderr


def test_a_release_is_installed_changed_and_removed(
    audited: TestCluster, helm_binary: Path, tmp_path: Path
) -> None:
    helm = Helm(helm_binary, tmp_path, audited.kubeconfig)
    helm("install", "mover", str(CHART), "--namespace", NAMESPACE, "--create-namespace")
    client = audited.client
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/rescheduler-move"
    assert client.exists(role)
    # What the controller writes into objects of the chart is kept.
    secret = f"/api/v1/namespaces/{NAMESPACE}/secrets/rescheduler-certificates"
    client.patch(secret, {"data": {"tls.crt": "eA=="}})
    change = ("upgrade", "mover", str(CHART), "--namespace", NAMESPACE, "--reuse-values")
    helm(*change, "--set", "replicas=3")
    assert client.get(secret)["data"] == {"tls.crt": "eA=="}
    notes = helm(*change, "--set", "dryRun=true")
    assert "It only plans (dryRun: true)" in notes
    assert not client.exists(role)
    helm("uninstall", "mover", "--namespace", NAMESPACE, "--wait")
    client.delete(f"/api/v1/namespaces/{NAMESPACE}")
    wait_until(lambda: leftovers(audited) == [], what="nothing is left")
