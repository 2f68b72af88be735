"""`run`, `move` and `drain` on an API server that is too old to place pods on chosen nodes.

It is the real server, behind a proxy that answers for it when it is asked for its version.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rescheduler.cli.commands.drain import drain_node
from rescheduler.cli.commands.move import move_pod
from rescheduler.cli.options import ClusterAccess, FollowOptions
from rescheduler.errors import SettingsError
from rescheduler.model.moves import Mode
from rescheduler.settings import Policy
from testcluster.components import kubeconfig_text
from tests.kube.faultproxy import FaultProxy, answer_with, is_version
from tests.migration.support import Sandbox, controller_on, other_node

TOO_OLD = "the API server is 1.26, placing a pod on a chosen node needs 1.27"
EVICTED = f"Pods are evicted instead of handed over: {TOO_OLD}."
NOT_FOLLOWED = FollowOptions(wait=False, here=False, cancel_on_interrupt=False)


@pytest.fixture
async def old_server(sandbox: Sandbox) -> AsyncIterator[str]:
    """The URL of the cluster's API server, which calls itself 1.26 there."""
    old = answer_with(200, '{"major":"1","minor":"26","gitVersion":"v1.26.15"}')
    cluster = sandbox.cluster
    async with FaultProxy(cluster.server, str(cluster.ca_file), cluster.admin_token) as proxy:
        proxy.chaos = lambda request: old if is_version(request) else None
        yield proxy.url


@pytest.fixture
def access(sandbox: Sandbox, old_server: str, tmp_path: Path) -> ClusterAccess:
    file = tmp_path / "kubeconfig"
    file.write_text(kubeconfig_text(old_server, sandbox.cluster.ca_file, "admin", token="unused"))
    return ClusterAccess(file, None)


async def test_the_controller_logs_once_why_it_evicts(
    sandbox: Sandbox, old_server: str, caplog: pytest.LogCaptureFixture
) -> None:
    def warnings() -> list[str]:
        return [
            record.__dict__["why"]
            for record in caplog.records
            if record.message == "Evicting pods instead of handing them over"
        ]

    sandbox.add_nodes("a", "b")
    (pod,) = sandbox.deploy("web", 1)
    async with controller_on(sandbox.cluster, server=old_server):
        name = sandbox.migrate(pod, other_node(sandbox, pod))
        (status,) = await sandbox.finished(name)
    assert status["mode"] == "Evict"
    assert warnings() == [TOO_OLD]


@pytest.mark.parametrize("mode", [Mode.HANDOFF, Mode.RECREATE])
async def test_move_refuses_a_mode_that_needs_placing(
    sandbox: Sandbox, access: ClusterAccess, mode: Mode
) -> None:
    sandbox.add_nodes("a", "b")
    (pod,) = sandbox.deploy("web", 1)
    with pytest.raises(SettingsError, match=f"--mode {mode}: {TOO_OLD}"):
        await move(sandbox, pod["metadata"]["name"], other_node(sandbox, pod), mode, access)


@pytest.mark.parametrize(("mode", "is_noted"), [(Mode.AUTO, True), (Mode.EVICT, False)])
async def test_move_says_that_the_pod_is_evicted_unless_that_was_asked_for(
    sandbox: Sandbox,
    access: ClusterAccess,
    capfd: pytest.CaptureFixture[str],
    mode: Mode,
    is_noted: bool,
) -> None:
    sandbox.add_nodes("a", "b")
    (pod,) = sandbox.deploy("web", 1)
    await move(sandbox, pod["metadata"]["name"], other_node(sandbox, pod), mode, access)
    printed = capfd.readouterr().out
    assert (EVICTED in printed) == is_noted
    assert " created" in printed


async def test_drain_says_that_pods_are_evicted(
    sandbox: Sandbox, access: ClusterAccess, capfd: pytest.CaptureFixture[str]
) -> None:
    (node,) = sandbox.add_nodes("a")
    await drain_node(node, policy=Policy(), following=NOT_FOLLOWED, access=access)
    assert capfd.readouterr().out.splitlines() == [EVICTED, f"node {node} cordoned"]


async def move(sandbox: Sandbox, pod: str, target: str, mode: Mode, access: ClusterAccess) -> None:
    await move_pod(
        f"{sandbox.namespace}/{pod}",
        target,
        mode=mode,
        policy=Policy(),
        following=NOT_FOLLOWED,
        access=access,
    )
