"""The controller is killed at every write of every mode that evicts, and another one continues.

Each process first finishes what the one before has left, and is then killed too.
"""

import pytest

from testcluster.applying import apply
from testcluster.builders import deployment, pod, statefulset
from testcluster.client import JsonObject
from testcluster.waiting import wait_until
from tests.migration.killed_controllers import cases, run_killed
from tests.migration.ready_pod_watch import ReadyPodWatch
from tests.migration.support import Sandbox, is_ready

pytestmark = pytest.mark.long

EVICT = ("start", "label-old", "evict", "landing", "old-ended", "claim", "complete", "finish")
COORDINATED = ("create-budget", "evict", "delete-budget")
RECREATE = (
    "start",
    "create-copy",
    "nominate",
    "label-old",
    "open-gate",
    "hand-over",
    "evict",
    "complete",
    "give-away",
    "finish",
)


def test_killed_in_an_eviction_it_follows_the_replacement(sandbox: Sandbox) -> None:
    sandbox.add_nodes("first", cpu="16")
    all_cases = cases("e", EVICT)
    for case in all_cases:
        body = statefulset(f"{sandbox.namespace}/{case.app}", 1, "100m", template=sandbox.here())
        apply(sandbox.cluster, body)
    wait_until(lambda: sum(map(is_ready, sandbox.pods())) == len(all_cases))
    (target,) = sandbox.add_nodes("second", cpu="16")
    statuses = run_killed(sandbox, all_cases, target)
    assert {status["phase"] for status in statuses.values()} == {"Completed"}
    assert all(is_ready(found) for found in sandbox.pods())
    assert len(sandbox.pods()) == len(all_cases)


def test_killed_under_deployment_coordination_it_removes_the_temporary_budget(
    sandbox: Sandbox,
) -> None:
    sandbox.add_nodes("first", cpu="16")
    all_cases = cases("c", COORDINATED)
    for case in all_cases:
        body = deployment(
            f"{sandbox.namespace}/{case.app}",
            1,
            "100m",
            template=sandbox.here(),
            strategy={"type": "Recreate"},
        )
        apply(sandbox.cluster, body)
    wait_until(lambda: sum(map(is_ready, sandbox.pods())) == len(all_cases))
    (target,) = sandbox.add_nodes("second", cpu="16")
    statuses = run_killed(sandbox, all_cases, target)
    assert {status["phase"] for status in statuses.values()} == {"Completed"}
    assert sandbox.all("poddisruptionbudgets") == []
    wait_until(lambda: len(sandbox.pods()) == len(all_cases), what="one pod each")


def test_killed_in_a_recreation_it_loses_no_pod_and_creates_no_second_copy(
    sandbox: Sandbox,
) -> None:
    sandbox.add_nodes("first", cpu="16")
    all_cases = cases("r", RECREATE)
    for case in all_cases:
        apply(sandbox.cluster, bare_pod(sandbox, case.app))
    wait_until(lambda: sum(map(is_ready, sandbox.pods())) == len(all_cases))
    (target,) = sandbox.add_nodes("second", cpu="16")
    with ReadyPodWatch(sandbox.cluster, sandbox.namespace) as watcher:
        statuses = run_killed(sandbox, all_cases, target)
        wait_until(lambda: len(sandbox.pods()) == len(all_cases), what="one pod each")
    assert {status["outcome"] for status in statuses.values()} == {"Landed"}
    assert all(found["metadata"]["name"].startswith("rescheduled-r-") for found in sandbox.pods())
    assert set(watcher.fewest.values()) == {1}
    assert max(watcher.most.values()) <= 2


def bare_pod(sandbox: Sandbox, app: str) -> JsonObject:
    body = pod(f"{sandbox.namespace}/{app}", cpu="100m", labels={"app": app}, **sandbox.here())
    del body["status"]
    return body
