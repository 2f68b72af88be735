"""Runs of small clusters, with the rescheduler and without it."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rescheduler.labels import MAINTENANCE
from rescheduler.settings import Policy, Seconds, StrategyName
from rescheduler.simulation.results.result import Result
from rescheduler.simulation.results.text import headline
from rescheduler.simulation.scenario.cluster_completion import complete_cluster
from rescheduler.simulation.scenario.cluster_input import objects_in
from rescheduler.simulation.scenario.example_cluster import example_cluster, example_policy
from rescheduler.simulation.scenario.timeline import timeline_of
from rescheduler.simulation.scenario.workload_file import read_workload
from rescheduler.simulation.simulation import NamedPolicy, Progress, Scenario, simulate
from testcluster.builders import budget, deployment, node, pod, replicaset, statefulset
from tests.simulation.scenario.test_cluster_completion import as_snapshot

EXAMPLE = Path(__file__).parents[2] / "examples" / "uneven-cluster.yaml"
WITHOUT_RESCHEDULER = NamedPolicy("none", None)
MINUTE = 60.0


def scenario(
    objects: Iterable[dict[str, Any]], minutes: float, workload: str = "", seed: int = 0
) -> Scenario:
    cluster = complete_cluster(objects)
    workload_file = read_workload("w", workload.encode())
    seconds = minutes * MINUTE
    timeline = timeline_of(workload_file, cluster.objects, seed=seed, seconds=seconds)
    midnight = datetime(2026, 1, 1, tzinfo=UTC)
    return Scenario(cluster.objects, timeline, midnight, workload_file.start, seconds, seed)


def quick(*strategies: str, **more: Any) -> NamedPolicy:
    made = msgspec.structs.replace(
        example_policy(), rescheduling_interval_seconds=Seconds(30), **more
    )
    named = msgspec.structs.replace(made, enabled_strategies=strategies or made.enabled_strategies)
    return NamedPolicy("quick", named)


def empty_nodes(*names: str) -> list[dict[str, Any]]:
    return [node(name, cpu="8", memory="16Gi") for name in names]


def web_on(name: str, replicas: int, cpu: str = "500m", **spec: Any) -> list[dict[str, Any]]:
    """A Deployment whose pods all run on one node."""
    owner = deployment("shop/web", replicas, cpu, **spec)
    labels = {"app": "web", "pod-template-hash": "5d8bc"}
    version = replicaset("shop/web-5d8bc", replicas, cpu, labels=labels, owner=owner)
    return [
        owner,
        version,
        *(
            pod(f"shop/web-5d8bc-{number}", on=name, cpu=cpu, labels=labels, owner=version)
            for number in range(replicas)
        ),
    ]


# ------------------------------------------------------------ nothing workload_file by itself


@pytest.mark.parametrize("source", ["generated", "snapshot", "example"])
def test_a_cluster_that_is_left_alone_stays_as_it_is(source: str) -> None:
    files = {"snapshot": as_snapshot(example_cluster()), "example": EXAMPLE.read_bytes()}
    objects = objects_in([(source, files[source])]) if source in files else example_cluster()
    result = simulate(scenario(objects, 30), WITHOUT_RESCHEDULER)
    assert result.pending.pods == 0
    assert result.other_shortages.total == 0
    assert len({point.value for point in result.imbalance}) == 1
    assert headline(result).endswith("points without the rescheduler.")


# ------------------------------------------------------------ what the workload file says


def test_scaling_causes_shortages_that_are_not_attributed_to_moves() -> None:
    objects = [*empty_nodes("a", "b"), *web_on("a", 2)]
    text = "deployments: [{name: shop/web, replicas: 6}]"
    result = simulate(scenario(objects, 2, text), WITHOUT_RESCHEDULER)
    assert result.other_shortages.by_cause == {"Scaling": 4}
    assert result.pending.pods == 4
    assert 4 * 4 < result.other_shortages.pod_seconds < 4 * 14


def test_jobs_run_and_finish() -> None:
    text = "jobs: [{name: batch/j, at: 1m, pods: 3, duration: 2m, requests: {cpu: 1}}]"
    result = simulate(scenario(empty_nodes("a", "b"), 6, text), WITHOUT_RESCHEDULER)
    in_use = [point.value for point in result.nodes_in_use]
    assert max(in_use) > 0
    assert in_use[0] == in_use[-1] == 0


def test_pods_of_a_failed_node_are_replaced_and_attributed_to_it() -> None:
    objects = [*empty_nodes("a", "b"), *web_on("a", 2)]
    text = "failures: [{at: 1m, node: a, backAfter: 20m}]"
    result = simulate(scenario(objects, 10, text), WITHOUT_RESCHEDULER)
    own = result.other_shortages
    assert own.by_cause == {"NodeFailure": 2}
    assert 2 * 290 < own.pod_seconds < 2 * 360
    assert [entry.what for entry in result.timeline] == ["a fails"]


def test_a_rollout_is_not_attributed_to_moves() -> None:
    objects = [*empty_nodes("a", "b"), *web_on("a", 4)]
    text = "rollouts: [{deployment: shop/web, at: 1m}]"
    result = simulate(scenario(objects, 4, text), WITHOUT_RESCHEDULER)
    assert set(result.other_shortages.by_cause) == {"Rollout"}


def test_new_nodes_take_pods() -> None:
    objects = [node("a", cpu="2"), *web_on("a", 4)]
    text = """
        deployments: [{name: shop/web, points: {"00:00": 8}}]
        newNodes: [{at: 2m, like: a}]
    """
    result = simulate(scenario(objects, 4, text), WITHOUT_RESCHEDULER)
    assert result.nodes_in_use[-1].value == 2
    assert result.pending.longest_seconds > 100


def test_a_change_that_fails_is_recorded_and_the_run_continues() -> None:
    text = """
        failures: [{at: 2m, node: b}]
        newNodes: [{at: 1m, like: a, goneAfter: 1m}]
        rollouts: [{deployment: shop/web, at: 3m}]
    """
    made = scenario([*empty_nodes("a", "b"), *web_on("a", 1)], 4, text)
    without_b = [value for value in made.objects if value["metadata"]["name"] != "b"]
    result = simulate(replace(made, objects=without_b), WITHOUT_RESCHEDULER)
    timeline = [entry.what for entry in result.timeline]
    assert any(text.startswith("b fails: ") for text in timeline)
    assert timeline[-1] == "shop/web gets a new version"


# ------------------------------------------------------------ with the rescheduler


def test_a_node_is_emptied_by_handoff_though_its_budget_allows_nothing() -> None:
    maintained = node("a", cpu="8", labels={MAINTENANCE: "true"})
    protected = budget("shop/web", min_available="100%", selector={"app": "web"})
    objects = [maintained, *empty_nodes("b", "c"), *web_on("a", 6), protected]
    result = simulate(scenario(objects, 5), quick(StrategyName.NODE_MAINTENANCE))
    assert result.migrations.by_phase == {"Completed": 6}
    assert result.migrations.by_mode == {"Handoff": 6}
    assert result.shortages_by_moves.total == 0
    assert result.leftovers.count == 0
    assert result.migrations.mean_seconds > 0


def test_an_eviction_causes_a_shortage() -> None:
    members = statefulset("data/db", 2, cpu="1")
    maintained = node("a", labels={MAINTENANCE: "true"})
    pods = [
        pod(f"data/db-{n}", on="ab"[n], cpu="1", labels={"app": "db"}, owner=members)
        for n in (0, 1)
    ]
    objects = [maintained, *empty_nodes("b", "c"), members, *pods]
    result = simulate(scenario(objects, 5), quick(StrategyName.NODE_MAINTENANCE))
    assert result.migrations.by_mode == {"Evict": 1}
    assert result.shortages_by_moves.by_workload == {"StatefulSet data/db": 1}
    assert result.shortages_by_moves.by_cause == {"Evict": 1}
    assert result.shortages_by_moves.pod_seconds > 0


def test_blockers_are_explained_in_plain_words() -> None:
    objects = [
        *empty_nodes("b", "c"),
        node("a", labels={MAINTENANCE: "true"}),
        pod("x/bare", on="a"),
    ]
    result = simulate(scenario(objects, 2), quick(StrategyName.NODE_MAINTENANCE))
    (blocked,) = result.blocked
    assert (blocked.blocker, blocked.pods) == ("BarePod", 1)
    assert blocked.meaning == "no controller would recreate the pod"
    assert result.rounds.with_moves == 0


def test_an_interrupted_run_has_the_results_so_far() -> None:
    looks: list[Progress] = []
    result: Result = simulate(
        scenario(empty_nodes("a"), 60),
        NamedPolicy("x", Policy()),
        show=looks.append,
        is_interrupted=lambda: len(looks) >= 5,
    )
    assert result.interrupted
    assert result.seconds == 4 * MINUTE
    assert len(result.imbalance) == 5


def test_a_failed_round_is_a_warning_of_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise RuntimeError("no luck")

    monkeypatch.setattr("rescheduler.controller.planning_loop.make_plan", fail)
    result = simulate(scenario(empty_nodes("a"), 1), NamedPolicy("x", Policy()))
    assert any("Failed a round: RuntimeError: no luck" in text for text in result.warnings)
