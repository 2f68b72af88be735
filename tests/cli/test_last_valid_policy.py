"""A policy that is not valid ends no replica, neither one that runs nor one that is restarted."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from testcluster.client import JsonObject
from testcluster.ports import pick_ports
from testcluster.waiting import wait_until
from tests.cli.conftest import Result
from tests.conftest import Start
from tests.migration.support import Sandbox
from tests.monitoring.scraping import page, scrape

VALID = "enabledStrategies: [NodeMaintenance]\n"
INVALID = "enabledStrategies: [NoSuchStrategy]\n"
BETTER = "enabledStrategies: []\n"
WENT_ON = "Went on with the last valid policy"
PROBLEM = "rescheduler.dev/policy-problem"


class Installation:
    """A replica that is elected in a namespace of its own, and its policy file."""

    def __init__(self, sandbox: Sandbox, start: Start, directory: Path) -> None:
        self.policy = directory / "policy.yaml"
        self.lease = f"{sandbox.namespace}/mover"
        (self.port,) = pick_ports(1)
        self._sandbox = sandbox
        self._start = start

    def start(self) -> "subprocess.Popen[bytes]":
        process = self._start(
            *("run", "--policy", self.policy, "--health", f"127.0.0.1:{self.port}"),
            *("--leader-election-lease", self.lease),
        )
        wait_until(
            lambda: process.poll() is not None or self.leads(), what="it leads, or has ended"
        )
        return process

    def leads(self) -> bool:
        status = self.status()
        return status.get("role") == "Leader" and status["round"] is not None

    def status(self) -> dict[str, Any]:
        """What it answers; empty if it does not."""
        code, text = page(self.port, "/status")
        found: dict[str, Any] = json.loads(text) if code == 200 else {}
        return found

    def annotations(self) -> JsonObject:
        space, _, name = self.lease.partition("/")
        path = f"/apis/coordination.k8s.io/v1/namespaces/{space}/leases/{name}"
        found: JsonObject = self._sandbox.outside.get(path)["metadata"].get("annotations", {})
        return found


def stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    assert process.wait(60) == 0


def test_a_replica_that_is_restarted_goes_on_by_the_last_valid_policy(
    sandbox: Sandbox,
    start: Start,
    output: Callable[[], str],
    command: Callable[..., Result],
    tmp_path: Path,
) -> None:
    installation = Installation(sandbox, start, tmp_path)
    installation.policy.write_text(VALID)
    replica = installation.start()
    wait_until(lambda: VALID in installation.annotations().values(), what="the policy is kept")

    # One that runs keeps the old policy, and the Lease says why.
    installation.policy.write_text(INVALID)
    wait_until(lambda: PROBLEM in installation.annotations(), what="it is rejected")
    assert "NoSuchStrategy" in installation.annotations()[PROBLEM]
    assert "NoSuchStrategy" in installation.status()["policyProblem"]
    stop(replica)

    # So does one that is started now.
    replica = installation.start()
    assert replica.poll() is None, output()
    assert output().count(WENT_ON) == 1
    status = installation.status()
    assert status["strategies"] == ["NodeMaintenance"]
    assert "NoSuchStrategy" in status["policyProblem"]
    assert scrape(installation.port).value("policy_last_reload_successful") == 0
    url = f"--url=http://127.0.0.1:{installation.port}"
    shown = command("status", url, f"--kubeconfig={sandbox.cluster.kubeconfig}").out
    assert "the last valid one is in use" in " ".join(shown.split())

    # As soon as the file is valid again, it is used.
    installation.policy.write_text(BETTER)
    wait_until(lambda: not installation.status()["policyProblem"], what="it is accepted")
    wait_until(lambda: PROBLEM not in installation.annotations(), what="the Lease says so")
    assert installation.status()["strategies"] == []
    assert BETTER in installation.annotations().values()
    stop(replica)


def test_a_policy_that_never_was_valid_is_refused(
    sandbox: Sandbox, start: Start, output: Callable[[], str], tmp_path: Path
) -> None:
    installation = Installation(sandbox, start, tmp_path)
    installation.policy.write_text(INVALID)
    assert installation.start().wait(60) == 2
    assert "NoSuchStrategy" in output()
    assert WENT_ON not in output()
