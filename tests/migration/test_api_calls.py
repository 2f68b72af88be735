"""A migration asks little of the API server, and nothing while it waits."""

from collections import Counter

import pytest
from aiohttp import web

from rescheduler.kube.server_features import ServerVersion
from rescheduler.migration import observer
from testcluster.applying import apply
from testcluster.build import servers_program
from testcluster.builders import budget
from tests.kube.faultproxy import FaultProxy, is_list, is_watch, is_write
from tests.migration.support import Sandbox, controller_on, node_of, other_node

MOST_WRITES, MOST_READS = 13, 16
# Before 1.35 we remove the nomination from the bound pod, again if its kubelet writes meanwhile.
WRITES_OF_OLD_SERVERS = 2


class Calls(Counter[str]):
    """Counts what passes through the proxy about one namespace.

    Others may still hold migrations of earlier tests.
    """

    def __init__(self, namespace: str) -> None:
        super().__init__()
        self._place = f"/namespaces/{namespace}/"

    def __call__(self, request: web.Request) -> None:
        if self._place not in request.path:
            return
        if "/events" in request.path:
            self["events"] += 1
        elif is_write(request):
            self["writes"] += 1
        elif not is_watch(request) and not is_list(request):
            self["reads"] += 1


async def test_a_handoff_takes_at_most_thirteen_writes_and_few_reads(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a", "b", "c")
    pods = sandbox.deploy("web", 3)
    apply(sandbox.cluster, budget(f"{sandbox.namespace}/web", min_available=3))
    calls = Calls(sandbox.namespace)
    async with (
        FaultProxy(sandbox.cluster.server, str(sandbox.cluster.ca_file)) as proxy,
        controller_on(sandbox.cluster, server=proxy.url),
    ):
        proxy.chaos = calls
        # The Migration itself is a write, too.
        calls["writes"] += 1
        name = sandbox.migrate(pods[0], other_node(sandbox, pods[0]))
        (status,) = await sandbox.finished(name)
    assert status["outcome"] == "Landed"
    version = ServerVersion.parse(servers_program().version)
    assert version is not None
    more = WRITES_OF_OLD_SERVERS if version < (1, 35) else 0
    assert calls["writes"] <= MOST_WRITES + more, calls
    assert calls["reads"] <= MOST_READS, calls


async def test_while_a_new_pod_starts_nothing_is_asked(sandbox: Sandbox) -> None:
    """Changes that watches show are looked at without a single call."""
    sandbox.add_nodes("a")
    (old,) = sandbox.deploy("web", 1)
    (target,) = sandbox.add_nodes("b", managed=False)
    calls = Calls(sandbox.namespace)
    async with (
        FaultProxy(sandbox.cluster.server, str(sandbox.cluster.ca_file)) as proxy,
        controller_on(sandbox.cluster, server=proxy.url),
    ):
        name = sandbox.migrate(old, target)
        await sandbox.until(lambda: sandbox.status(name).get("newPod"), "it has started")
        new_name = sandbox.status(name)["newPod"]
        new = sandbox.path("pods", new_name)
        await sandbox.until(lambda: sandbox.pod(new_name), "the new pod is there")
        await sandbox.until(lambda: node_of(sandbox.outside.get(new)) == target, "it is bound")
        proxy.chaos = calls
        owner = sandbox.path("replicasets", sandbox.replica_set()["metadata"]["name"])
        for number in range(20):
            notes = {"metadata": {"annotations": {"changed": str(number)}}}
            sandbox.outside.patch(new, notes)
            sandbox.outside.patch(owner, notes)
        ready = {"type": "Ready", "status": "True"}
        status = {"phase": "Running", "conditions": [ready]}
        sandbox.outside.patch(f"{new}/status", {"status": status})
        await sandbox.finished(name)
    assert calls["reads"] <= MOST_READS / 2, calls


async def test_the_pods_of_a_large_workload_are_read_in_pages(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observer, "PAGE_SIZE", 2)
    sandbox.add_nodes("a", "b")
    pods = sorted(sandbox.deploy("web", 5), key=lambda pod: str(pod["metadata"]["name"]))
    calls: list[str] = []

    def look(request: web.Request) -> None:
        if request.query.get("labelSelector"):
            calls.append(request.query_string)

    async with (
        FaultProxy(sandbox.cluster.server, str(sandbox.cluster.ca_file)) as proxy,
        controller_on(sandbox.cluster, server=proxy.url),
    ):
        proxy.chaos = look
        name = sandbox.migrate(pods[0], other_node(sandbox, pods[0]))
        (status,) = await sandbox.finished(name)
    assert status["outcome"] == "Landed", status
    pages = [call for call in calls if "pod-template-hash" in call]
    assert pages
    assert all("limit=2" in page for page in pages)
    assert sum("continue=" in page for page in pages) == 2 * sum(
        "continue=" not in page for page in pages
    )
