"""An application on real nodes whose budget allows no disruption, under load during drains."""

import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from testcluster import TestCluster
from testcluster.realnodes.web_apps import (
    AFTERMATH_SECONDS,
    WebApp,
    WebAppWatch,
    ready_pods,
    start_load,
)
from testcluster.waiting import wait_until
from tests.migration.support import FINISHED, MIGRATIONS
from tests.real_nodes.support import COMMAND

NAMESPACE = "shop"
REQUESTS_A_SECOND = 100.0
# One ends its requests before it exits, the other does not.
APPS = (
    WebApp("web", replicas=2, abrupt=True, on_one_node=True),
    WebApp("cart", replicas=2, on_one_node=True),
)


class DrainedShop:
    """All its pods begin on the first node. Where a drain leaves them, the next one begins."""

    def __init__(self, cluster: TestCluster, directory: Path) -> None:
        self._cluster = cluster
        self._directory = directory

    def drain(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Drain the node with most of its pods: nobody notices, whatever happens meanwhile."""
        node = self._fullest_node()
        with WebAppWatch(self._cluster, NAMESPACE, self._directory) as watch:
            loads = [
                start_load(self._cluster, NAMESPACE, app, watch, REQUESTS_A_SECOND) for app in APPS
            ]
            try:
                with drain_command(self._cluster, node) as command:
                    wait_until(self._is_moving, what="moves are under way")
                    meanwhile()
                    output, _ = command.communicate(timeout=300)
                time.sleep(AFTERMATH_SECONDS)
                reports = [load.stop() for load in loads]
            finally:
                for load in loads:
                    load.__exit__(None, None, None)
        assert command.returncode == 0, output
        assert node not in self._counts(), output
        assert [report.failed for report in reports] == [0 for _ in APPS], reports
        assert self._outcomes() == {"Landed"}, output
        assert watch.problems == []
        assert watch.fewest_ready == {app.name: app.replicas for app in APPS}, watch.fewest_ready
        self._cluster.kubectl("uncordon", node)

    def _is_moving(self) -> bool:
        """Whether there is a Migration that has created a pod and is not over."""
        found = self._cluster.client.get(MIGRATIONS.format(NAMESPACE))["items"]
        statuses = [each.get("status", {}) for each in found]
        return any(
            status.get("newPod") and status.get("phase") not in FINISHED for status in statuses
        )

    def _outcomes(self) -> set[str]:
        """What became of all Migrations, of which this installation has just carried out some."""
        found = self._cluster.client.get(MIGRATIONS.format(NAMESPACE))["items"]
        return {each.get("status", {}).get("outcome") for each in found}

    def _fullest_node(self) -> str:
        return self._counts().most_common(1)[0][0]

    def _counts(self) -> Counter[str]:
        pods = [pod for app in APPS for pod in ready_pods(self._cluster, NAMESPACE, app)]
        return Counter(pod["spec"]["nodeName"] for pod in pods)


@contextmanager
def drain_command(cluster: TestCluster, node: str) -> Iterator["subprocess.Popen[str]"]:
    """`rescheduler drain`, which leaves the moves to the controller."""
    options = ("--wait", f"--kubeconfig={cluster.kubeconfig}")
    with subprocess.Popen(
        [COMMAND, "drain", node, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as command:
        try:
            yield command
        finally:
            command.kill()
