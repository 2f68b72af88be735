"""The controller is killed at every step of every way, and another one goes on.

Each process first finishes what the one before it has left, and is then killed in its turn.
"""

import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import budget, deployment, pod, statefulset
from testcluster.client import JsonObject
from testcluster.waiting import wait_until
from tests.migration.support import COST, Corner, is_ready, node_of
from tests.migration.watcher import Watcher

ROOT = Path(__file__).parents[2]

HANDOFF = (
    "start",
    "mark-old",
    "create-new",
    "new-pod",
    "hand-over",
    "lower-cost",
    "adopt",
    "finish",
)
UNDONE = ("undo", "delete-new", "restore-old", "finish")
EVICT = ("start", "mark-old", "evict", "landing", "claim", "complete", "finish")
COORDINATED = ("create-budget", "evict", "delete-budget")
RECREATE = (
    "start",
    "mark-old",
    "create-copy",
    "new-pod",
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


def cases(way: str, actions: tuple[str, ...]) -> list[Case]:
    """A case before the first action, and one after each: between two, there is nothing else."""
    points = [f"before-{actions[0]}", *[f"after-{action}" for action in actions]]
    return [Case(f"{way}-{point}", point) for point in points]


def controller(cluster: TestCluster, *killed_at: str) -> "subprocess.Popen[bytes]":
    arguments = [cluster.server, str(cluster.ca_file), cluster.admin_token, *killed_at]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.migration.process", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def run_killed(corner: Corner, all_cases: list[Case], target: str) -> dict[str, JsonObject]:
    """Migrate the pod of each case while its controller is killed; the statuses in the end."""
    for case in all_cases:
        (old,) = [each for each in corner.pods(case.app) if is_ready(each)]
        corner.migrate(old, target, case.migration)
        key = f"{corner.namespace}/{case.migration}"
        process = controller(corner.cluster, case.point, key)
        try:
            output, _ = process.communicate(timeout=120)
        finally:
            process.kill()
        assert process.returncode == -signal.SIGKILL, (case, output.decode()[-2000:])
    last = controller(corner.cluster)
    try:
        names = [case.migration for case in all_cases]
        try:
            wait_until(lambda: not unfinished(corner, names), what="all migrations finished")
        except AssertionError as error:
            error.add_note(f"{unfinished(corner, names)}")
            raise
        wait_until(lambda: not corner.leftovers(), what="nothing is left behind")
    finally:
        last.kill()
        last.communicate()
    return {name: corner.status(name) for name in names}


def unfinished(corner: Corner, names: list[str]) -> dict[str, JsonObject]:
    statuses = {name: corner.status(name) for name in names}
    return {name: status for name, status in statuses.items() if "finishedAt" not in status}


@pytest.fixture
def nodes(corner: Corner) -> tuple[str, str]:
    """A node that everything starts on, and one that is free."""
    (first,) = corner.add_nodes("first", cpu="16")
    return first, f"{corner.namespace}-second"


def written_on(pod: JsonObject) -> tuple[dict[str, str], dict[str, str]]:
    metadata = pod["metadata"]
    return metadata.get("labels", {}), metadata.get("annotations", {})


def test_killed_in_a_handoff_it_goes_on_with_no_second_copy_and_no_gap(
    corner: Corner, nodes: tuple[str, str]
) -> None:
    all_cases = cases("h", HANDOFF)
    for case in all_cases:
        made = deployment(f"{corner.namespace}/{case.app}", 1, "100m", template=corner.here())
        protection = budget(f"{corner.namespace}/{case.app}", min_available=1)
        apply(corner.cluster, made, protection)
    wait_until(lambda: sum(map(is_ready, corner.pods())) == len(all_cases))
    corner.add_nodes("second", cpu="16")
    with Watcher(corner.cluster, corner.namespace) as watcher:
        statuses = run_killed(corner, all_cases, nodes[1])
        wait_until(lambda: len(corner.pods()) == len(all_cases), what="one pod each")
    assert {each["outcome"] for each in statuses.values()} == {"Landed"}
    assert {node_of(each) for each in corner.pods()} == {nodes[1]}
    assert set(watcher.fewest.values()) == {1}
    assert max(watcher.most.values()) <= 2
    assert watcher.problems == []


def test_killed_while_undoing_it_leaves_the_old_pod_exactly_as_it_was(
    corner: Corner, nodes: tuple[str, str]
) -> None:
    all_cases = cases("u", UNDONE)
    for case in all_cases:
        made = deployment(f"{corner.namespace}/{case.app}", 1, "100m", template=corner.here())
        apply(corner.cluster, made)
    wait_until(lambda: sum(map(is_ready, corner.pods())) == len(all_cases))
    for each in corner.pods():
        path = corner.path("pods", each["metadata"]["name"])
        corner.outside.patch(path, {"metadata": {"annotations": {COST: "7", "note": "mine"}}})
    before = {each["metadata"]["uid"]: written_on(each) for each in corner.pods()}
    corner.add_nodes("second", cpu="50m")
    statuses = run_killed(corner, all_cases, nodes[1])
    assert {each["phase"] for each in statuses.values()} == {"Failed"}
    assert {each["metadata"]["uid"]: written_on(each) for each in corner.pods()} == before


def test_killed_in_an_eviction_it_follows_the_replacement(
    corner: Corner, nodes: tuple[str, str]
) -> None:
    all_cases = cases("e", EVICT)
    for case in all_cases:
        made = statefulset(f"{corner.namespace}/{case.app}", 1, "100m", template=corner.here())
        apply(corner.cluster, made)
    wait_until(lambda: sum(map(is_ready, corner.pods())) == len(all_cases))
    corner.add_nodes("second", cpu="16")
    statuses = run_killed(corner, all_cases, nodes[1])
    assert {each["phase"] for each in statuses.values()} == {"Completed"}
    assert all(is_ready(each) for each in corner.pods())
    assert len(corner.pods()) == len(all_cases)


def test_killed_under_deployment_coordination_it_removes_the_temporary_budget(
    corner: Corner, nodes: tuple[str, str]
) -> None:
    all_cases = cases("c", COORDINATED)
    for case in all_cases:
        made = deployment(
            f"{corner.namespace}/{case.app}",
            1,
            "100m",
            template=corner.here(),
            strategy={"type": "Recreate"},
        )
        apply(corner.cluster, made)
    wait_until(lambda: sum(map(is_ready, corner.pods())) == len(all_cases))
    corner.add_nodes("second", cpu="16")
    statuses = run_killed(corner, all_cases, nodes[1])
    assert {each["phase"] for each in statuses.values()} == {"Completed"}
    assert corner.all("poddisruptionbudgets") == []
    wait_until(lambda: len(corner.pods()) == len(all_cases), what="one pod each")


def test_killed_in_a_recreation_it_loses_no_pod_and_makes_no_second_copy(
    corner: Corner, nodes: tuple[str, str]
) -> None:
    all_cases = cases("r", RECREATE)
    for case in all_cases:
        apply(corner.cluster, bare_pod(corner, case.app))
    wait_until(lambda: sum(map(is_ready, corner.pods())) == len(all_cases))
    corner.add_nodes("second", cpu="16")
    with Watcher(corner.cluster, corner.namespace) as watcher:
        statuses = run_killed(corner, all_cases, nodes[1])
        wait_until(lambda: len(corner.pods()) == len(all_cases), what="one pod each")
    assert {each["outcome"] for each in statuses.values()} == {"Landed"}
    assert all(each["metadata"]["name"].startswith("rescheduled-r-") for each in corner.pods())
    assert set(watcher.fewest.values()) == {1}
    assert max(watcher.most.values()) <= 2


def bare_pod(corner: Corner, app: str) -> JsonObject:
    made = pod(f"{corner.namespace}/{app}", cpu="100m", labels={"app": app}, **corner.here())
    del made["status"]
    return made
