"""The same moves on the test cluster and on a simulated one, compared step by step."""

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
from tests.migration.support import Sandbox
from tests.simulation.move_cases import CASES, CaseOutcome, CaseRun, move_case
from tests.simulation.real_and_simulated_clusters import (
    RealClusterForCase,
    SimulatedClusterForCase,
    StepRecorder,
    with_controller,
    with_controller_on_real_cluster,
)
from tests.simulation.simulated_clusters import EXACT, START

SEEDS = range(CASES)


def outcome_on_simulated_cluster(seed: int) -> CaseOutcome:
    async def run(clock: SimulatedClock) -> CaseOutcome:
        cluster = SimulatedCluster(
            [namespace_object("memory")], seed=seed, start=START, timings=EXACT
        )
        await cluster.start()
        steps = StepRecorder()
        case_run = CaseRun(move_case(seed), SimulatedClusterForCase(cluster, "memory"))
        await with_controller(cluster.server, steps, case_run.run(), clock=cluster.clock)
        await cluster.stop()
        return case_run.outcome(steps.of["memory/move"])

    return run_simulated(run, START)


async def outcomes_on_real_cluster(sandboxes: list[Sandbox]) -> list[CaseOutcome]:
    """All cases at the same time, with one controller."""
    steps = StepRecorder()
    case_runs = [
        CaseRun(move_case(seed), RealClusterForCase(sandbox))
        for seed, sandbox in zip(SEEDS, sandboxes, strict=True)
    ]

    async def run() -> None:
        await asyncio.gather(*[case_run.run() for case_run in case_runs])

    await with_controller_on_real_cluster(sandboxes[0], steps, run())
    return [
        case_run.outcome(steps.of[f"{sandbox.namespace}/move"])
        for case_run, sandbox in zip(case_runs, sandboxes, strict=True)
    ]


@pytest.fixture
def sandboxes(migratory: TestCluster) -> Iterator[list[Sandbox]]:
    made = []
    client = migratory.client
    for seed in SEEDS:
        name = f"case-{seed}"
        client.create("/api/v1/namespaces", namespace_object(name))
        made.append(Sandbox(migratory, name))
    for sandbox in made:
        account = f"/api/v1/namespaces/{sandbox.namespace}/serviceaccounts/default"
        wait_until(partial(client.exists, account), what="the service account of pods exists")
    yield made
    for sandbox in made:
        client.delete(f"/api/v1/namespaces/{sandbox.namespace}")
        for node in sandbox.nodes:
            with suppress(ApiError):
                client.delete(f"/api/v1/nodes/{node}")


def test_moves_go_the_same_way_on_the_test_cluster_and_a_simulated_one(
    sandboxes: list[Sandbox],
) -> None:
    real = asyncio.run(outcomes_on_real_cluster(sandboxes))
    different = []
    for seed, outcome in zip(SEEDS, real, strict=True):
        simulated = outcome_on_simulated_cluster(seed)
        if simulated != outcome:
            different.append(f"{move_case(seed)}\n  real      {outcome}\n  simulated {simulated}")
    assert not different, "\n" + "\n".join(different)
