"""`kubectl apply -k deploy/` installs what the code declares, in any namespace."""

import json
import re
import shutil
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from rescheduler.install.kustomize import MISSING_IMAGE
from rescheduler.install.manifests import manifests
from rescheduler.install.options import DEFAULTS
from testcluster import TestCluster
from testcluster.cluster import ClusterError
from tests.install.installs import ADMISSION_POLICIES, IMAGE, INSTALLS, MONITORING, SCHEDULER
from tests.install.prometheus_operator import serve_operator_kinds
from tests.install.test_files import DEPLOY, ROOT


def by_identity(objects: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Objects by kind and name; files in ConfigMaps are compared as what they say."""
    found = {(each["kind"], each["metadata"]["name"]): each for each in objects}
    assert len(found) == len(objects)
    return {identity: with_parsed_files(each) for identity, each in found.items()}


def with_parsed_files(obj: dict[str, Any]) -> dict[str, Any]:
    if obj["kind"] != "ConfigMap":
        return without_empty_annotations(json.loads(json.dumps(obj)))
    return {**obj, "data": {name: parsed(name, text) for name, text in obj["data"].items()}}


def without_empty_annotations(obj: dict[str, Any]) -> dict[str, Any]:
    """The object as kustomize writes it."""
    for each in (obj, obj.get("spec", {}).get("template", {})):
        if each.get("metadata", {}).get("annotations") == {}:
            del each["metadata"]["annotations"]
    return obj


def parsed(name: str, text: str) -> Any:
    is_json = name.endswith(".json")
    return json.loads(text) if is_json else yaml.load(text, yaml.CSafeLoader)


@pytest.mark.parametrize("namespace", ["rescheduler", "elsewhere"])
def test_kustomize_gives_what_the_code_declares(
    cluster: TestCluster, namespace: str, tmp_path: Path
) -> None:
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    file = tmp_path / "deploy" / "kustomization.yaml"
    text = with_image(file.read_text()).replace("namespace: rescheduler", f"namespace: {namespace}")
    file.write_text(text)
    assert built(cluster, tmp_path / "deploy") == by_identity(manifests(IMAGE, namespace))
    for line in ("components: ", "- name: kube-scheduler", "  newName: ", "  newTag: "):
        text = text.replace(f"# {line}", line)
    file.write_text(text.replace("VERSION-OF-YOUR-CLUSTER", "v1.2.3"))
    everything = IMAGE | SCHEDULER | MONITORING | ADMISSION_POLICIES
    assert built(cluster, tmp_path / "deploy") == by_identity(manifests(everything, namespace))


def with_image(kustomization: str) -> str:
    """The shipped kustomization, as its first line asks to change it."""
    assert MISSING_IMAGE in kustomization
    return kustomization.replace(MISSING_IMAGE, IMAGE["image.repository"])


def test_without_an_image_kubectl_says_what_to_do_and_creates_nothing(
    cluster: TestCluster,
) -> None:
    with pytest.raises(ClusterError, match=MISSING_IMAGE):
        cluster.kubectl("apply", "-k", str(DEPLOY))
    assert not cluster.client.exists("/api/v1/namespaces/rescheduler")


def test_policies_that_kustomize_takes_for_namespaced_are_accepted(
    cluster: TestCluster, tmp_path: Path
) -> None:
    """It does not know their kinds; kubectl and the API server leave the namespace out."""
    policies = (DEPLOY / "admission-policies" / "policies.yaml").read_text()
    (tmp_path / "policies.yaml").write_text(policies)
    own = {"namespace": "elsewhere", "resources": ["policies.yaml"]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(own))
    output = cluster.kubectl("kustomize", str(tmp_path))
    assert "  namespace: elsewhere\n" in output
    cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", input=output)


@pytest.mark.parametrize("page", ["deployment.md", "logs-and-events.md"])
def test_what_a_page_adds_by_a_patch_is_what_its_values_add(
    cluster: TestCluster, page: str, tmp_path: Path
) -> None:
    (patch,), (values,) = (snippets(page, first) for first in ("patches:", "extraArgs:"))
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    file = tmp_path / "deploy" / "kustomization.yaml"
    file.write_text(with_image(file.read_text()) + patch)
    given = yaml.safe_load(values)
    chosen = {path: value_at(given, path) for path in DEFAULTS if value_at(given, path)}
    assert built(cluster, tmp_path / "deploy") == by_identity(manifests(IMAGE | chosen))


def snippets(page: str, first: str) -> list[str]:
    """The parts of a page that are indented, of which the first word is given."""
    blocks = re.findall(r"(?:^(?: {4}.*)\n)+", (ROOT / "docs" / page).read_text(), re.M)
    texts = [textwrap.dedent(block) for block in blocks]
    return [text for text in texts if text.startswith(first)]


def value_at(tree: Any, path: str) -> Any:
    """A value by its dotted path, or None."""
    for name in path.split("."):
        tree = (tree or {}).get(name)
    return tree


def built(cluster: TestCluster, directory: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """What kubectl makes of a kustomization."""
    output = cluster.kubectl("kustomize", str(directory))
    objects = list(yaml.load_all(output, yaml.CSafeLoader))
    for each in objects:
        if "AdmissionPolicy" in each["kind"]:
            # It has no namespace; the test below says what becomes of this one.
            del each["metadata"]["namespace"]
    return by_identity(objects)


@pytest.mark.parametrize("install", INSTALLS)
def test_the_server_accepts_every_field(cluster: TestCluster, install: str) -> None:
    """Server-side and strict: neither unknown fields nor values that it would refuse."""
    serve_operator_kinds(cluster)
    objects = manifests(INSTALLS[install] | MONITORING, "default")
    text = "\n---\n".join(json.dumps(each) for each in objects if each["kind"] != "Namespace")
    cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", input=text)


def test_the_quick_test_is_accepted(cluster: TestCluster) -> None:
    text = (DEPLOY / "examples" / "quick-test.yaml").read_text()
    text = text.replace("quick-test", "default")
    cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", input=text)
