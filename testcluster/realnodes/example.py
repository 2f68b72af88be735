"""A small example on real nodes: the rescheduler, and a web server that is all on one node."""

from dataclasses import dataclass

from image.builders import ImageError
from rescheduler.migration.memory.move_record_crd import ALL_CRDS
from testcluster.applying import apply
from testcluster.builders import budget, deployment, service
from testcluster.cache import report
from testcluster.cluster import TestCluster
from testcluster.realnodes.installing import install
from testcluster.realnodes.workloads import web_server

REPLICAS = 4
NAME = "shop/web"
# Of the first node's CPU, by all replicas together: enough that it is worth moving some.
REQUESTED_PERCENT = 80


@dataclass(frozen=True)
class Example:
    """What was started."""

    deployment: str
    node: str
    url: str
    """Of its Service; only nodes reach it."""
    is_installed: bool
    """Whether the rescheduler itself runs in the cluster."""


def fill_real_nodes(cluster: TestCluster) -> Example:
    """Install the rescheduler, start the web server while only the first node accepts pods."""
    is_installed = try_to_install(cluster)
    first, *others = cluster.nodes.names
    namespace, name = NAME.split("/")
    for node in others:
        cluster.kubectl("cordon", node)
    template = web_server("-warm-up", "1s", "-work", "5ms", resources=requests(cluster, first))
    *_, created = apply(
        cluster,
        deployment(NAME, replicas=REPLICAS, template=template),
        budget(NAME, min_available=REPLICAS),
        service(NAME),
    )
    rollout = ("rollout", "status", f"deployment/{name}", "--timeout=120s")
    cluster.kubectl("--namespace", namespace, *rollout)
    for node in others:
        cluster.kubectl("uncordon", node)
    url = f"http://{created['spec']['clusterIP']}/"
    pods = cluster.client.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    cluster.nodes.wait_until_all_reach(url, {pod["metadata"]["name"] for pod in pods})
    return Example(f"Deployment {NAME}", first, url, is_installed)


def try_to_install(cluster: TestCluster) -> bool:
    """Install the rescheduler if its image can be built here, or else Migrations alone."""
    try:
        install(cluster)
    except ImageError as error:
        report(f"The rescheduler is not installed, for its image cannot be built: {error}.")
        apply(cluster, *ALL_CRDS)
        return False
    return True


def requests(cluster: TestCluster, node: str) -> dict[str, dict[str, str]]:
    """What a replica requests: a share of the CPUs, of which the machine may have few or many."""
    cpus = int(cluster.client.get(f"/api/v1/nodes/{node}")["status"]["allocatable"]["cpu"])
    millis = cpus * 10 * REQUESTED_PERCENT // REPLICAS
    return {"requests": {"cpu": f"{millis}m", "memory": "32Mi"}}
