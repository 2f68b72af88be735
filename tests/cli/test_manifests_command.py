"""`rescheduler manifests` prints what `kubectl apply` installs."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from rescheduler.cli import BAD_INPUT, run
from rescheduler.install.chart import chart_files
from rescheduler.install.kustomize import kustomize_files
from rescheduler.install.manifests import manifests
from tests.install.installs import IMAGE, MONITORING, SCHEDULER


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert run("rescheduler", ["manifests", *arguments]) == 0
    return list(yaml.safe_load_all(capsys.readouterr().out))


@pytest.mark.parametrize(
    ("install", "options"),
    [
        ("full", {}),
        ("controller-only", {"extender.enabled": False}),
        ("read-only", {"dryRun": True}),
        ("full --cert-manager", {"certManager.enabled": True}),
        ("full --monitoring", MONITORING),
        ("full --scheduler-image registry.example/kube-scheduler:v1.2.3", SCHEDULER),
    ],
)
def test_an_install_is_printed(
    capsys: pytest.CaptureFixture[str], install: str, options: dict[str, Any]
) -> None:
    image = ("--image", "registry.example/rescheduler")
    found = printed(capsys, "--install", *install.split(), "--namespace", "ops", *image)
    assert found == manifests(IMAGE | options, "ops")


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("tools/mover:1.2", "tools/mover:1.2"),
        ("host.example:5000/mover:1.2", "host.example:5000/mover:1.2"),
        ("host.example:5000/mover", "host.example:5000/mover:0.1.0"),
        ("host.example:5000/mover@sha256:abc", "host.example:5000/mover@sha256:abc"),
    ],
)
def test_an_image_may_name_a_registry_with_a_port(
    capsys: pytest.CaptureFixture[str], image: str, expected: str
) -> None:
    objects = printed(capsys, "--install", "read-only", "--image", image)
    (deployment,) = (each for each in objects if each["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == expected


def test_files_are_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    places = ("--kustomize", str(tmp_path / "deploy"), "--chart", str(tmp_path / "chart"))
    assert printed(capsys, *places) == []
    for place, files in (("deploy", kustomize_files()), ("chart", chart_files())):
        for name, content in files.items():
            assert (tmp_path / place / name).read_text() == content


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--namespace", "Not_A_Name"), "--namespace 'Not_A_Name': expected the name"),
        (
            ("--install", "read-only", "--cert-manager", "--image=a/b"),
            "--cert-manager: an install that is read-on",
        ),
        ((), "--image is not set: name an image of rescheduler that your nodes can pull"),
        (("--image", ""), "--image is not set"),
        (("--image=:1.2",), "--image is not set"),
        (
            ("--install=read-only", "--image=a/b", "--scheduler-image=c/d:v1"),
            "--scheduler-image: an install that is read-only has no extender",
        ),
        (("--chart", "/dev/null/chart"), "/dev/null/chart: cannot write there: Not a directory"),
    ],
)
def test_a_wrong_argument_is_named(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], problem: str
) -> None:
    assert run("rescheduler", ["manifests", *arguments]) == BAD_INPUT
    assert problem in capsys.readouterr().err
