"""A controller that lives only for seconds at a time finishes its migrations all the same.

A pod behind a Service takes longer than that to be moved: it is out of its Services for a while,
and where the kubelet is not known yet, until that is learned. None of it is waited for anew.
"""

import subprocess
import sys
import time
from pathlib import Path

from testcluster.applying import apply
from testcluster.builders import budget, service
from tests.migration.ready_pod_watch import ReadyPodWatch
from tests.migration.support import FINISHED, Sandbox, node_of

ROOT = Path(__file__).parents[2]
LIFETIME_SECONDS = 5.0
MOST_LIVES = 12
APPS = ("web", "api", "shop")


def test_all_migrations_finish_although_the_controller_is_killed_every_few_seconds(
    sandbox: Sandbox,
) -> None:
    first, second = sandbox.add_nodes("a", "b")
    names = []
    for app in APPS:
        (pod,) = sandbox.deploy(app, 1)
        key = f"{sandbox.namespace}/{app}"
        apply(sandbox.cluster, service(key), budget(key, min_available=1))
        names.append(sandbox.migrate(pod, second if node_of(pod) == first else first))
    with ReadyPodWatch(sandbox.cluster, sandbox.namespace) as watch:
        for _ in range(MOST_LIVES):
            live_for(sandbox, LIFETIME_SECONDS)
            statuses = [sandbox.status(name) for name in names]
            if all(status["phase"] in FINISHED for status in statuses):
                break
    assert [status.get("outcome") for status in statuses] == ["Landed"] * len(APPS), statuses
    assert [watch.fewest[app] for app in APPS] == [1] * len(APPS)
    assert sandbox.leftovers() == []


def live_for(sandbox: Sandbox, seconds: float) -> None:
    """Run a controller, and kill it so long after it has loaded the cluster."""
    cluster = sandbox.cluster
    connection = [cluster.server, str(cluster.ca_file), cluster.admin_token]
    controller = subprocess.Popen(
        [sys.executable, "-m", "tests.migration.controller_process", *connection],
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    try:
        assert controller.stdout is not None
        assert controller.stdout.readline() == b"loaded\n"
        time.sleep(seconds)
    finally:
        controller.kill()
        controller.communicate()
