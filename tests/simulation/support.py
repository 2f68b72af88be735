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
from rescheduler.simulation.cluster.timings import Spread, Timings
from rescheduler.simulation.simulated_time import Clock, run
from testcluster.builders import namespace

T = TypeVar("T")

START = datetime(2026, 3, 1, 8, 0, tzinfo=UTC)
EXACT = Timings(ready=Spread(5.0), stop=Spread(2.0), scheduling=Spread(0.1))
"""Nothing is left to chance."""


def in_world(
    objects: Iterable[Json],
    tell: Callable[[SimulatedCluster], Awaitable[T]],
    *,
    timings: Timings = EXACT,
    seed: int = 1,
    settle: float = 60.0,
    scheduler: Callable[[ClusterTables], Scheduler] | None = None,
) -> T:
    """Tell something in a world that has had time to settle; with none, it stands still."""

    async def live(clock: Clock) -> T:
        everything = [namespace("shop"), *objects]
        world = SimulatedCluster(
            everything, seed=seed, start=START, timings=timings, scheduler=scheduler
        )
        if settle:
            await world.start()
            await asyncio.sleep(settle)
        told = await tell(world)
        await world.stop()
        return told

    return run(live, START)


def pods_of(world: SimulatedCluster, app: str) -> list[Json]:
    """The pods of an application that are there to stay."""
    return [
        pod
        for pod in world.list("Pod").values()
        if labels_of(pod).get("app") == app and is_active(pod)
    ]


def names_of(world: SimulatedCluster, app: str) -> set[str]:
    """Their names."""
    return {pod["metadata"]["name"] for pod in pods_of(world, app)}


def ready_of(world: SimulatedCluster, app: str) -> int:
    """How many of them serve."""
    return sum(map(is_ready, pods_of(world, app)))


def set_node_ready(world: SimulatedCluster, name: str, state: str) -> None:
    """Let a node fail (`False`, `Unknown`) or come back (`True`)."""
    status = world.list("Node")[name]["status"]
    ready = condition("Ready", state, world.registry.now())
    world.patch("Node", name, {"status": with_conditions(status, [ready])}, status=True)


class Fewest:
    """The least and the greatest number of pods of an application that served, from now on."""

    def __init__(self, world: SimulatedCluster, app: str) -> None:
        self._world = world
        self._app = app
        self.least = self.most = ready_of(world, app)
        world.subscribe("Pod", self._look)

    def _look(self, old: Json | None, new: Json | None) -> None:
        ready = ready_of(self._world, self._app)
        self.least, self.most = min(self.least, ready), max(self.most, ready)
