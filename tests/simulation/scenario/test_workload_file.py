"""Workload files are read strictly, and errors name the mistake."""

from pathlib import Path

import pytest

from rescheduler.errors import SettingsError
from rescheduler.simulation.scenario.example_cluster import example_cluster
from rescheduler.simulation.scenario.timeline import timeline_of
from rescheduler.simulation.scenario.workload_fields import WorkloadFile
from rescheduler.simulation.scenario.workload_file import read_workload

EXAMPLES = sorted((Path(__file__).parents[3] / "examples" / "workloads").glob("*.yaml"))

JOB = "jobs: [{name: batch/report, pods: %s, duration: %s, requests: {cpu: %s}}]"


def test_an_empty_file_changes_nothing() -> None:
    assert read_workload("w.yaml", b"") == WorkloadFile()


def test_times_may_be_written_without_quotes() -> None:
    quoted = read_workload("w.yaml", b'start: "14:05"')
    assert read_workload("w.yaml", b"start: 14:05") == quoted
    assert quoted.start == 14 * 3600 + 5 * 60


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("deploymnts: []", "deploymnts: unknown, did you mean deployments?"),
        ("start: 6", "start: 6: expected a time of day such as '14:00'"),
        (
            "deployments: [{name: Shop/web, replicas: 1}]",
            "deployments[0].name: 'Shop/web': expected small letters, digits and '-'",
        ),
        (
            "deployments: [{name: a/b, replicas: 1}, {name: a/b, replicas: 2}]",
            "deployments[1].name: 'a/b': there is another entry of this name",
        ),
        (
            "deployments: [{name: a/b, replicas: 3000000000}]",
            "deployments[0].replicas: 3000000000: expected at most 100000",
        ),
        (
            "deployments: [{name: a/b, points: {6:00: 1, '06:00': 2}}]",
            "deployments[0].points: '06:00': there is another count at this time",
        ),
        (
            "rollouts: [{deployment: a/b, at: 1m, every: 1ms}]",
            "rollouts[0].every: '0.001s': expected 1s or more",
        ),
        ("start: noon", "start: 'noon': expected a time of day such as '14:00'"),
        (JOB % ("0", "1m", "1"), "jobs[0].pods: 0: expected a whole number, 1 or more"),
        (JOB % ("1", "soon", "1"), "jobs[0].duration: 'soon': expected a duration"),
        (JOB % ("1", "1m", "5oom"), "jobs[0].requests.cpu: '5oom': expected a number"),
        (JOB % ("1", "1m", "-1"), "jobs[0].requests.cpu: -1: expected 0 or more"),
        (
            "jobs: [{name: a/b, pods: 1, duration: 1m, requests: {cpus: 1}}]",
            "jobs[0].requests.cpus: unknown, expected such as cpu, memory",
        ),
        (
            "deployments: [{name: web, replicas: 1}]",
            "deployments[0].name: 'web': expected a name such as 'shop/web'",
        ),
        (
            "deployments: [{name: shop/web}]",
            "deployments[0]: expected one of curve, points and replicas",
        ),
        (
            "deployments: [{name: shop/web, curve: {low: 5, high: 4}}]",
            "deployments[0].curve.low: 5: expected no more than high (4)",
        ),
        (
            "deployments: [{name: shop/web, points: {'25:00': 3}}]",
            "deployments[0].points: '25:00': expected a time of day such as '14:00'",
        ),
        ("failures: [{at: 3pm, count: 1}]", "failures[0].at: '3pm': expected a time of day"),
        ("failures: [{at: 3m}]", "failures[0]: expected one of node and count"),
        ("newNodes: [{at: 3m}]", "newNodes[0]: expected one of like and allocatable"),
        ("rollouts: [{deployment: shop/web}]", "rollouts[0].at: missing"),
        ("[]", "[]: expected a mapping"),
        ("a: 1\n---\nb: 1", "2 documents: expected one"),
        ("a: [", "YAML is malformed"),
    ],
)
def test_a_mistake_is_named_with_its_file_field_value_and_what_was_expected(
    text: str, expected: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        read_workload("w.yaml", text.encode())
    assert str(caught.value).startswith(f"w.yaml: {expected}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "deployments: [{name: shop/webb, replicas: 3}]",
            "deployments[0].name: 'shop/webb': expected a Deployment of the cluster, "
            "or requests to create one with; did you mean shop/web?",
        ),
        (
            "rollouts: [{deployment: shop/nothing-like-it-at-all, at: 1m}]",
            "rollouts[0].deployment: 'shop/nothing-like-it-at-all': "
            "expected a Deployment of the cluster",
        ),
        (
            "failures: [{at: 1m, node: node-1}]",
            "failures[0].node: 'node-1': expected a node of the cluster; did you mean",
        ),
        (
            "failures: [{at: 1m, count: 41}]",
            "failures[0].count: 41: expected no more than the cluster has nodes (40)",
        ),
        (
            "maintenance: [{at: 1m, count: 1, label: 'a b'}]",
            "maintenance[0].label: 'a b': expected a label such as",
        ),
        ("newNodes: [{at: 1m, like: x}]", "newNodes[0].like: 'x': expected a node of the cluster"),
    ],
)
def test_what_the_cluster_does_not_have_is_named(text: str, expected: str) -> None:
    workload = read_workload("w.yaml", text.encode())
    with pytest.raises(SettingsError) as caught:
        timeline_of(workload, example_cluster(), seed=0, seconds=3600, name="w.yaml")
    assert str(caught.value).startswith(f"w.yaml: {expected}")


def test_there_are_examples_and_they_fit_the_example_cluster() -> None:
    assert len(EXAMPLES) >= 2
    for example in EXAMPLES:
        workload = read_workload(example.name, example.read_bytes())
        assert timeline_of(workload, example_cluster(), seed=0, seconds=86_400)
