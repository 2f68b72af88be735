"""Fifty pods leave their node by what kubectl installs, and then some of them by what Helm does.

Nobody notices, not even that the release is upgraded in the midst of it; and nothing is left of an
install that is removed. The replicas are processes that are started as the Deployment says, and
replaced one after the other, as its controller replaces pods.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from rescheduler.install.options import PROJECT_VERSION
from rescheduler.labels import MAINTENANCE
from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import namespace
from testcluster.waiting import wait_until
from tests.conftest import CRDS
from tests.install.helm import Helm, objects_in, settings
from tests.install.installs import IMAGE, leftovers
from tests.install.local_pod import LocalPod, Rendered
from tests.install.shop import APPS, PODS, PODS_OF_APP, SHOP, Shop, wait_until_gone
from tests.install.test_files import CHART, DEPLOY
from tests.migration.ready_pod_watch import ReadyPodWatch
from tests.migration.support import MIGRATIONS

pytestmark = pytest.mark.long

RELEASE, NAMESPACE, ANNEX = "mover", "rescheduler", "annex"
FEW_APPS = APPS[:5]
NEXT_VERSION = "99.0.0"
NEW_DESCRIPTION = "Which pod is moved"
# The replicas are processes of this machine; the pods of the Deployments stay pending.
NOWHERE = {"no-such-label": "true"}
VALUES: dict[str, Any] = {
    **IMAGE,
    "extender.enabled": False,
    "nodeSelector": NOWHERE,
    "policy": {
        "enabledStrategies": ["NodeMaintenance"],
        "reschedulingInterval": "1s",
        "maxReschedulePods": 50,
        "excludedNamespaces": ["kube-system", NAMESPACE],
        "excludedPodSelector": f"app notin ({', '.join(FEW_APPS)})",
        "migration": {"maxPerNode": 10, "leaveServices": "0.1s", "timeout": "10m"},
    },
}
OWN_KUSTOMIZATION: dict[str, Any] = {
    "resources": ["deploy"],
    "patches": [
        {
            "target": {"kind": "Deployment"},
            "patch": yaml.safe_dump(
                [{"op": "add", "path": "/spec/template/spec/nodeSelector", "value": NOWHERE}]
            ),
        }
    ],
}
"""What is shipped, as the documents advise to change it."""


@pytest.fixture(scope="module")
def shop(audited: TestCluster) -> Iterator[Shop]:
    """Where the pods of one test are at the end, those of the next one begin."""
    found = Shop(audited)
    yield found
    found.close()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as entered:
        yield entered


def start_replica(
    cluster: TestCluster, rendered: Rendered, directory: Path, stack: ExitStack
) -> LocalPod:
    """Start a replica as its Deployment says, and wait until it is ready."""
    started = LocalPod(cluster, rendered, "rescheduler", directory)
    stack.callback(started.kill)
    started.start()
    return started


# ---------------------------------------------------------------- kubectl


@contextmanager
def kustomized(cluster: TestCluster, directory: Path) -> Iterator[Rendered]:
    """Install while the block runs, after the server has accepted every field."""
    directory.mkdir()
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(OWN_KUSTOMIZATION))
    (directory / "deploy").symlink_to(DEPLOY / "base")
    place = str(directory)
    objects = objects_in(cluster.kubectl("kustomize", place))
    # A dry run creates no namespace for what follows.
    cluster.kubectl("apply", "-f", str(DEPLOY / "base" / "namespace.yaml"))
    checked = cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-k", place)
    assert checked.count("(server dry run)") == len(objects)
    cluster.kubectl("apply", "-k", place)
    try:
        yield Rendered(objects)
    finally:
        cluster.kubectl("delete", "--wait", "--timeout=300s", "-k", place)


def test_fifty_pods_leave_their_node_by_what_kubectl_installs(
    audited: TestCluster, shop: Shop, tmp_path: Path, stack: ExitStack
) -> None:
    """The policy is the one that is shipped."""
    target = shop.add_node()
    with kustomized(audited, tmp_path / "own") as rendered:
        controller = start_replica(audited, rendered, tmp_path / "replica", stack)
        with ReadyPodWatch(audited, SHOP) as watcher:
            output = drain(audited, shop.home)
        controller.stop()
        outcomes = [status.get("outcome") for status in shop.migrations().values()]
        assert outcomes == ["Landed"] * PODS
    assert shop.have_moved_to(target), output
    assert shop.has_lost_none(watcher)
    assert leftovers(audited) == []
    shop.home = target


def drain(cluster: TestCluster, node: str) -> str:
    """Drain a node from outside, which leaves the moves to the controller; what it says."""
    program = Path(sys.executable).with_name("rescheduler")
    command = [str(program), "drain", node, "--wait", f"--kubeconfig={cluster.kubeconfig}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# ---------------------------------------------------------------- Helm


def next_version(directory: Path) -> Path:
    """The chart with another version, and with a change in a CustomResourceDefinition."""
    copied = directory / "rescheduler"
    shutil.copytree(CHART, copied)
    for name, old, new in (
        ("Chart.yaml", PROJECT_VERSION, NEXT_VERSION),
        ("templates/crds.yaml", "The pod to move", NEW_DESCRIPTION),
    ):
        text = (copied / name).read_text()
        assert old in text
        (copied / name).write_text(text.replace(old, new))
    return copied


class Release:
    """A release of the chart, and its replicas."""

    def __init__(self, cluster: TestCluster, helm: Helm, directory: Path, stack: ExitStack) -> None:
        self._cluster = cluster
        self._helm = helm
        self._directory = directory
        self._stack = stack
        self._count = 0

    def install(self, chart: Path, *command: str) -> Rendered:
        """Install or upgrade; the objects as Helm has stored them."""
        self._helm(*command, RELEASE, str(chart), f"--namespace={NAMESPACE}", *settings(VALUES))
        return Rendered(objects_in(self._helm("get", "manifest", RELEASE, "-n", NAMESPACE)))

    def replica(self, rendered: Rendered) -> LocalPod:
        """Start another replica."""
        self._count += 1
        place = self._directory / f"replica-{self._count}"
        return start_replica(self._cluster, rendered, place, self._stack)

    def uninstall(self) -> None:
        self._helm("uninstall", RELEASE, "--namespace", NAMESPACE, "--wait")


@pytest.fixture
def release(audited: TestCluster, helm_binary: Path, tmp_path: Path, stack: ExitStack) -> Release:
    helm = Helm(helm_binary, tmp_path / "helm", audited.kubeconfig)
    return Release(audited, helm, tmp_path, stack)


def test_an_upgrade_finishes_migrations_and_a_removal_leaves_nothing(
    audited: TestCluster, shop: Shop, release: Release, tmp_path: Path
) -> None:
    client, target = audited.client, shop.add_node(managed=False)
    installed = release.install(CHART, "install", "--create-namespace")
    old = [release.replica(installed) for _ in range(2)]
    with ReadyPodWatch(audited, SHOP) as watcher:
        under_maintenance = {"metadata": {"labels": {MAINTENANCE: "true"}}}
        client.patch(f"/api/v1/nodes/{shop.home}", under_maintenance)
        # One pod of each app at a time.
        wait_until(lambda: len(shop.under_way()) == len(FEW_APPS), what="moves are under way")
        begun = shop.under_way()

        upgraded = release.install(next_version(tmp_path / "next"), "upgrade")
        (container,) = upgraded.get("Deployment", "rescheduler")["spec"]["template"]["spec"][
            "containers"
        ]
        assert container["image"].endswith(f":{NEXT_VERSION}")
        assert NEW_DESCRIPTION in str(client.get(f"{CRDS}/migrations.rescheduler.dev"))
        new = []
        for former in old:
            new.append(release.replica(upgraded))
            former.stop()
        assert shop.under_way() == begun, "the same moves, not undone and not begun again"

        wait_until(lambda: shop.have_moved_to(target, FEW_APPS), what="their pods have moved")
        wait_until(lambda: not shop.under_way(), what="all moves are over")
    assert begun <= shop.migrations().keys()
    outcomes = [status.get("outcome") for status in shop.migrations().values()]
    assert outcomes == ["Landed"] * len(FEW_APPS) * PODS_OF_APP
    assert shop.has_lost_none(watcher)

    for replica in new:
        replica.stop()
    request_in_vain(audited, ANNEX)
    # Both namespaces have Migrations, and nobody is there to clean up.
    shop.close()
    release.uninstall()
    for name in (ANNEX, NAMESPACE):
        client.delete(f"/api/v1/namespaces/{name}")
        wait_until_gone(audited, name)
    assert leftovers(audited) == []


def request_in_vain(cluster: TestCluster, name: str) -> None:
    """Create a Migration that nobody carries out."""
    apply(cluster, namespace(name))
    body = {
        "apiVersion": "rescheduler.dev/v1alpha1",
        "kind": "Migration",
        "metadata": {"name": "waiting", "namespace": name},
        "spec": {"pod": {"name": "nobody", "uid": "none"}, "targetNode": "nowhere"},
    }
    cluster.client.create(MIGRATIONS.format(name), body)
