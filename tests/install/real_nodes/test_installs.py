"""Every way to install what is shipped gets Ready on real nodes, does its work, and goes.

What runs is the image, as its service account, in a namespace that enforces `restricted`. A node is
drained under load, where nothing may be disrupted. `installed` checks what holds of every install.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from rescheduler.labels import MAINTENANCE, STEERED_BY
from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import pod, statefulset
from testcluster.client import JsonObject
from testcluster.image import ARCHIVED_NAME, ensure_image, missing_image_tool
from testcluster.realnodes.dns import start_dns
from testcluster.realnodes.scheduler_image import REPOSITORY, import_scheduler_image
from testcluster.realnodes.web_apps import is_ready, running
from testcluster.realnodes.workloads import web_server
from testcluster.waiting import wait_until
from tests.conftest import CRDS, SayAtTheEnd, stop
from tests.install.helm import Helm
from tests.install.real_nodes.connections import missing_tables
from tests.install.real_nodes.drained_shop import APPS, DrainedShop
from tests.install.real_nodes.drained_shop import NAMESPACE as SHOP
from tests.install.real_nodes.installation import Installation, installed
from tests.install.real_nodes.ways import (
    NEXT_DESCRIPTION,
    NEXT_VERSION,
    OF_CHART,
    Kustomization,
    Release,
    next_chart,
    parent_chart,
)
from tests.migration.support import MIGRATIONS
from tests.real_nodes.support import rescheduler

PLACED = "placed"
# Such as OpenShift gives to a namespace.
RANDOM_USER = 1000680000


@pytest.fixture(scope="module")
def cluster(
    request: pytest.FixtureRequest, needs_real_nodes: None, say_at_the_end: SayAtTheEnd
) -> Iterator[TestCluster]:
    """Real nodes that have the image; the API server logs every request."""
    reason = missing_image_tool() or missing_tables()
    if reason:
        say_at_the_end(f"Nothing was installed on real nodes: {reason}")
        pytest.skip(reason)
    image = ensure_image()
    cluster = TestCluster(real_nodes=3, audit=True)
    cluster.start()
    before = request.session.testsfailed
    cluster.nodes.import_images(image)
    repository, _, _ = ARCHIVED_NAME.rpartition(":")
    for node in cluster.nodes.names:
        cluster.nodes.tag_image(node, ARCHIVED_NAME, f"{repository}:{NEXT_VERSION}")
    yield cluster
    stop(cluster, say_at_the_end, keep_logs=request.session.testsfailed > before)


@pytest.fixture(scope="module")
def shop(cluster: TestCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrainedShop]:
    with running(cluster, SHOP, APPS):
        yield DrainedShop(cluster, tmp_path_factory.mktemp("shop"))


@pytest.fixture
def helm(cluster: TestCluster, helm_binary: Path, tmp_path: Path) -> Helm:
    return Helm(helm_binary, tmp_path / "helm", cluster.kubeconfig)


def test_kustomize_without_a_lease_drains_a_node_while_its_leader_is_deleted(
    cluster: TestCluster, shop: DrainedShop, tmp_path: Path
) -> None:
    """Argo CD applies no Lease, so a replica creates it."""
    way = Kustomization(cluster, tmp_path)
    assert "Lease" not in way.kinds()
    with installed(cluster, way) as found:
        shop.drain(found.delete_leader)


def test_helm_drains_a_node_while_the_release_is_upgraded(
    cluster: TestCluster, shop: DrainedShop, helm: Helm, tmp_path: Path
) -> None:
    release, following = Release(cluster, helm, OF_CHART), next_chart(tmp_path)
    with installed(cluster, release) as found:
        shop.drain(lambda: upgrade(release, following, found))
        assert NEXT_DESCRIPTION in str(cluster.client.get(f"{CRDS}/migrations.rescheduler.dev"))


def upgrade(release: Release, chart: Path, found: Installation) -> None:
    """Replace all replicas, one after the other."""
    release.upgrade(chart)
    found.wait_until_ready()


def test_the_controller_alone_plans(cluster: TestCluster, helm: Helm) -> None:
    release = Release(cluster, helm, {**OF_CHART, "extender.enabled": False})
    with installed(cluster, release) as found:
        found.wait_for_a_round()


def test_the_second_scheduler_asks_the_extender(cluster: TestCluster, helm: Helm) -> None:
    """It finds the extender by its name, so it needs the cluster's DNS."""
    start_dns(cluster)
    import_scheduler_image(cluster)
    second = {"scheduler.enabled": True, "scheduler.image.repository": REPOSITORY}
    with installed(cluster, Release(cluster, helm, {**OF_CHART, **second})) as found:
        placed = {**web_server(), "schedulerName": "rescheduler-scheduler"}
        apply(cluster, pod(f"{PLACED}/web", **placed))
        ready_pod(cluster, "web")
        # Which nodes fit, and how well.
        assert found.answers_to_schedulers() == 2
        cluster.kubectl("delete", "namespace", PLACED)


def test_a_dependency_of_another_chart_plans(
    cluster: TestCluster, helm: Helm, tmp_path: Path
) -> None:
    values = {f"rescheduler.{path}": value for path, value in OF_CHART.items()}
    with installed(cluster, Release(cluster, helm, values, parent_chart(helm, tmp_path))) as found:
        found.wait_for_a_round()


def test_a_read_only_install_plans_and_changes_nothing(
    cluster: TestCluster, shop: DrainedShop, helm: Helm
) -> None:
    client, node = cluster.client, "/api/v1/nodes/node-1"
    with installed(cluster, Release(cluster, helm, {**OF_CHART, "dryRun": True})) as found:
        before = state(cluster)
        request_in_vain(cluster)
        client.patch(node, {"metadata": {"labels": {MAINTENANCE: "true"}}})
        wait_until(partial(found.lines, "Would have requested a move"), what="a plan")
        client.patch(node, {"metadata": {"labels": {MAINTENANCE: None}}})
        assert state(cluster) == before


def request_in_vain(cluster: TestCluster) -> None:
    """Create a Migration that nobody carries out; it keeps nothing from being removed."""
    body = {
        "apiVersion": "rescheduler.dev/v1alpha1",
        "kind": "Migration",
        "metadata": {"name": "waiting", "namespace": SHOP},
        "spec": {"pod": {"name": "nobody", "uid": "none"}, "targetNode": "nowhere"},
    }
    cluster.client.create(MIGRATIONS.format(SHOP), body)


def state(cluster: TestCluster) -> Any:
    """What a plan could have changed: where the pods are, and which nodes are cordoned."""
    pods = cluster.client.get(f"/api/v1/namespaces/{SHOP}/pods")["items"]
    nodes = cluster.client.get("/api/v1/nodes")["items"]
    return (
        {pod["metadata"]["uid"]: pod["metadata"].get("labels") for pod in pods},
        {each["metadata"]["name"]: each["spec"] for each in nodes},
    )


def test_a_random_user_id_moves_a_pod_by_its_webhook(cluster: TestCluster, tmp_path: Path) -> None:
    """OpenShift adds it to every pod, and refuses pods that name another one."""
    place = "/spec/template/spec/securityContext"
    operations = [
        {"op": "add", "path": f"{place}/{name}", "value": RANDOM_USER}
        for name in ("runAsUser", "fsGroup")
    ]
    patch = {"target": {"kind": "Deployment"}, "patch": yaml.safe_dump(operations)}
    with installed(cluster, Kustomization(cluster, tmp_path, patch)):
        apply(cluster, statefulset(f"{PLACED}/db", 1, template=web_server()))
        old = ready_pod(cluster, "db-0")
        *_, target = (name for name in cluster.nodes.names if name != old["spec"]["nodeName"])
        rescheduler(cluster, "move", f"{PLACED}/db-0", "--to", target, "--wait")
        new = ready_pod(cluster, "db-0")
        assert new["spec"]["nodeName"] == target
        # An evicted pod is placed by its controller. The API server asks us at our Service.
        assert STEERED_BY in new["metadata"]["annotations"]
        cluster.kubectl("delete", "namespace", PLACED)


def ready_pod(cluster: TestCluster, name: str) -> JsonObject:
    """A pod, when it is Ready."""
    path = f"/api/v1/namespaces/{PLACED}/pods/{name}"

    def found() -> JsonObject:
        pod = cluster.client.get(path) if cluster.client.exists(path) else {}
        return pod if pod and is_ready(pod) else {}

    return wait_until(found, what=f"{name} is Ready")
