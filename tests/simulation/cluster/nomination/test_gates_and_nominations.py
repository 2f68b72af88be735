"""Gated and nominated pods fare alike on the test cluster and on a simulated one."""

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from rescheduler.simulation.cluster.cluster import SimulatedCluster
from rescheduler.simulation.simulated_time import SimulatedClock, run_simulated
from testcluster import TestCluster
from testcluster.builders import namespace as namespace_object
from testcluster.waiting import wait_until
from tests.migration.support import Sandbox, client_for
from tests.simulation.cluster.nomination.stories import STORIES, Story
from tests.simulation.cluster.nomination.story_cluster import StoryCluster
from tests.simulation.real_and_simulated_clusters import (
    RealClusterForCase,
    SimulatedClusterForCase,
)
from tests.simulation.simulated_clusters import EXACT, START


def on_simulated_cluster(story: Story) -> Any:
    async def run(clock: SimulatedClock) -> Any:
        cluster = SimulatedCluster([namespace_object("memory")], seed=1, start=START, timings=EXACT)
        await cluster.start()
        seen = await story(StoryCluster(cluster.server, SimulatedClusterForCase(cluster, "memory")))
        await cluster.stop()
        return seen

    return run_simulated(run, START)


async def on_real_cluster(sandboxes: list[Sandbox]) -> list[Any]:
    """What each story saw, or the error that ended it; all are told at the same time."""
    async with client_for(sandboxes[0].cluster) as client:
        running = [
            story(StoryCluster(client, RealClusterForCase(sandbox)))
            for story, sandbox in zip(STORIES, sandboxes, strict=True)
        ]
        return await asyncio.gather(*running, return_exceptions=True)


@pytest.fixture(scope="module")
def seen_on_real_cluster(cluster: TestCluster) -> Iterator[dict[Story, Any]]:
    client = cluster.client
    sandboxes = [Sandbox(cluster, f"story-{number}") for number in range(len(STORIES))]
    for sandbox in sandboxes:
        client.create("/api/v1/namespaces", namespace_object(sandbox.namespace))
    for sandbox in sandboxes:
        account = f"/api/v1/namespaces/{sandbox.namespace}/serviceaccounts/default"
        wait_until(partial(client.exists, account), what="pods can be made")
    yield dict(zip(STORIES, asyncio.run(on_real_cluster(sandboxes)), strict=True))
    for sandbox in sandboxes:
        client.delete(f"/api/v1/namespaces/{sandbox.namespace}")
        for node in sandbox.nodes:
            client.delete(f"/api/v1/nodes/{node}")


@pytest.mark.parametrize("story", STORIES, ids=lambda story: str(story.__name__))
def test_both_clusters_tell_the_same_story(
    story: Story, seen_on_real_cluster: dict[Story, Any]
) -> None:
    real = seen_on_real_cluster[story]
    if isinstance(real, Exception):
        raise real
    assert on_simulated_cluster(story) == real
