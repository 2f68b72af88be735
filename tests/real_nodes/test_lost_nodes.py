"""A node that stops answering, or goes away, in the middle of handoffs to and from it."""

import asyncio
from pathlib import Path

import pytest

from rescheduler.settings import MigrationOptions, Seconds
from testcluster import TestCluster
from testcluster.realnodes.web_apps import WebApp, WebAppWatch
from tests.conftest import FreshCluster, serve_migrations
from tests.migration.support import Sandbox, controller_on, is_ready, node_of
from tests.real_nodes.support import namespace_of, run_apps, traces_of_moves

OPTIONS = MigrationOptions(
    max_in_flight=20,
    max_per_node=20,
    max_retries=0,
    timeout_seconds=Seconds(30),
)

# The new pods are still starting when the node is lost, on a busy machine, too.
SLOW_START = ("-warm-up", "6s")


class Handoffs:
    """Pods that leave a node, and as many that arrive on it, each of an application of its own."""

    def __init__(self, sandbox: Sandbox, count: int) -> None:
        self.sandbox = sandbox
        self.node, self.second, self.third = sandbox.cluster.nodes.names
        self.leaving = apps("leaving", count)
        self.arriving = apps("arriving", count)
        self.moves: list[str] = []
        self.arrived: set[str] = set()
        """The applications whose new pods were Ready when the node was lost."""

    def run(self) -> None:
        """Start the applications."""
        run_apps(self.sandbox, self.leaving, self.node)
        run_apps(self.sandbox, self.arriving, self.second)

    async def start(self) -> None:
        """Ask for all moves, and return in the middle of them."""
        targets = {self.node: self.third, self.second: self.node}
        pods = self.sandbox.pods()
        self.moves = [self.sandbox.migrate(pod, targets[node_of(pod)]) for pod in pods]
        await self.sandbox.until(self.have_all_started, "all moves are under way")

    def have_all_started(self) -> bool:
        """Whether all moves have started, and the scheduler has placed a new pod."""
        found = self.sandbox.all("migrations")
        arrived = [pod for pod in self.sandbox.pods() if node_of(pod) == self.node]
        return all(
            move.get("status", {}).get("phase", "Pending") != "Pending" for move in found
        ) and len(arrived) > len(self.leaving)

    def remember_arrivals(self) -> None:
        """Look which new pods were Ready in time; the node can no longer change that."""
        self.arrived = {
            pod["metadata"]["labels"]["app"]
            for pod in self.sandbox.pods()
            if node_of(pod) == self.node and is_ready(pod)
        }

    async def finished(self) -> None:
        """Wait until every move is finished or undone, and check that nothing is left of it."""
        statuses = await self.sandbox.finished(*self.moves, timeout=180)
        assert {status["phase"] for status in statuses} <= {"Completed", "Failed"}, statuses
        assert traces_of_moves(self.sandbox) == []

    async def until_whole(self) -> None:
        """Wait until every application has its one pod, and no other."""
        count = len(self.leaving) + len(self.arriving)

        def is_whole() -> bool:
            pods = self.sandbox.pods()
            return len(pods) == count and all(map(is_ready, pods))

        await self.sandbox.until(is_whole, "all pods are Ready", 180)
        assert traces_of_moves(self.sandbox) == []

    def check(self, watch: WebAppWatch) -> None:
        """Those whose pods were on another node had a Ready pod all the time.

        Except where the new pod was Ready: the old one may have left its Services by then, or the
        move may be over, and the node takes along the pod that it was given.
        """
        assert watch.problems == []
        others = [app.name for app in self.arriving if app.name not in self.arrived]
        assert {name: watch.fewest_ready[name] for name in others} == dict.fromkeys(others, 1)


def apps(name: str, count: int) -> list[WebApp]:
    """Applications with a Service and one pod each."""
    return [
        WebApp(f"{name}-{number}", replicas=1, has_budget=False, server_options=SLOW_START)
        for number in range(count)
    ]


async def test_a_kubelet_that_stops_during_twenty_handoffs_leaves_none_of_them_half_done(
    real_cluster: TestCluster, tmp_path: Path
) -> None:
    with namespace_of(real_cluster, "stopped-kubelet") as sandbox:
        handoffs = Handoffs(sandbox, count=10)
        await asyncio.to_thread(handoffs.run)
        with WebAppWatch(real_cluster, sandbox.namespace, tmp_path) as watch:
            async with controller_on(real_cluster, OPTIONS):
                await handoffs.start()
                real_cluster.nodes.stop_kubelet(handoffs.node)
                handoffs.remember_arrivals()
                try:
                    await handoffs.finished()
                finally:
                    real_cluster.nodes.continue_kubelet(handoffs.node)
                await handoffs.until_whole()
        handoffs.check(watch)


@pytest.mark.usefixtures("needs_real_nodes")
async def test_a_node_that_is_lost_during_handoffs_takes_only_its_own_pods_along(
    fresh_cluster: FreshCluster, tmp_path: Path
) -> None:
    cluster = fresh_cluster(real_nodes=3)
    serve_migrations(cluster)
    sandbox = Sandbox(cluster, "lost-node")
    handoffs = Handoffs(sandbox, count=4)
    await asyncio.to_thread(handoffs.run)
    with WebAppWatch(cluster, sandbox.namespace, tmp_path) as watch:
        async with controller_on(cluster, OPTIONS):
            await handoffs.start()
            cluster.nodes.kill(handoffs.node)
            handoffs.remember_arrivals()
            await handoffs.finished()
            # As an administrator does who knows that it will not come back.
            cluster.client.delete(f"/api/v1/nodes/{handoffs.node}")
            lost = ("--field-selector", f"spec.nodeName={handoffs.node}", "--force")
            cluster.kubectl("-n", sandbox.namespace, "delete", "pods", "--wait=false", *lost)
            await handoffs.until_whole()
    handoffs.check(watch)
