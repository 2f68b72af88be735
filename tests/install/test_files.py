"""What is shipped is what the code declares."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rescheduler.files.policy_file import read_policy
from rescheduler.install.chart import chart_files, values_schema
from rescheduler.install.kustomize import kustomize_files
from rescheduler.install.manifests import manifests
from rescheduler.install.options import DEFAULTS, OPTIONS, nested
from rescheduler.install.people_rights import PEOPLE_ROLES
from rescheduler.install.rights import PLANNING, ROLES
from rescheduler.settings import Policy
from tests.install.installs import INSTALLS

ROOT = Path(__file__).parent.parent.parent
DEPLOY, CHART = ROOT / "deploy", ROOT / "charts" / "rescheduler"
READING = {"get", "list", "watch"}


@pytest.mark.parametrize(
    ("directory", "files"), [(DEPLOY, kustomize_files()), (CHART, chart_files())]
)
def test_shipped_files_are_those_that_the_code_writes(
    directory: Path, files: dict[str, str]
) -> None:
    for name, content in files.items():
        assert (directory / name).read_text() == content, f"{name}: run `make manifests`"


def test_nothing_else_is_shipped() -> None:
    written = {CHART / name for name in chart_files()}
    assert {path for path in CHART.rglob("*") if path.is_file()} == written
    files = {path.relative_to(DEPLOY) for path in DEPLOY.rglob("*.*") if path.is_file()}
    shipped = {str(path) for path in files if path.parts[0] != "examples"}
    assert shipped == kustomize_files().keys()


def rules_of(objects: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [rule for each in objects if "rules" in each for rule in each["rules"]]


def test_a_read_only_install_has_no_right_to_write() -> None:
    people = {role.name for role in PEOPLE_ROLES}
    objects = manifests(INSTALLS["read-only"])
    ours = [each for each in objects if each["metadata"]["name"] not in people]
    assert {verb for rule in rules_of(ours) for verb in rule["verbs"]} == READING


@pytest.mark.parametrize("install", INSTALLS)
def test_no_role_has_wildcards_and_secrets_are_named(install: str) -> None:
    for rule in rules_of(manifests(INSTALLS[install])):
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
        is_create = rule["resources"] == ["leases"] and rule["verbs"] == ["create"]
        if set(rule["resources"]) & {"secrets", "leases", "mutatingwebhookconfigurations"}:
            # RBAC cannot limit `create` to names.
            assert is_create or rule["resourceNames"]


@pytest.mark.parametrize("install", INSTALLS)
def test_no_lease_is_shipped(install: str) -> None:
    """Argo CD installs none; and whoever replaces a release would delete the one of its leader."""
    assert "Lease" not in {each["kind"] for each in manifests(INSTALLS[install])}


def test_every_right_has_a_reason() -> None:
    roles = (*ROLES, *PEOPLE_ROLES)
    assert all(right.reason for role in roles for right in role.rights)
    assert PLANNING.needs == ""


def test_the_namespace_admits_only_restricted_pods() -> None:
    namespace = manifests(INSTALLS["default"])[0]
    levels = {
        key.partition("/")[2]: level
        for key, level in namespace["metadata"]["labels"].items()
        if key.startswith("pod-security.kubernetes.io/")
    }
    assert levels == dict.fromkeys(["enforce", "warn", "audit"], "restricted")


@pytest.mark.parametrize("install", INSTALLS)
def test_every_pod_is_restricted(install: str) -> None:
    deployments = [each for each in manifests(INSTALLS[install]) if each["kind"] == "Deployment"]
    assert deployments
    for deployment in deployments:
        pod = deployment["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"]
        # OpenShift refuses these; the image of kube-scheduler names no user, so its pod must.
        chosen = {"runAsUser", "runAsGroup", "fsGroup"} & pod["securityContext"].keys()
        is_ours = deployment["metadata"]["name"] == "rescheduler"
        assert chosen == (set() if is_ours else {"runAsUser"})
        assert not any("emptyDir" in volume for volume in pod["volumes"])
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"]
            assert security["capabilities"] == {"drop": ["ALL"]}


def test_the_shipped_policy_is_the_default_one_with_maintenance() -> None:
    (config,) = yaml.safe_load_all((DEPLOY / "base" / "config.yaml").read_text())
    policy = read_policy("config.yaml", config["data"]["policy.yaml"].encode())
    strategies = (*Policy().enabled_strategies, "NodeMaintenance")
    assert policy == Policy(enabled_strategies=strategies)


@pytest.mark.parametrize(
    "file", sorted((DEPLOY / "examples" / "policies").iterdir()), ids=lambda file: file.name
)
def test_example_policies_can_be_used(file: Path) -> None:
    policy = read_policy(file.name, file.read_bytes())
    assert policy != Policy()
    assert f"deploy/examples/policies/{file.name}" in file.read_text()


def test_values_of_the_chart_are_the_defaults_and_each_has_a_schema() -> None:
    assert yaml.safe_load(chart_files()["values.yaml"]) == nested(DEFAULTS)
    schema = values_schema()
    for option in OPTIONS:
        place = schema
        for name in option.path.split("."):
            assert place["additionalProperties"] is False or name in place
            place = place["properties"][name]
        assert place["description"] == option.description
