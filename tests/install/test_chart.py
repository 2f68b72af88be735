"""For every combination of switches, the chart gives what the code declares, and it is accepted."""

import itertools
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from rescheduler.errors import SettingsError
from rescheduler.files.policy_file import read_policy
from rescheduler.install.manifests import manifests
from rescheduler.install.monitoring.monitoring_objects import DASHBOARD_LABEL
from rescheduler.install.options import BOOLEAN, DEFAULTS, OPTIONS, PROJECT_VERSION, nested
from rescheduler.settings import Options as StrategyOptions
from testcluster import TestCluster
from testcluster.waiting import wait_until
from tests.install.cert_manager import serve_cert_manager_kinds
from tests.install.helm import Helm, Objects, objects_in, settings
from tests.install.installs import (
    IMAGE,
    MONITORING,
    SCHEDULER,
    leftovers,
    wait_until_kinds_are_served,
)
from tests.install.prometheus_operator import serve_operator_kinds
from tests.install.test_files import CHART, DEPLOY
from tests.install.test_kustomize import by_identity

NAMESPACE = "default"
RELEASE_NAMESPACE = "rescheduler"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{RELEASE_NAMESPACE}/deployments/rescheduler"
INDEPENDENT = (
    "networkPolicy.enabled",
    "crds.install",
    "crds.keep",
    "monitoring.annotations",
    "serviceAccount.create",
    "admissionPolicies.enabled",
    *MONITORING,
)
"""Each of them adds objects that no other switch changes, so they are switched together."""
SWITCHES = [
    option.path for option in OPTIONS if option.schema == BOOLEAN and option.path not in INDEPENDENT
]
COMBINATIONS = [
    {
        **IMAGE,
        **SCHEDULER,
        **dict(zip(SWITCHES, values, strict=True)),
        **dict.fromkeys(INDEPENDENT, others),
    }
    for *values, others in itertools.product([True, False], repeat=len(SWITCHES) + 1)
]
OTHER_VALUES: dict[str, Any] = {
    "image.repository": "registry.example:5000/tools/rescheduler",
    "image.tag": "1.2.3",
    **SCHEDULER,
    "scheduler.image.digest": "sha256:abc",
    "imagePullSecrets": [{"name": "pull"}],
    "replicas": 3,
    "policy": {
        "cpuThreshold": 70.5,
        "enabledStrategies": ["NodeMaintenance"],
        "excludedNamespaces": ["vault"],
    },
    "admissionPolicies.enabled": True,
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "infra", "operator": "Exists"}],
    "resources": {"limits": {"memory": "1Gi"}},
    "extraArgs": ["--log-format=json", "--trace-endpoint=http://collector.$(ZONE):4318"],
    "extraEnv": [{"name": "ZONE", "value": "a"}],
    "scheduler.extraArgs": ["--v=4"],
    "networkPolicy.extraEgress": [{"ports": [{"port": 4318, "protocol": "TCP"}]}],
    "networkPolicy.apiServerPorts": [8443],
    "networkPolicy.apiServerCidrs": ["10.0.0.0/28", "fd00::/120"],
    "networkPolicy.dnsPeers": [{"ipBlock": {"cidr": "169.254.20.10/32"}}],
    "podSecurityContext": {"fsGroup": 1000},
    "scheduler.podSecurityContext": {"runAsUser": None},
    "securityContext": {"runAsUser": 1000},
    "affinity": {"nodeAffinity": {}},
    "scheduler.affinity": {"podAffinity": {}},
    "topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1}],
    "scheduler.topologySpreadConstraints": [{"topologyKey": "rack", "maxSkew": 1}],
    "podLabels": {"team": "ops", "app.kubernetes.io/name": "mine"},
    "podAnnotations": {"prometheus.io/scrape": "false"},
    "deploymentLabels": {"tier": "infra"},
    "deploymentAnnotations": {"reload": "yes"},
    "serviceAccount.name": "mover",
    "serviceAccount.annotations": {"cloud.example/role": "mover"},
    "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
    "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ca"}],
    "priorityClass.value": 2_000_000,
    "networkPolicy.monitoringFrom": [{"namespaceSelector": {"matchLabels": {"team": "ops"}}}],
    "monitoring.alerts": True,
    "monitoring.labels": {"release": "prometheus"},
    "crds.install": False,
}


def merged(default: Any, value: Any) -> Any:
    """What Helm makes of a value and its default."""
    if not isinstance(default, dict):
        return value
    found = default | {key: merged(default.get(key), inner) for key, inner in value.items()}
    return {key: inner for key, inner in found.items() if inner is not None}


@pytest.fixture(scope="module")
def helm(helm_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(helm_binary, tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="module")
def rendered(helm: Helm) -> list[Objects]:
    """The objects of every combination of switches. Helm is a process each time."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [*pool.map(lambda values: helm.template(values, NAMESPACE), COMBINATIONS)]


def test_the_chart_has_nothing_to_complain_about(helm: Helm) -> None:
    assert "1 chart(s) linted, 0 chart(s) failed" in helm("lint", "--strict", str(CHART))


RELEASE_LABELS = {"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "helm.sh/chart"}


def without_release_labels(objects: Objects) -> Objects:
    """The objects without what Helm adds to labels of objects, and to nothing else."""
    for each in objects:
        labels = each["metadata"].get("labels", {})
        if each["kind"] != "CustomResourceDefinition" and DASHBOARD_LABEL not in labels:
            assert labels.keys() >= RELEASE_LABELS, each
        each["metadata"]["labels"] = {
            key: value for key, value in labels.items() if key not in RELEASE_LABELS
        }
        if not labels:
            del each["metadata"]["labels"]
    return objects


def as_the_code_declares(values: dict[str, Any]) -> Objects:
    """The objects for these values; the namespace is not part of a release."""
    # Helm merges mappings with their defaults.
    whole = {path: merged(DEFAULTS[path], value) for path, value in values.items()}
    return [each for each in manifests(whole, NAMESPACE) if each["kind"] != "Namespace"]


def test_the_chart_gives_what_the_code_declares_for_every_combination_of_switches(
    rendered: list[Objects],
) -> None:
    for values, objects in zip(COMBINATIONS, rendered, strict=True):
        found = by_identity(without_release_labels(json.loads(json.dumps(objects))))
        assert found == by_identity(as_the_code_declares(values)), values


def test_the_chart_gives_what_the_code_declares_for_other_values(helm: Helm) -> None:
    found = helm.template(OTHER_VALUES, NAMESPACE)
    assert by_identity(without_release_labels(found)) == by_identity(
        as_the_code_declares(OTHER_VALUES)
    )


def test_an_image_is_asked_for_before_anything_is_installed(helm: Helm) -> None:
    missing = {
        "scheduler.image": IMAGE | SCHEDULER | {"scheduler.image.repository": ""},
        "image": {},
    }
    for path, values in missing.items():
        done = helm.run("template", "test", str(CHART), *settings(values))
        assert done.returncode != 0
        assert f"{path}.repository is not set: name an image of" in done.stderr


@pytest.mark.parametrize("version", ["v1.33.5", "v1.33.5+k3s1", "v1.33.5-gke.1080000"])
def test_the_second_scheduler_has_the_version_of_the_cluster(helm: Helm, version: str) -> None:
    values = IMAGE | SCHEDULER | {"scheduler.image.tag": ""}
    command = ("template", "test", str(CHART), f"--kube-version={version}", *settings(values))
    images = [
        container["image"]
        for each in objects_in(helm(*command))
        if each["kind"] == "Deployment"
        for container in each["spec"]["template"]["spec"]["containers"]
    ]
    assert "registry.example/kube-scheduler:v1.33.5" in images


def test_the_server_accepts_every_combination_of_switches(
    cluster: TestCluster, rendered: list[Objects]
) -> None:
    """Strict, so it refuses fields that it does not know. What is the same is sent only once."""
    distinct = dict.fromkeys(json.dumps(each) for objects in rendered for each in objects)
    names = {identity for objects in rendered for identity in by_identity(objects)}
    assert len(distinct) > len(names), "the switches change some objects"
    serve_cert_manager_kinds(cluster)
    serve_operator_kinds(cluster)
    text = "\n---\n".join(distinct)
    options = ("--dry-run=server", "--validate=strict")
    output = cluster.kubectl("apply", *options, "-f", "-", input=text)
    assert output.count("(server dry run)") == len(distinct)


@pytest.fixture
def parent_chart(tmp_path: Path) -> Path:
    """A chart of somebody else that has ours as a dependency."""
    parent = tmp_path / "platform"
    dependency = {
        "name": "rescheduler",
        "version": PROJECT_VERSION,
        "condition": "rescheduler.enabled",
        "tags": ["scheduling"],
    }
    chart = {"apiVersion": "v2", "name": "platform", "version": "1.0.0"}
    values = {"global": {"registry": "x"}, "rescheduler": {"enabled": True, **nested(IMAGE)}}
    shutil.copytree(CHART, parent / "charts" / "rescheduler")
    (parent / "Chart.yaml").write_text(yaml.safe_dump(chart | {"dependencies": [dependency]}))
    (parent / "values.yaml").write_text(yaml.safe_dump(values))
    return parent


def test_the_chart_can_be_a_dependency_of_another(
    audited: TestCluster, helm_binary: Path, parent_chart: Path, tmp_path: Path
) -> None:
    helm = Helm(helm_binary, tmp_path, audited.kubeconfig)
    found = objects_in(helm("template", "test", str(parent_chart), "--namespace", NAMESPACE))
    assert by_identity(without_release_labels(found)) == by_identity(as_the_code_declares(IMAGE))
    off = helm("template", "test", str(parent_chart), "--set", "rescheduler.enabled=false")
    assert objects_in(off) == []

    place = ("--namespace", RELEASE_NAMESPACE)
    helm("install", "platform", str(parent_chart), *place, "--create-namespace")
    assert audited.client.exists(DEPLOYMENT)
    wait_until_kinds_are_served(audited)
    helm("uninstall", "platform", *place, "--wait")
    audited.client.delete(f"/api/v1/namespaces/{RELEASE_NAMESPACE}")
    wait_until(lambda: leftovers(audited) == [], what="nothing is left")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("replicas=0", "replicas"),
        ("dryrun=true", "dryrun"),
        ("networkPolicy.apiServerPorts=[70000]", "apiServerPorts"),
        ('image.pullPolicy="Sometimes"', "pullPolicy"),
        ('extraArgs="--log-format=json"', "extraArgs"),
    ],
)
def test_a_wrong_value_is_refused_by_name(helm: Helm, value: str, problem: str) -> None:
    done = helm.run("template", "test", str(CHART), f"--set-json={value}", *settings(IMAGE))
    assert done.returncode != 0
    assert problem in done.stderr


WRONG_POLICIES = {
    '{"foo": "bar"}': "foo",
    '{"maxReschedulePods": -1}': "maxReschedulePods",
    '{"cpuThreshold": 101}': "cpuThreshold",
    '{"reschedulingInterval": "0s"}': "reschedulingInterval",
    '{"reschedulingInterval": 30}': "reschedulingInterval",
    '{"minPodAge": "soon"}': "minPodAge",
    '{"migration": {"maxInFlight": 20, "maxInflight": 3}}': "maxInflight",
    '{"maxMovesPerNode": "200%"}': "maxMovesPerNode",
    '{"enabledStrategies": ["loadBalancing"]}': "enabledStrategies",
    '{"logLevel": "loud"}': "logLevel",
    '{"nodeMaintenance": {"maintenanceLabel": "a!=b"}}': "maintenanceLabel",
    '{"excludedPodSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}': "operator",
}
RIGHT_POLICIES = [
    {"enabledStrategies": ["BinPacking"], "binPacking": {"density": 3}},
    {"reschedulingInterval": "1m30.5s", "minPodAge": "0s", "maxMovesPerNode": "12.5%"},
    {"excludedPodSelector": "app=web,tier in (a,b)", "maxMovesPerNamespace": 3},
    {"excludedPodSelector": {"matchLabels": {"app": "web"}}, "logLevel": "debug"},
    {"defragmentation": {"shape": {"cpu": 16, "memory": "64Gi"}}, "kind": "ReschedulerArgs"},
    {"migration": {"temporaryBudget": {"maxUnavailable": "25%"}, "leaveServices": "0s"}},
]


class BinPacking:
    """A strategy of a plugin."""

    class Options(StrategyOptions, frozen=True):
        density: int = 1


def test_a_wrong_policy_is_refused_at_the_install_as_the_program_would(helm: Helm) -> None:
    for text, field in WRONG_POLICIES.items():
        with pytest.raises(SettingsError, match=field):
            read_policy("policy", text.encode())
        done = helm.run(
            "template", "test", str(CHART), *settings({**IMAGE, "policy": json.loads(text)})
        )
        assert done.returncode != 0, text
        assert "/policy" in done.stderr
        assert field in done.stderr


def test_what_the_program_accepts_as_a_policy_is_accepted_at_the_install(helm: Helm) -> None:
    examples = (DEPLOY / "examples" / "policies").iterdir()
    for policy in [*RIGHT_POLICIES, *(yaml.safe_load(file.read_text()) for file in examples)]:
        read_policy("policy", json.dumps(policy).encode(), {"BinPacking": BinPacking})
        assert helm.template({**IMAGE, "policy": policy}, NAMESPACE)


def test_a_release_is_installed_changed_and_removed(
    audited: TestCluster, helm_binary: Path, tmp_path: Path
) -> None:
    helm = Helm(helm_binary, tmp_path, audited.kubeconfig)
    helm(
        "install",
        "mover",
        str(CHART),
        "--namespace",
        RELEASE_NAMESPACE,
        "--create-namespace",
        *settings(IMAGE),
    )
    client = audited.client
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/rescheduler-move"
    assert client.exists(role)
    # What the controller writes into objects of the chart is kept.
    secret = f"/api/v1/namespaces/{RELEASE_NAMESPACE}/secrets/rescheduler-certificates"
    client.patch(secret, {"data": {"tls.crt": "eA=="}})
    change = ("upgrade", "mover", str(CHART), "--namespace", RELEASE_NAMESPACE, "--reuse-values")
    helm(*change, "--set", "replicas=3")
    assert client.get(secret)["data"] == {"tls.crt": "eA=="}
    # Neither the value of a PriorityClass nor a selector can be changed.
    helm(*change, "--set", "priorityClass.value=2000000", "--set", "podLabels.team=ops")
    pods = client.get(DEPLOYMENT)["spec"]["template"]
    assert pods["spec"]["priorityClassName"] == "rescheduler-2000000"
    assert not client.exists("/apis/scheduling.k8s.io/v1/priorityclasses/rescheduler-1000000")
    notes = helm(*change, "--set", "dryRun=true")
    assert "It only plans (dryRun: true)" in notes
    assert not client.exists(role)
    wait_until_kinds_are_served(audited)
    helm("uninstall", "mover", "--namespace", RELEASE_NAMESPACE, "--wait")
    client.delete(f"/api/v1/namespaces/{RELEASE_NAMESPACE}")
    wait_until(lambda: leftovers(audited) == [], what="nothing is left")
