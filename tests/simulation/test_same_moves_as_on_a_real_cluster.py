"""The same stories on the test cluster and in memory: they end the same, step by step."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import pytest

from rescheduler.simulation.cluster.cluster import SimulatedCluster
from rescheduler.simulation.simulated_time import SimulatedClock, run_simulated
from testcluster import TestCluster
from testcluster.builders import namespace as namespace_object
from testcluster.client import ApiError
from testcluster.waiting import wait_until
from tests.migration.support import Corner
from tests.simulation.move_cases import CaseOutcome, CaseRun, move_case
from tests.simulation.real_and_simulated_clusters import (
    RealClusterForCase,
    SimulatedClusterForCase,
    StepRecorder,
    with_controller,
    with_controller_on_real_cluster,
)
from tests.simulation.simulated_clusters import EXACT, START

SEEDS = range(20)


def told_in_memory(seed: int) -> CaseOutcome:
    async def live(clock: SimulatedClock) -> CaseOutcome:
        cluster = SimulatedCluster(
            [namespace_object("memory")], seed=seed, start=START, timings=EXACT
        )
        await cluster.start()
        steps = StepRecorder()
        telling = CaseRun(move_case(seed), SimulatedClusterForCase(cluster, "memory"))
        await with_controller(cluster.server, steps, telling.steps(), clock=cluster.clock)
        await cluster.stop()
        return telling.ending(steps.of["memory/move"])

    return run_simulated(live, START)


async def told_for_real(corners: list[Corner]) -> list[CaseOutcome]:
    """All stories at the same time, with one controller."""
    steps = StepRecorder()
    tellings = [
        CaseRun(move_case(seed), RealClusterForCase(corner))
        for seed, corner in zip(SEEDS, corners, strict=True)
    ]

    async def live() -> None:
        await asyncio.gather(*[telling.steps() for telling in tellings])

    await with_controller_on_real_cluster(corners[0], steps, live())
    return [
        telling.ending(steps.of[f"{corner.namespace}/move"])
        for telling, corner in zip(tellings, corners, strict=True)
    ]


@pytest.fixture
def corners(migratory: TestCluster) -> Iterator[list[Corner]]:
    made = []
    client = migratory.client
    for seed in SEEDS:
        name = f"story-{seed}"
        client.create("/api/v1/namespaces", namespace_object(name))
        made.append(Corner(migratory, name))
    for corner in made:
        account = f"/api/v1/namespaces/{corner.namespace}/serviceaccounts/default"
        wait_until(partial(client.exists, account), what="pods can be made")
    yield made
    for corner in made:
        client.delete(f"/api/v1/namespaces/{corner.namespace}")
        for node in corner.nodes:
            with suppress(ApiError):
                client.delete(f"/api/v1/nodes/{node}")


def test_twenty_stories_end_the_same_on_the_test_cluster_and_in_memory(
    corners: list[Corner],
) -> None:
    real = asyncio.run(told_for_real(corners))
    different = []
    for seed, ending in zip(SEEDS, real, strict=True):
        simulated = told_in_memory(seed)
        if simulated != ending:
            different.append(f"{plot_of(seed)}\n  real   {ending}\n  memory {simulated}")
    assert not different, "\n" + "\n".join(different)
