"""Controllers that are killed at one write after another, while others continue their work."""

import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from testcluster import TestCluster
from testcluster.client import JsonObject
from testcluster.waiting import wait_until
from tests.migration.support import Sandbox, is_ready

ROOT = Path(__file__).parents[2]


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
