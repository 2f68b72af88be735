"""The example of a strategy of one's own: it can be installed, and does what it says."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from testcluster.builders import deployment, node, pod, replicaset

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "strategy-plugin"
GUIDE = ROOT / "docs" / "writing-a-strategy.md"
MARK = {"example.com/burst": "true"}
LONG_RUNNING = {"example.com/long-running": "true"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the example is installed into; nothing is fetched from anywhere."""
    source = shutil.copytree(EXAMPLE, tmp_path_factory.mktemp("source") / "plugin")
    target = tmp_path_factory.mktemp("site")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--no-compile"]
    pip = [sys.executable, "-m", "pip", "install", *options]
    subprocess.run([*pip, "--target", str(target), str(source)], check=True)
    return target


@pytest.fixture
def cluster_file(tmp_path: Path) -> Path:
    """A marked node with six of its eight CPUs in use, another with three, and one unmarked."""
    owner = deployment("shop/web", replicas=9)
    owned = replicaset("shop/web-5d", replicas=9, owner=owner)
    objects = [
        node("burst-1", cpu="8", labels=MARK),
        node("burst-2", cpu="8", labels=MARK),
        node("plain", cpu="8"),
        owner,
        owned,
        *(pod(f"shop/web-5d-{row}", on="burst-1", cpu="1", owner=owned) for row in range(6)),
        *(pod(f"shop/web-5d-{row}", on="burst-2", cpu="1", owner=owned) for row in range(6, 9)),
    ]
    return written(tmp_path, objects)


@pytest.fixture
def cluster_with_long_running_pod(tmp_path: Path) -> Path:
    """Two marked nodes with CPU to spare, one of them with a pod that should not be there."""
    web, batch = replicaset("shop/web-5d", replicas=2), replicaset("shop/batch-7f", replicas=1)
    objects = [
        node("burst-1", cpu="8", labels=MARK),
        node("burst-2", cpu="8", labels=MARK),
        node("plain", cpu="8"),
        web,
        batch,
        pod("shop/web-5d-0", on="burst-1", cpu="1", owner=web),
        pod("shop/web-5d-1", on="burst-2", cpu="1", owner=web),
        pod("shop/batch-7f-0", on="burst-2", cpu="1", owner=batch, labels=LONG_RUNNING),
    ]
    return written(tmp_path, objects)


def written(folder: Path, objects: list[dict[str, Any]]) -> Path:
    file = folder / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return file


def planned(site: Path, cluster: Path, policy: Path) -> "subprocess.CompletedProcess[str]":
    program = Path(sys.executable).with_name("rescheduler")
    return subprocess.run(
        [program, "plan", "-s", cluster, "-p", policy, "-o", "json"],
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_installed_strategy_moves_what_it_says(installed: Path, cluster_file: Path) -> None:
    done = planned(installed, cluster_file, EXAMPLE / "policy.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    plan: dict[str, Any] = json.loads(done.stdout)
    assert [(move["from"], move["strategy"]) for move in plan["moves"]] == [
        ("burst-1", "KeepFree")
    ] * 2
    assert plan["moves"][0]["reason"].startswith(
        "burst-1 has 25.0% of its CPU free and should have 50.0%"
    )
    full = {name: share["cpu"] for name, share in plan["after"]["perNode"].items()}
    assert full["burst-1"] <= 0.5
    assert full["burst-2"] <= 0.5


def test_its_term_about_pods_moves_single_pods(
    installed: Path, cluster_with_long_running_pod: Path
) -> None:
    policy = EXAMPLE / "policy.yaml"
    done = planned(installed, cluster_with_long_running_pod, policy)
    assert (done.returncode, done.stderr) == (0, "")
    plan: dict[str, Any] = json.loads(done.stdout)
    moves = [(move["pod"], move["from"], move["to"], move["strategy"]) for move in plan["moves"]]
    assert moves == [("shop/batch-7f-0", "burst-2", "plain", "KeepFree")]
    expected = "burst-2 is not for pods with example.com/long-running=true"
    assert plan["moves"][0]["reason"].startswith(expected)
    assert plan["after"]["objective"] < plan["before"]["objective"]


def test_its_options_decide_when_it_is_idle(
    installed: Path, cluster_file: Path, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("enabledStrategies: [KeepFree]\nkeepFree: {label: example.com/burst}")
    plan = json.loads(planned(installed, cluster_file, policy).stdout)
    assert plan["moves"] == []
    assert "every marked node has 25.0% of its CPU free" in plan["summary"]


def test_a_mistake_in_its_options_is_reported_in_a_line(
    installed: Path, cluster_file: Path, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("enabledStrategies: [KeepFree]")
    done = planned(installed, cluster_file, policy)
    assert done.returncode == 2
    assert done.stderr == f"rescheduler: {policy}: keepFree.label: missing\n"


@pytest.mark.parametrize("name", ["keep_free.py", "pyproject.toml", "policy.yaml"])
def test_the_guide_shows_the_example_as_it_is(name: str) -> None:
    blocks = re.findall(r"^```\w+\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    assert (EXAMPLE / name).read_text() in blocks
