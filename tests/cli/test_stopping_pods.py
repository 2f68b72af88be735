"""How `drain --wait` waits for pods that are being deleted, in simulated time.

No controller and no kubelet runs: a pod ends when a test lets it end.
"""

import asyncio
import io
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from rescheduler.cli.stopping_pods import LATE, wait_until_stopped
from rescheduler.cli.views.stopping_view import StoppingView, line_of
from rescheduler.simulation.cluster.cluster import SimulatedCluster
from rescheduler.simulation.cluster.json_objects import Json
from testcluster.builders import daemonset, node, pod, replicaset
from tests.simulation.simulated_clusters import START, in_simulated_cluster, set_node_ready

OWNER = replicaset("shop/web", 1)

Left = dict[str, str]


def web(name: str, **options: Any) -> Json:
    return pod(f"shop/{name}", on="a", owner=OWNER, **options)


async def do_nothing(cluster: SimulatedCluster) -> None:
    pass


def wait_for(
    *pods: Json, meanwhile: Callable[[SimulatedCluster], Awaitable[None]] = do_nothing
) -> tuple[Left, str, float]:
    """Delete pods of node `a` and wait for them: what is left, what was printed, how long it took.

    Pods get the default grace period of 30 s.
    """

    async def steps(cluster: SimulatedCluster) -> tuple[Left, str, float]:
        for body in pods:
            cluster.delete("Pod", f"shop/{body['metadata']['name']}")
        others = asyncio.ensure_future(meanwhile(cluster))
        printed = io.StringIO()
        view = StoppingView(Console(file=printed, width=200))
        left = await wait_until_stopped(cluster.server, "a", view, cluster.clock)
        await others
        return left, printed.getvalue(), (cluster.clock.now() - START).total_seconds()

    return in_simulated_cluster([node("a"), OWNER, *pods], steps, settle=0)


def test_pods_are_awaited_until_the_last_has_ended() -> None:
    async def meanwhile(cluster: SimulatedCluster) -> None:
        await asyncio.sleep(8)
        cluster.delete("Pod", "shop/web-1", grace_seconds=0)
        await asyncio.sleep(12)
        cluster.delete("Pod", "shop/web-2", grace_seconds=0)

    left, printed, seconds = wait_for(web("web-1"), web("web-2"), meanwhile=meanwhile)
    assert left == {}
    assert printed.splitlines() == [
        "2 pods are still stopping, until 08:00:30 UTC at the latest: shop/web-1, shop/web-2",
        "1 pod is still stopping, until 08:00:30 UTC at the latest: shop/web-2",
    ]
    assert 20 <= seconds < 30


def test_a_pod_gets_its_own_grace_period() -> None:
    _, printed, seconds = wait_for(web("web-1", terminationGracePeriodSeconds=600))
    assert "until 08:10:00 UTC at the latest" in printed
    assert seconds >= 600 + LATE.total_seconds()


def test_a_pod_that_does_not_end_in_time_is_reported() -> None:
    left, _, seconds = wait_for(web("web-1"))
    assert left == {
        "shop/web-1": "is still stopping after its grace period: "
        "its kubelet has not reported that it has ended"
    }
    assert seconds >= 30 + LATE.total_seconds()


@pytest.mark.parametrize("state", ["False", "Unknown"])
def test_a_node_that_is_not_ready_is_named_as_the_reason(state: str) -> None:
    async def meanwhile(cluster: SimulatedCluster) -> None:
        set_node_ready(cluster, "a", state)

    left, _, _ = wait_for(web("web-1"), meanwhile=meanwhile)
    assert left["shop/web-1"].endswith("node a is not Ready, so its kubelet does not end it")


def test_a_node_that_is_gone_is_named_as_the_reason() -> None:
    async def meanwhile(cluster: SimulatedCluster) -> None:
        cluster.delete("Node", "a")

    left, _, _ = wait_for(web("web-1"), meanwhile=meanwhile)
    assert left["shop/web-1"].endswith("node a no longer exists")


def test_finalizers_are_named_as_the_reason() -> None:
    kept = web("web-1")
    kept["metadata"]["finalizers"] = ["example.com/backup", "example.com/audit"]
    left, _, _ = wait_for(kept)
    assert left["shop/web-1"] == "waits for its finalizers: example.com/backup, example.com/audit"


def test_pods_that_stay_with_their_node_and_finished_pods_are_not_awaited() -> None:
    of_daemon = pod("shop/agent", on="a", owner=daemonset("shop/agent"))
    mirror = pod("shop/proxy", on="a", annotations={"kubernetes.io/config.mirror": "0123"})
    finished = web("web-1", phase="Failed")
    finished["metadata"]["finalizers"] = ["batch.kubernetes.io/job-tracking"]
    assert wait_for(of_daemon, mirror, finished) == ({}, "", 0.0)


def test_pods_of_other_nodes_and_pods_that_are_not_deleted_are_not_awaited() -> None:
    async def steps(cluster: SimulatedCluster) -> Left:
        cluster.delete("Pod", "shop/elsewhere")
        view = StoppingView(Console(file=io.StringIO()))
        return await wait_until_stopped(cluster.server, "a", view, cluster.clock)

    objects = [node("a"), node("b"), OWNER, web("web-1"), pod("shop/elsewhere", on="b")]
    assert in_simulated_cluster(objects, steps, settle=0) == {}


def test_a_line_names_the_first_pods_only() -> None:
    until = datetime(2026, 3, 1, 8, 0, 30, tzinfo=UTC)
    assert line_of([f"shop/web-{number}" for number in range(5)], until, now=START) == (
        "5 pods are still stopping, until 08:00:30 UTC at the latest: "
        "shop/web-0, shop/web-1, shop/web-2 and 2 more"
    )


def test_a_grace_period_that_does_not_end_today_is_shown_with_its_date() -> None:
    _, printed, _ = wait_for(web("web-1", terminationGracePeriodSeconds=24 * 3600))
    assert "until 2026-03-02 08:00:00 UTC at the latest" in printed.splitlines()[0]
