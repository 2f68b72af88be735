"""Nobody notices a move: under load, no request fails, and no pod too few is Ready."""

from testcluster import TestCluster
from testcluster.realnodes.web_apps import WebApp, traffic_during
from tests.real_nodes.support import rescheduler

# For each app, in a second: benchmarks send more.
RATE = 25.0

APPS = [
    WebApp("hooked", pre_stop_seconds=3),
    WebApp("graceful"),
    WebApp("abrupt", abrupt=True),
    WebApp("one", replicas=1, on_one_node=True),
    WebApp("one-abrupt", replicas=1, on_one_node=True, abrupt=True),
    WebApp("all-on-one", on_one_node=True, abrupt=True),
    WebApp("keep-alive", keep_alive=True),
    WebApp("two-ports", ports=2, abrupt=True),
    WebApp("headless", headless=True, abrupt=True),
]


def test_no_request_fails_while_a_node_is_drained(real_cluster: TestCluster) -> None:
    first = real_cluster.nodes.names[0]
    found = traffic_during(
        lambda: rescheduler(real_cluster, "drain", first, "--here"),
        real_cluster,
        "drained-under-load",
        APPS,
        RATE,
    )
    for traffic in found:
        assert traffic.load.failed == 0, (traffic.app.name, traffic.load.failures)
        assert traffic.load.ok > 0
        assert traffic.fewest_ready >= traffic.app.replicas, traffic
        assert traffic.fewest_endpoints >= traffic.app.replicas, traffic
