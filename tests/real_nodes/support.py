"""Applications on real nodes, commands as an operator runs them, and what moves leave behind."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.realnodes.web_apps import WebApp, cordoned, ready_pods, set_cordoned
from testcluster.waiting import wait_until
from tests.migration.support import Sandbox

COMMAND = Path(sys.executable).with_name("rescheduler")


def rescheduler(cluster: TestCluster, *arguments: str, code: int | None = 0) -> str:
    """The output of a command, which must end with this code, or with any if it is None."""
    done = subprocess.run(
        [COMMAND, *arguments],
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=600,
    )
    ended = f"{arguments}: exit code {done.returncode}\n{done.stdout}"
    assert code in (None, done.returncode), ended
    return done.stdout


@contextmanager
def namespace_of(cluster: TestCluster, name: str) -> Iterator[Sandbox]:
    """A namespace on the real nodes; afterwards it is gone, and no node is cordoned."""
    sandbox = Sandbox(cluster, name)
    try:
        yield sandbox
    finally:
        cluster.kubectl("delete", "namespace", name, "--ignore-not-found", "--wait=true")
        set_cordoned(cluster, cluster.nodes.names, False)
        sandbox.outside.close()


def run_apps(sandbox: Sandbox, apps: Sequence[WebApp], node: str) -> None:
    """Create applications, all of whose pods begin on one node, and wait until they are Ready."""
    cluster, namespace = sandbox.cluster, sandbox.namespace
    with cordoned(cluster, [name for name in cluster.nodes.names if name != node]):
        for app in apps:
            apply(cluster, *app.objects(namespace))
        for app in apps:
            wait_until(lambda: ready_pods(cluster, namespace, app), what=app.name)  # noqa: B023


def traces_of_moves(sandbox: Sandbox) -> list[str]:
    """Everything that moves have left on pods that are not being deleted."""
    found = sandbox.leftovers()
    for pod in sandbox.pods():
        name, spec, status = pod["metadata"]["name"], pod["spec"], pod["status"]
        if "deletionTimestamp" in pod["metadata"]:
            continue
        if spec.get("schedulingGates"):
            found.append(f"gate of {name}")
        if status.get("nominatedNodeName"):
            found.append(f"nomination of {name}")
        if any(given.get("reason") == "LeftServices" for given in status.get("conditions", [])):
            found.append(f"{name} is out of its Services")
    return found
