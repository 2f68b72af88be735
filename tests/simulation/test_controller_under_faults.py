"""Bugs of the controller that random scenarios have found, each with a test of its own."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from random import Random
from typing import Any

from rescheduler.controller.program import Program
from rescheduler.errors import OutcomeUnknown, Unavailable
from rescheduler.kube.api_server import Answer, Patch
from rescheduler.kube.watch_events import WatchEvent
from rescheduler.migration.migration_request import migration_body
from rescheduler.model.kinds import Kind
from rescheduler.settings import MigrationOptions, Policy
from rescheduler.simulation.cluster.cluster import SimulatedCluster
from rescheduler.simulation.cluster.json_objects import Json, is_deleting, key_of
from testcluster.builders import deployment, node, pod
from tests.simulation.faulty_api_server import FaultRates, FaultyApiServer
from tests.simulation.simulated_clusters import in_simulated_cluster, pods_of

ONE_AT_A_TIME = Policy(
    migration=MigrationOptions(max_in_flight=1, workers=1),
    enabled_strategies=("NodeMaintenance",),
    allow_bare_pods=True,
)
NODES = [node("a"), node("b")]


def program(
    cluster: SimulatedCluster, server: Any = None, policy: Policy = ONE_AT_A_TIME
) -> "asyncio.Task[None]":
    started = Program(server or cluster.server, policy, clock=cluster.clock, chance=Random(1))
    return asyncio.create_task(started.run())


async def ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def move(cluster: SimulatedCluster, pod: Json) -> str:
    """Request a move of a pod to the other node; returns the Migration's key."""
    target = "b" if pod["spec"]["nodeName"] == "a" else "a"
    body = migration_body(key_of(pod), pod["metadata"]["uid"], target)
    return key_of(cluster.create(body))


def phases_in(cluster: SimulatedCluster) -> set[str]:
    """The phases of all Migrations."""
    return {migration["status"]["phase"] for migration in cluster.list("Migration").values()}


class InFlight:
    """The most migrations that were ever in progress at once."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.most = 0

        def look(old: Json | None, new: Json | None) -> None:
            phases = [
                migration["status"]["phase"] for migration in cluster.list("Migration").values()
            ]
            self.most = max(self.most, phases.count("InProgress"))

        cluster.subscribe("Migration", look)


def test_after_a_restart_those_in_flight_count_before_any_other_starts() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        last, *others = sorted(pods_of(cluster, "web"), key=key_of, reverse=True)
        first = program(cluster)
        in_flight = move(cluster, last)
        await asyncio.sleep(1)
        await ended(first)
        assert cluster.list("Migration")[in_flight]["status"]["phase"] == "InProgress"
        # In lists, these come before the one in flight.
        for web in others:
            move(cluster, web)
        seen = InFlight(cluster)
        second = program(cluster)
        await asyncio.sleep(200)
        await ended(second)
        assert seen.most == 1
        assert {
            migration["status"]["phase"] for migration in cluster.list("Migration").values()
        } == {"Completed"}

    in_simulated_cluster([*NODES, deployment("shop/web", 4)], steps)


class LosesFirstStart(FaultyApiServer):
    """Loses the response to the first start of a migration, and then cannot be read for a while."""

    def __init__(self, server: Any, watch_lag: float) -> None:
        rates = FaultRates(longest_lag_seconds=watch_lag)
        super().__init__(server, Random(1), rates)
        self._lost = False
        self._failing_reads = 0

    async def patch(
        self, path: str, body: Any, how: Patch = Patch.MERGE, *, force: bool = False
    ) -> Answer:
        answer = await super().patch(path, body, how, force=force)
        if path.endswith("/status") and not self._lost:
            self._lost, self._failing_reads = True, 3
            raise OutcomeUnknown(f"PATCH {path}", "lost the response")
        return answer

    async def get(self, path: str, type: Any, query: dict[str, str] | None = None) -> Any:
        if "migrations" in path and self._failing_reads:
            self._failing_reads -= 1
            raise Unavailable(f"GET {path}", "503 Service Unavailable")
        return await super().get(path, type, query)


def test_a_start_whose_response_was_lost_keeps_its_slot() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        seen = InFlight(cluster)
        running = program(cluster, LosesFirstStart(cluster.server, watch_lag=3.0))
        await asyncio.sleep(5)
        for web in pods_of(cluster, "web"):
            move(cluster, web)
        await asyncio.sleep(300)
        await ended(running)
        assert seen.most == 1
        assert {
            migration["status"]["phase"] for migration in cluster.list("Migration").values()
        } == {"Completed"}

    in_simulated_cluster([*NODES, deployment("shop/web", 4)], steps)


class LaggingPodWatches(FaultyApiServer):
    """Its watches of pods lag by three seconds."""

    async def watch(
        self,
        kind: Kind[Any],
        resource_version: str,
        timeout_seconds: int,
        batch_seconds: float = 0.0,
    ) -> AsyncGenerator[Sequence[WatchEvent[Any]], None]:
        batches = super().watch(kind, resource_version, timeout_seconds, batch_seconds)
        async with aclosing(batches):
            async for events in batches:
                if events and kind.name == "Pod":
                    await asyncio.sleep(3)
                yield events


def bare_pods(cluster: SimulatedCluster) -> list[str]:
    return [key for key, each in cluster.list("Pod").items() if not is_deleting(each)]


def recreated(interfere: Callable[[SimulatedCluster, str], None]) -> None:
    """Move a pod without a controller; somebody interferes right after it has been evicted."""

    async def steps(cluster: SimulatedCluster) -> None:
        original = cluster.list("Pod")["shop/alone"]
        running = program(cluster, LaggingPodWatches(cluster.server, Random(1), FaultRates()))
        await asyncio.sleep(10)
        name = move(cluster, original)

        def evicted(old: Json | None, new: Json | None) -> None:
            if new is not None and key_of(new) == "shop/alone" and is_deleting(new):
                asyncio.get_running_loop().call_later(0.01, interfere, cluster, name)

        cluster.subscribe("Pod", evicted)
        await asyncio.sleep(120)
        await ended(running)
        (left,) = bare_pods(cluster)
        assert left.startswith("shop/rescheduled-alone-")

    in_simulated_cluster(
        [*NODES, pod("shop/alone", on="a", cpu="100m", labels={"app": "alone"})], steps
    )


def test_a_copy_stays_when_its_target_is_cordoned_while_the_original_goes() -> None:
    recreated(lambda cluster, name: cordon(cluster))


def cordon(cluster: SimulatedCluster) -> None:
    cluster.patch("Node", "b", {"spec": {"unschedulable": True}})


def test_a_copy_stays_when_its_migration_is_paused_while_the_original_goes() -> None:
    recreated(pause)


def pause(cluster: SimulatedCluster, name: str) -> None:
    cluster.patch("Migration", name, {"spec": {"paused": True}})


def test_a_copy_stays_when_its_migration_is_deleted_while_the_original_goes() -> None:
    recreated(lambda cluster, name: cluster.delete("Migration", name))
