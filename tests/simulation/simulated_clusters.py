"""Runs test steps in a small simulated cluster, and helpers to look at its pods."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import TypeVar

from rescheduler.simulation.cluster.cluster import SimulatedCluster
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
"""Durations without random deviation."""


def in_simulated_cluster(
    objects: Iterable[Json],
    steps: Callable[[SimulatedCluster], Awaitable[T]],
    *,
    timings: Timings = EXACT,
    seed: int = 1,
    settle: float = 60.0,
) -> T:
    """Run steps in a cluster that has settled; with `settle=0`, no controller runs."""

    async def run(clock: SimulatedClock) -> T:
        everything = [namespace("shop"), *objects]
        cluster = SimulatedCluster(everything, seed=seed, start=START, timings=timings)
        if settle:
            await cluster.start()
            await asyncio.sleep(settle)
        result = await steps(cluster)
        await cluster.stop()
        return result

    return run_simulated(run, START)


def pods_of(cluster: SimulatedCluster, app: str) -> list[Json]:
    """The active pods of an application."""
    return [
        pod
        for pod in cluster.list("Pod").values()
        if labels_of(pod).get("app") == app and is_active(pod)
    ]


def names_of(cluster: SimulatedCluster, app: str) -> set[str]:
    """The names of its active pods."""
    return {pod["metadata"]["name"] for pod in pods_of(cluster, app)}


def ready_of(cluster: SimulatedCluster, app: str) -> int:
    """How many of its active pods are Ready."""
    return sum(map(is_ready, pods_of(cluster, app)))


def set_node_ready(cluster: SimulatedCluster, name: str, state: str) -> None:
    """Let a node fail (`False`, `Unknown`) or recover (`True`)."""
    status = cluster.list("Node")[name]["status"]
    ready = condition("Ready", state, cluster.registry.now())
    cluster.patch("Node", name, {"status": with_conditions(status, [ready])}, status=True)


class ReadyCountRange:
    """The lowest and the highest number of Ready pods of an application, from now on."""

    def __init__(self, cluster: SimulatedCluster, app: str) -> None:
        self._cluster = cluster
        self._app = app
        self.lowest = self.highest = ready_of(cluster, app)
        cluster.subscribe("Pod", self._update)

    def _update(self, old: Json | None, new: Json | None) -> None:
        ready = ready_of(self._cluster, self._app)
        self.lowest, self.highest = min(self.lowest, ready), max(self.highest, ready)
