"""A day of 1,000 nodes and 20,000 pods in memory, with replica counts that follow the day."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from random import Random

from benchmarks.figures import Figure, peak_megabytes, report, times_of
from rescheduler.settings import Policy, Seconds
from rescheduler.simulation.cluster.json_objects import Json
from rescheduler.simulation.results.result import Result
from rescheduler.simulation.scenario import running_objects as running
from rescheduler.simulation.scenario.example_cluster import App
from rescheduler.simulation.scenario.object_builders import namespace_body, node_body
from rescheduler.simulation.scenario.timeline import timeline_of
from rescheduler.simulation.scenario.times import EventTime, TimeOfDay
from rescheduler.simulation.scenario.workload_fields import (
    Curve,
    NewNodes,
    ScaledDeployment,
    WorkloadFile,
)
from rescheduler.simulation.simulation import NamedPolicy, Scenario, simulate

NODES, APPS, REPLICAS = 1_000, 500, 40
PODS = APPS * REPLICAS
DAY_SECONDS = 86_400.0
START = datetime(2025, 1, 2, tzinfo=UTC)
MAX_SECONDS, MAX_MEGABYTES = 120, 400
# The default interval, and a threshold that scaling exceeds again and again, so that there are
# moves all day. A round that plans and moves ten pods costs about a hundred times an idle one.
POLICY = Policy(
    rescheduling_interval_seconds=Seconds(30),
    planning_timeout_seconds=Seconds(1),
    imbalance_threshold=10.0,
)


def main() -> None:
    hours = float(sys.argv[1]) if len(sys.argv) > 1 else 24.0
    random = Random(1)
    apps = [
        App(f"team-{number // 25}/app-{number}", REPLICAS, random.choice((100, 200, 400)), 512)
        for number in range(APPS)
    ]
    objects = list(cluster(apps, random))
    workload = WorkloadFile(deployments=tuple(scaled(app, random) for app in apps))
    timeline = timeline_of(workload, objects, seed=1, seconds=hours * 3600)
    scenario = Scenario(objects, timeline, START, workload.start, hours * 3600, seed=1)
    name = f"simulating {hours:g} hours, {NODES:,} nodes, {PODS:,} pods"
    figures = [Figure(f"{name}: changes of replica counts", len(timeline), "")]
    figures += measured(scenario, None, f"{name}, alone")
    every = f"a round every {POLICY.rescheduling_interval_seconds:g} s"
    figures += measured(scenario, POLICY, f"{name}, {every}")
    report(figures)


def measured(scenario: Scenario, policy: Policy | None, name: str) -> list[Figure]:
    """One run; the memory is the peak of all runs so far."""
    results: list[Result] = []
    took = times_of(lambda: results.append(simulate(scenario, NamedPolicy("", policy))))
    return [
        Figure(f"{name}: wall time", took.wall_seconds, "s", MAX_SECONDS),
        Figure(f"{name}: CPU", took.cpu_seconds, "s"),
        Figure(f"{name}: peak memory", peak_megabytes(), "MB", MAX_MEGABYTES),
        Figure(f"{name}: pods placed", results[0].pending.pods, ""),
        Figure(f"{name}: moves", results[0].migrations.total, ""),
        Figure(f"{name}: rounds with moves", results[0].rounds.with_moves, ""),
    ]


def cluster(apps: list[App], random: Random) -> Iterator[Json]:
    """Nodes of which the first are fuller than the last, and Deployments with all their pods."""
    shape = NewNodes(at=EventTime("0s"), allocatable={"cpu": "16", "memory": "64Gi", "pods": "110"})
    names = [f"node-{number:04}" for number in range(NODES)]
    yield from map(namespace_body, sorted({app.namespace for app in apps}))
    yield from (node_body(name, None, shape) for name in names)
    for number, app in enumerate(apps):
        labels, template_hash = {"app": app.name}, f"{number:06x}"
        spec = app.pod_spec
        deployment = running.deployment(app.key, labels, spec, app.replicas)
        replica_set = running.replica_set(deployment, template_hash)
        yield deployment
        yield replica_set
        pod_labels = {**labels, "pod-template-hash": template_hash}
        for index in range(app.replicas):
            node = names[int(NODES * random.random() ** 1.2)]
            key = f"{app.namespace}/{replica_set['metadata']['name']}-{index:05}"
            yield running.pod(key, node, spec, pod_labels, replica_set)


def scaled(app: App, random: Random) -> ScaledDeployment:
    """A random time of the peak, and on average as many pods as there are at the start."""
    swing = app.replicas // 4
    return ScaledDeployment(
        name=app.key,
        curve=Curve(
            low=app.replicas - swing,
            high=app.replicas + swing,
            peak=TimeOfDay(random.randrange(24) * 3600),
        ),
    )


if __name__ == "__main__":
    main()
