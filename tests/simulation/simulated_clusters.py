"""What the tests of the cluster in memory share: worlds in a line, and short questions."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import TypeVar

from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.simulation.cluster.cluster import SimulatedCluster
from rescheduler.simulation.cluster.controllers.scheduler_loop import Scheduler
from rescheduler.simulation.cluster.json_objects import (
    Json,
    condition,
    is_active,
    is_ready,
    labels_of,
    with_conditions,
)
from rescheduler.simulation.cluster.timings import RandomSeconds, Timings
from rescheduler.simulation.simulated_time import SimulatedClock, run_simulated
from testcluster.builders import namespace

T = TypeVar("T")

START = datetime(2026, 3, 1, 8, 0, tzinfo=UTC)
EXACT = Timings(ready=RandomSeconds(5.0), stop=RandomSeconds(2.0), scheduling=RandomSeconds(0.1))
"""Nothing is left to chance."""


def in_simulated_cluster(
    objects: Iterable[Json],
    steps: Callable[[SimulatedCluster], Awaitable[T]],
    *,
    timings: Timings = EXACT,
    seed: int = 1,
    settle: float = 60.0,
    scheduler: Callable[[ClusterTables], Scheduler] | None = None,
) -> T:
    """Tell something in a cluster that has had time to settle; with none, it stands still."""

    async def live(clock: SimulatedClock) -> T:
        everything = [namespace("shop"), *objects]
        cluster = SimulatedCluster(
            everything, seed=seed, start=START, timings=timings, scheduler=scheduler
        )
        if settle:
            await cluster.start()
            await asyncio.sleep(settle)
        told = await steps(cluster)
        await cluster.stop()
        return told

    return run_simulated(live, START)


def pods_of(cluster: SimulatedCluster, app: str) -> list[Json]:
    """The pods of an application that are there to stay."""
    return [
        pod
        for pod in cluster.list("Pod").values()
        if labels_of(pod).get("app") == app and is_active(pod)
    ]


def names_of(cluster: SimulatedCluster, app: str) -> set[str]:
    """Their names."""
    return {pod["metadata"]["name"] for pod in pods_of(cluster, app)}


def ready_of(cluster: SimulatedCluster, app: str) -> int:
    """How many of them serve."""
    return sum(map(is_ready, pods_of(cluster, app)))


def set_node_ready(cluster: SimulatedCluster, name: str, state: str) -> None:
    """Let a node fail (`False`, `Unknown`) or come back (`True`)."""
    status = cluster.list("Node")[name]["status"]
    ready = condition("Ready", state, cluster.registry.now())
    cluster.patch("Node", name, {"status": with_conditions(status, [ready])}, status=True)


class ReadyCountRange:
    """The least and the greatest number of pods of an application that served, from now on."""

    def __init__(self, cluster: SimulatedCluster, app: str) -> None:
        self._cluster = cluster
        self._app = app
        self.least = self.most = ready_of(cluster, app)
        cluster.subscribe("Pod", self._look)

    def _look(self, old: Json | None, new: Json | None) -> None:
        ready = ready_of(self._cluster, self._app)
        self.least, self.most = min(self.least, ready), max(self.most, ready)
