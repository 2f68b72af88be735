"""A small cluster that needs rescheduling: a few full nodes, and many empty nodes."""

from testcluster.applying import apply
from testcluster.builders import budget, daemonset, deployment, node, statefulset
from testcluster.client import JsonObject
from testcluster.cluster import TestCluster
from testcluster.waiting import wait_until

ZONES = ("zone-a", "zone-b", "zone-c")
FIRST_NODES, ALL_NODES = 4, 12
SPREAD_OVER_ZONES = {
    "maxSkew": 1,
    "topologyKey": "topology.kubernetes.io/zone",
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {"matchLabels": {"app": "checkout"}},
}


def fill_with_example(cluster: TestCluster) -> None:
    """Start all pods on the first nodes, then add the other nodes, which stay almost empty."""
    apply(cluster, *example_nodes()[:FIRST_NODES])
    workloads = example_workloads()
    apply(cluster, *workloads)
    wait_until(lambda: running_pods(cluster) >= expected_pods(), 60, "all pods of the example run")
    apply(cluster, *example_nodes()[FIRST_NODES:])
    all_pods = expected_pods() + ALL_NODES - FIRST_NODES
    wait_until(lambda: running_pods(cluster) >= all_pods, 60, "each new node runs its agent")


def example_nodes() -> list[JsonObject]:
    """Nodes in three zones, of two sizes."""
    sizes = [("16", "64Gi"), ("8", "32Gi")]
    return [
        node(
            f"node-{number + 1:02d}",
            cpu=sizes[number % 2][0],
            memory=sizes[number % 2][1],
            zone=ZONES[number % len(ZONES)],
        )
        for number in range(ALL_NODES)
    ]


def example_workloads() -> list[JsonObject]:
    """Several applications, one of them with a budget that allows no disruption."""
    spread = {"topologySpreadConstraints": [SPREAD_OVER_ZONES]}
    return [
        daemonset("kube-system/agent", cpu="100m", memory="128Mi"),
        deployment("shop/cart", replicas=20, cpu="300m", memory="768Mi"),
        deployment("shop/catalog", replicas=24, cpu="250m", memory="1Gi"),
        deployment("shop/checkout", replicas=12, cpu="500m", memory="1Gi", template=spread),
        deployment("shop/search", replicas=8, cpu="1", memory="4Gi"),
        deployment("billing/invoice", replicas=16, cpu="200m", memory="512Mi"),
        deployment("billing/ledger", replicas=3, cpu="500m", memory="2Gi"),
        deployment("media/thumbnails", replicas=25, cpu="150m", memory="384Mi"),
        statefulset("billing/database", replicas=3, cpu="1", memory="8Gi"),
        budget("shop/checkout", max_unavailable="25%"),
        budget("billing/ledger", min_available=3),
    ]


def expected_pods() -> int:
    """How many pods there are while only the first nodes exist."""
    replicas = [int(item["spec"].get("replicas", 0)) for item in example_workloads()]
    return FIRST_NODES + sum(replicas)


def running_pods(cluster: TestCluster) -> int:
    """How many pods run, in all namespaces."""
    pods = cluster.client.get("/api/v1/pods?fieldSelector=status.phase=Running")
    return len(pods["items"])
