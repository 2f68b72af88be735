"""The controller is killed at every write of every mode, and another one continues.

Each process first finishes what the one before has left, and is then killed too.
"""

import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import budget, deployment, pod, service, statefulset
from testcluster.client import JsonObject
from testcluster.waiting import wait_until
from tests.migration.ready_pod_watch import ReadyPodWatch
from tests.migration.support import COST, Sandbox, is_ready, node_of

ROOT = Path(__file__).parents[2]

HANDOFF = (
    "start",
    "create-new",
    "nominate",
    "label-old",
    "open-gate",
    "lower-cost",
    "hand-over",
    "adopt",
    "finish",
)
ROLLBACK = ("undo", "delete-new", "restore-old", "finish")
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
    "finish",
)


@dataclass(frozen=True)
class Case:
    """One migration, and the point at which its controller is killed."""

    app: str
    point: str

    @property
    def migration(self) -> str:
        return f"move-{self.app}"


def cases(prefix: str, actions: tuple[str, ...]) -> list[Case]:
    """A case before the first action, and one after each: between two, there is nothing else."""
    points = [f"before-{actions[0]}", *[f"after-{action}" for action in actions]]
    return [Case(f"{prefix}-{point}", point) for point in points]


def controller(cluster: TestCluster, *killed_at: str) -> "subprocess.Popen[bytes]":
    arguments = [cluster.server, str(cluster.ca_file), cluster.admin_token, *killed_at]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.migration.controller_process", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def run_killed(sandbox: Sandbox, all_cases: list[Case], target: str) -> dict[str, JsonObject]:
    """Migrate the pod of status case while its controller is killed; the statuses in the end."""
    for case in all_cases:
        (old,) = [found for found in sandbox.pods(case.app) if is_ready(found)]
        sandbox.migrate(old, target, case.migration)
        key = f"{sandbox.namespace}/{case.migration}"
        process = controller(sandbox.cluster, case.point, key)
        try:
            output, _ = process.communicate(timeout=120)
        finally:
            process.kill()
        assert process.returncode == -signal.SIGKILL, (case, output.decode()[-2000:])
    last = controller(sandbox.cluster)
    try:
        names = [case.migration for case in all_cases]
        try:
            wait_until(lambda: not unfinished(sandbox, names), what="all migrations finished")
        except AssertionError as error:
            error.add_note(f"{unfinished(sandbox, names)}")
            raise
        wait_until(lambda: not sandbox.leftovers(), what="nothing is left behind")
        wait_until(lambda: len(sandbox.move_records()) == len(names), what="all are recorded")
    finally:
        last.kill()
        last.communicate()
    statuses = {name: sandbox.status(name) for name in names}
    recorded = [(spec["pod"], spec["outcome"]) for spec in sandbox.move_records()]
    expected = [(old_pod(sandbox, name), statuses[name].get("outcome")) for name in names]
    assert sorted(recorded) == sorted(expected)
    return statuses


def old_pod(sandbox: Sandbox, migration: str) -> str:
    name: str = sandbox.outside.get(sandbox.path("migrations", migration))["spec"]["pod"]["name"]
    return name


def unfinished(sandbox: Sandbox, names: list[str]) -> dict[str, JsonObject]:
    statuses = {name: sandbox.status(name) for name in names}
    return {name: status for name, status in statuses.items() if "finishedAt" not in status}


@pytest.fixture
def nodes(sandbox: Sandbox) -> tuple[str, str]:
    """A node that everything starts on, and one that is free."""
    (first,) = sandbox.add_nodes("first", cpu="16")
    return first, f"{sandbox.namespace}-second"


def written_on(pod: JsonObject) -> tuple[dict[str, str], dict[str, str]]:
    metadata = pod["metadata"]
    return metadata.get("labels", {}), metadata.get("annotations", {})


def test_killed_in_a_handoff_it_continues_with_no_second_copy_and_no_gap(
    sandbox: Sandbox, nodes: tuple[str, str]
) -> None:
    served = Case("h-served", "after-leave-services")
    # First: what is known about the kubelet of a node is not learned again.
    learned = Case("h-learned", "after-learn-kubelet")
    all_cases = [*cases("h", HANDOFF), learned, served]
    for case in all_cases:
        body = deployment(f"{sandbox.namespace}/{case.app}", 1, "100m", template=sandbox.here())
        protection = budget(f"{sandbox.namespace}/{case.app}", min_available=1)
        apply(sandbox.cluster, body, protection)
    apply(
        sandbox.cluster,
        *(service(f"{sandbox.namespace}/{case.app}") for case in (served, learned)),
    )
    wait_until(lambda: sum(map(is_ready, sandbox.pods())) == len(all_cases))
    sandbox.add_nodes("second", cpu="16")
    with ReadyPodWatch(sandbox.cluster, sandbox.namespace) as watcher:
        statuses = run_killed(sandbox, all_cases, nodes[1])
        wait_until(lambda: len(sandbox.pods()) == len(all_cases), what="one pod each")
    assert {status["outcome"] for status in statuses.values()} == {"Landed"}
    assert {node_of(found) for found in sandbox.pods()} == {nodes[1]}
    assert set(watcher.fewest.values()) == {1}
    assert max(watcher.most.values()) <= 2
    assert watcher.problems == []


def test_killed_in_a_rollback_it_leaves_the_old_pod_exactly_as_it_was(
    sandbox: Sandbox, nodes: tuple[str, str]
) -> None:
    all_cases = cases("u", ROLLBACK)
    for case in all_cases:
        body = deployment(f"{sandbox.namespace}/{case.app}", 1, "100m", template=sandbox.here())
        apply(sandbox.cluster, body)
    wait_until(lambda: sum(map(is_ready, sandbox.pods())) == len(all_cases))
    for found in sandbox.pods():
        path = sandbox.path("pods", found["metadata"]["name"])
        sandbox.outside.patch(path, {"metadata": {"annotations": {COST: "7", "note": "mine"}}})
    before = {found["metadata"]["uid"]: written_on(found) for found in sandbox.pods()}
    sandbox.add_nodes("second", cpu="50m")
    statuses = run_killed(sandbox, all_cases, nodes[1])
    assert {status["phase"] for status in statuses.values()} == {"Failed"}
    assert {found["metadata"]["uid"]: written_on(found) for found in sandbox.pods()} == before


def test_killed_in_an_eviction_it_follows_the_replacement(
    sandbox: Sandbox, nodes: tuple[str, str]
) -> None:
    all_cases = cases("e", EVICT)
    for case in all_cases:
        body = statefulset(f"{sandbox.namespace}/{case.app}", 1, "100m", template=sandbox.here())
        apply(sandbox.cluster, body)
    wait_until(lambda: sum(map(is_ready, sandbox.pods())) == len(all_cases))
    sandbox.add_nodes("second", cpu="16")
    statuses = run_killed(sandbox, all_cases, nodes[1])
    assert {status["phase"] for status in statuses.values()} == {"Completed"}
    assert all(is_ready(found) for found in sandbox.pods())
    assert len(sandbox.pods()) == len(all_cases)


def test_killed_under_deployment_coordination_it_removes_the_temporary_budget(
    sandbox: Sandbox, nodes: tuple[str, str]
) -> None:
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
    sandbox.add_nodes("second", cpu="16")
    statuses = run_killed(sandbox, all_cases, nodes[1])
    assert {status["phase"] for status in statuses.values()} == {"Completed"}
    assert sandbox.all("poddisruptionbudgets") == []
    wait_until(lambda: len(sandbox.pods()) == len(all_cases), what="one pod each")


def test_killed_in_a_recreation_it_loses_no_pod_and_creates_no_second_copy(
    sandbox: Sandbox, nodes: tuple[str, str]
) -> None:
    all_cases = cases("r", RECREATE)
    for case in all_cases:
        apply(sandbox.cluster, bare_pod(sandbox, case.app))
    wait_until(lambda: sum(map(is_ready, sandbox.pods())) == len(all_cases))
    sandbox.add_nodes("second", cpu="16")
    with ReadyPodWatch(sandbox.cluster, sandbox.namespace) as watcher:
        statuses = run_killed(sandbox, all_cases, nodes[1])
        wait_until(lambda: len(sandbox.pods()) == len(all_cases), what="one pod each")
    assert {status["outcome"] for status in statuses.values()} == {"Landed"}
    assert all(found["metadata"]["name"].startswith("rescheduled-r-") for found in sandbox.pods())
    assert set(watcher.fewest.values()) == {1}
    assert max(watcher.most.values()) <= 2


def bare_pod(sandbox: Sandbox, app: str) -> JsonObject:
    body = pod(f"{sandbox.namespace}/{app}", cpu="100m", labels={"app": app}, **sandbox.here())
    del body["status"]
    return body
