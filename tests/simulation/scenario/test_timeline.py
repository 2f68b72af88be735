"""A workload file is turned into a timeline of changes, which depends on the seed alone."""

from itertools import pairwise

import pytest

from rescheduler.labels import MAINTENANCE
from rescheduler.model.kinds import DEPLOYMENT, NODE
from rescheduler.simulation.scenario.example_cluster import example_cluster
from rescheduler.simulation.scenario.timed_changes import (
    CreateObject,
    DeleteObject,
    FailNode,
    PatchObject,
    RestoreNode,
    Timeline,
)
from rescheduler.simulation.scenario.timeline import timeline_of
from rescheduler.simulation.scenario.workload_file import read_workload

DAY, HOUR, MINUTE = 86_400, 3600, 60


def timeline(text: str, seed: int = 0, seconds: float = DAY) -> Timeline:
    workload = read_workload("w.yaml", text.encode())
    return timeline_of(workload, example_cluster(), seed=seed, seconds=seconds)


def replicas(changes: Timeline) -> list[tuple[float, int]]:
    return [
        (change.at_seconds, change.action.body["spec"]["replicas"])
        for change in changes
        if isinstance(change.action, PatchObject) and change.action.kind is DEPLOYMENT
    ]


def test_a_curve_is_highest_at_its_peak_and_lowest_half_a_day_later() -> None:
    text = "deployments: [{name: shop/web, curve: {low: 4, high: 20, peak: '14:00'}}]"
    counts = replicas(timeline(text))
    assert max(count for _, count in counts) == 20
    assert min(count for _, count in counts) == 4
    highest = [at for at, count in counts if count == 20]
    assert highest[0] < 14 * HOUR
    assert all(before != after for (_, before), (_, after) in pairwise(counts))


def test_points_are_joined_by_lines_round_the_clock() -> None:
    text = "deployments: [{name: shop/web, every: 1h, points: {'06:00': 10, '18:00': 22}}]"
    counts = dict(replicas(timeline(text)))
    assert counts[6 * HOUR] == 10
    assert counts[12 * HOUR] == 16
    assert counts[18 * HOUR] == 22
    assert counts[0] == 16


def test_a_time_of_day_is_the_next_one_after_the_start() -> None:
    text = "start: '20:00'\nrollouts: [{deployment: shop/web, at: '03:00'}]"
    (rollout,) = timeline(text)
    assert rollout.at_seconds == 7 * HOUR


def test_what_repeats_repeats_until_the_end() -> None:
    text = "rollouts: [{deployment: shop/web, at: 1h, every: 2h}]"
    assert [change.at_seconds for change in timeline(text, seconds=6 * HOUR)] == [
        1 * HOUR,
        3 * HOUR,
        5 * HOUR,
    ]


def test_a_missing_deployment_is_created_with_its_namespace() -> None:
    text = "deployments: [{name: new/app, replicas: 3, requests: {cpu: 1}}]"
    namespace, created = timeline(text)
    assert isinstance(namespace.action, CreateObject)
    assert namespace.action.body["metadata"]["name"] == "new"
    assert isinstance(created.action, CreateObject)
    assert created.action.body["spec"]["replicas"] == 3


def test_a_job_is_created_for_each_run() -> None:
    text = """
        jobs:
        - {name: batch/report, at: 1h, every: 1h, pods: 5, duration: 10m, requests: {cpu: 1}}
    """
    _, *runs = timeline(text, seconds=3 * HOUR)
    names = [
        run.action.body["metadata"]["name"] for run in runs if isinstance(run.action, CreateObject)
    ]
    assert names == ["report-1", "report-2", "report-3"]


def test_a_failed_node_recovers_at_its_time() -> None:
    failed, back = timeline("failures: [{at: 1h, node: node-05, backAfter: 20m}]")
    assert (failed.at_seconds, failed.action) == (HOUR, FailNode("node-05"))
    assert (back.at_seconds, back.action) == (HOUR + 20 * MINUTE, RestoreNode("node-05"))


def test_maintenance_sets_the_label_and_takes_it_off() -> None:
    begin, end = timeline("maintenance: [{at: 1h, node: node-05, for: 2h}]")
    assert begin.action == PatchObject(
        NODE, "node-05", {"metadata": {"labels": {MAINTENANCE: "true"}}}
    )
    assert end.action == PatchObject(NODE, "node-05", {"metadata": {"labels": {MAINTENANCE: None}}})
    assert end.at_seconds == 3 * HOUR


def test_new_nodes_are_like_the_one_that_is_named_but_not_under_maintenance() -> None:
    first, second, *gone = timeline("newNodes: [{at: 1h, like: node-07, count: 2, goneAfter: 1h}]")
    assert isinstance(first.action, CreateObject)
    body = first.action.body
    assert body["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "general-8"
    assert MAINTENANCE not in body["metadata"]["labels"]
    assert body["metadata"]["labels"]["kubernetes.io/hostname"] == body["metadata"]["name"]
    assert isinstance(second.action, CreateObject)
    assert [change.action for change in gone] == [
        DeleteObject(NODE, "new-1-1"),
        DeleteObject(NODE, "new-1-2"),
    ]


def test_a_rollout_may_change_what_pods_ask_for() -> None:
    (change,) = timeline("rollouts: [{deployment: shop/web, at: 1h, requests: {cpu: 2}}]")
    assert isinstance(change.action, PatchObject)
    (container,) = change.action.body["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": 2}


RANDOM = """
    deployments: [{name: shop/web, jitter: 20, curve: {low: 10, high: 60}}]
    failures: [{at: 1h, every: 1h, count: 3}]
"""


def test_the_same_seed_gives_the_same_timeline() -> None:
    assert timeline(RANDOM, seed=7) == timeline(RANDOM, seed=7)
    assert timeline(RANDOM, seed=7) != timeline(RANDOM, seed=8)


def test_another_entry_does_not_change_what_happens_to_the_others() -> None:
    more = RANDOM + "    maintenance: [{at: 1h, count: 2}]\n"
    before = [change for change in timeline(RANDOM) if isinstance(change.action, FailNode)]
    assert before == [change for change in timeline(more) if isinstance(change.action, FailNode)]


@pytest.mark.parametrize("text", ["", "start: '08:00'"])
def test_nothing_happens_in_an_idle_cluster(text: str) -> None:
    assert timeline(text) == ()
