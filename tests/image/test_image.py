"""The image runs as a pod runs it: no shell, no root, nothing to write to, no capabilities."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest

from image.builders import VERSION
from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import deployment, node
from testcluster.image import NAME, buildah, ensure_image, missing_image_tool
from testcluster.waiting import wait_until
from tests.conftest import FreshCluster, SayAtTheEnd, serve_migrations

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
USER_ID = 65532
MOST_BYTES = 180_000_000

pytestmark = pytest.mark.cluster


def run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def root(say_at_the_end: SayAtTheEnd) -> Iterator[Path]:
    """The files of the image."""
    reason = missing_image_tool() or ("" if shutil.which("runc") else "runc must be installed")
    if reason:
        say_at_the_end(f"The image was not tested: {reason}")
        pytest.skip(reason)
    ensure_image()
    container = buildah("from", "--pull-never", NAME)
    yield Path(buildah("mount", container))
    buildah("rm", container)


@pytest.fixture(scope="module")
def configuration(root: Path) -> dict[str, Any]:
    """What the image says about how it is run."""
    described = json.loads(buildah("inspect", "--type", "image", NAME))
    config: dict[str, Any] = described["OCIv1"]["config"]
    return config


class Bundle:
    """The image as a container of runc, in the network of this machine."""

    def __init__(self, directory: Path, root: Path, configuration: dict[str, Any]) -> None:
        self.directory = directory
        self.name = directory.name
        run("runc", "spec", "--bundle", str(directory))
        self.spec = json.loads((directory / "config.json").read_text())
        user, _, group = configuration["User"].partition(":")
        self.spec["root"] = {"path": str(root), "readonly": True}
        self.spec["process"] |= {
            "terminal": False,
            "user": {"uid": int(user), "gid": int(group)},
            "env": [*configuration["Env"]],
            "capabilities": {},
            "noNewPrivileges": True,
        }
        self.entrypoint = configuration["Entrypoint"]
        shared = {"network", "cgroup"}
        namespaces = self.spec["linux"]["namespaces"]
        self.spec["linux"]["namespaces"] = [it for it in namespaces if it["type"] not in shared]

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Run the program of the image with these arguments."""
        self.spec["process"]["args"] = [*self.entrypoint, *arguments]
        (self.directory / "config.json").write_text(json.dumps(self.spec))
        return subprocess.Popen(
            ["runc", "run", "--bundle", str(self.directory), self.name],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def delete(self) -> None:
        subprocess.run(["runc", "delete", "--force", self.name], capture_output=True, check=False)


@pytest.fixture
def bundle(tmp_path: Path, root: Path, configuration: dict[str, Any]) -> Iterator[Bundle]:
    made = Bundle(tmp_path, root, configuration)
    yield made
    made.delete()


def test_it_has_no_program_but_python_and_ours(root: Path, configuration: dict[str, Any]) -> None:
    executable = {
        str(file.relative_to(root))
        for file in root.rglob("*")
        if file.stat().st_mode & 0o111 and file.is_file() and is_program(file)
    }
    assert executable == {"usr/bin/python3.11", "usr/bin/rescheduler"}
    assert configuration["User"] == f"{USER_ID}:{USER_ID}"


def is_program(file: Path) -> bool:
    """Whether a system would run it: neither a library nor a module that may be run as well."""
    if ".so" in file.name:
        return False
    return file.parent.name in ("bin", "sbin") or file.read_bytes()[:4] == b"\x7fELF"


def test_scanners_find_what_it_holds(root: Path) -> None:
    system = {file.name for file in (root / "var/lib/dpkg/status.d").iterdir()}
    assert {"libc6", "libssl3", "libpython3.11-stdlib"} <= system
    ours = {found.name for found in distributions(path=[str(root / "opt/rescheduler")])}
    assert {"aiohttp", "numpy", "kube-rescheduler"} <= ours
    assert not ours & {"pip", "setuptools"}


def test_it_is_labelled_and_below_180_mb(root: Path, configuration: dict[str, Any]) -> None:
    labels = configuration["Labels"]
    assert labels["org.opencontainers.image.title"] == "rescheduler"
    assert labels["org.opencontainers.image.version"] == VERSION
    files = [file for file in root.rglob("*") if file.is_file()]
    assert 0 < sum(file.stat().st_size for file in files) < MOST_BYTES


def test_its_modules_are_compiled(root: Path) -> None:
    for package in ("opt/rescheduler/rescheduler", "opt/rescheduler/aiohttp", "usr/lib/python3.11"):
        assert list((root / package / "__pycache__").glob("*.pyc")), package


def test_it_prints_its_version(bundle: Bundle) -> None:
    output, _ = bundle.start("--version").communicate(timeout=60)
    assert output.strip() == VERSION


def test_it_moves_pods_with_the_files_of_its_service_account(
    bundle: Bundle, fresh_cluster: FreshCluster, tmp_path: Path
) -> None:
    cluster = fresh_cluster()
    serve_migrations(cluster)
    apply(cluster, node("a", cpu="4"), deployment("shop/web", 2, "100m"))
    wait_until(lambda: len(ready_pods(cluster)) == 2, what="the pods are Ready")
    apply(cluster, node("b", cpu="4"))
    mount_account(bundle, cluster, tmp_path)
    running = bundle.start("run")
    try:
        for pod in ready_pods(cluster):
            request_move(cluster, pod["metadata"], "b")
        wait_until(
            lambda: {pod["spec"]["nodeName"] for pod in ready_pods(cluster)} == {"b"},
            what="both pods are on the other node",
        )
    finally:
        bundle.delete()
        output, _ = running.communicate(timeout=60)
    assert "Traceback" not in output, output


def ready_pods(cluster: TestCluster) -> list[dict[str, Any]]:
    pods = cluster.client.get("/api/v1/namespaces/shop/pods")["items"]
    return [
        pod
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"]
        and any(
            found["type"] == "Ready" and found["status"] == "True"
            for found in pod["status"].get("conditions", ())
        )
    ]


def request_move(cluster: TestCluster, pod: dict[str, Any], target: str) -> None:
    body = {
        "apiVersion": "rescheduler.dev/v1alpha1",
        "kind": "Migration",
        "metadata": {"name": pod["name"], "namespace": "shop"},
        "spec": {"pod": {"name": pod["name"], "uid": pod["uid"]}, "targetNode": target},
    }
    cluster.client.create("/apis/rescheduler.dev/v1alpha1/namespaces/shop/migrations", body)


def mount_account(bundle: Bundle, cluster: TestCluster, directory: Path) -> None:
    """Give the container a service account, where a kubelet mounts it."""
    account = directory / "account"
    account.mkdir()
    (account / "token").write_text(cluster.admin_token)
    (account / "namespace").write_text("default")
    (account / "ca.crt").write_bytes(cluster.ca_file.read_bytes())
    for file in (account, *account.iterdir()):
        file.chmod(0o755 if file.is_dir() else 0o444)
    host, _, port = cluster.server.removeprefix("https://").partition(":")
    bundle.spec["process"]["env"] += [
        f"KUBERNETES_SERVICE_HOST={host}",
        f"KUBERNETES_SERVICE_PORT={port}",
    ]
    bundle.spec["mounts"].append(
        {
            "destination": ACCOUNT,
            "type": "bind",
            "source": str(account),
            "options": ["bind", "ro"],
        }
    )
