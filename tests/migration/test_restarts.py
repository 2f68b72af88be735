"""A controller is killed, and the next one continues at once.

One that lives only for seconds at a time finishes its migrations all the same. A pod behind a
Service takes longer than that to be moved: it is out of its Services for a while, and where the
kubelet is not known yet, until that is learned. None of it is waited for anew. And what the killed
one has sent does no harm when it takes effect late.
"""

import asyncio
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from aiohttp import web

from testcluster.applying import apply
from testcluster.builders import budget, service, statefulset
from testcluster.client import ApiError
from testcluster.client import Client as OutsideClient
from tests.kube.faultproxy import Exchange, Fault, FaultProxy
from tests.kube.silent_webhook import SilentWebhook, silent_webhook
from tests.migration.ready_pod_watch import ReadyPodWatch
from tests.migration.support import FINISHED, Sandbox, controller_on, node_of, other_node

ROOT = Path(__file__).parents[2]
LIFETIME_SECONDS = 5.0
MOST_LIVES = 12
APPS = ("web", "api", "shop")
EVICTIONS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/eviction"]}


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


async def test_an_eviction_that_a_dead_controller_has_sent_takes_no_second_pod(
    sandbox: Sandbox,
) -> None:
    """It hangs in an admission webhook. Meanwhile its move is cancelled, and another one starts."""
    sandbox.add_nodes("a", "b")
    body = statefulset(f"{sandbox.namespace}/db", 2, "100m", template=sandbox.here())
    apply(sandbox.cluster, body)
    sandbox.wait_ready("db", 2)
    first, second = (sandbox.outside.get(sandbox.path("pods", f"db-{n}")) for n in range(2))
    cluster, slow = sandbox.cluster, "object.metadata.name in ['db-0', 'probe']"
    only_if = f"{slow} && !(has(object.deleteOptions) && has(object.deleteOptions.dryRun))"
    evictions = Evictions()
    with silent_webhook(sandbox.outside, sandbox.namespace, EVICTIONS, only_if=only_if) as webhook:
        await sandbox.until(lambda: is_asked(sandbox, webhook), "the webhook is asked")
        async with FaultProxy(cluster.server, str(cluster.ca_file)) as proxy:
            # The server is not told that its client is gone, as if the whole machine were.
            proxy.chaos = evictions
            async with controller_on(cluster, server=proxy.url):
                probes = webhook.asked()
                cancelled = sandbox.migrate(first, other_node(sandbox, first))
                await sandbox.until(lambda: webhook.asked() > probes, "the eviction hangs")
            sandbox.outside.delete(sandbox.path("migrations", cancelled))
            async with controller_on(cluster):
                name = sandbox.migrate(second, other_node(sandbox, second))
                (status,) = await sandbox.finished(name)
                await sandbox.until(lambda: evictions.answers, "the late eviction is answered")
    assert status["phase"] == "Completed"
    assert evictions.answers == [409]
    stayed = sandbox.pod("db-0")
    assert stayed is not None
    assert stayed["metadata"]["uid"] == first["metadata"]["uid"]
    assert sandbox.leftovers() == []


def is_asked(sandbox: Sandbox, webhook: SilentWebhook) -> bool:
    """Whether an eviction, of a pod that does not exist, waits for the webhook by now."""
    cluster = sandbox.cluster
    client = OutsideClient(cluster.server, cluster.admin_token, cluster.ca_file, timeout=0.5)
    with suppress(ApiError, TimeoutError):
        path = f"{sandbox.path('pods', 'probe')}/eviction"
        client.create(path, {"metadata": {"name": "probe", "namespace": sandbox.namespace}})
    client.close()
    return webhook.asked() > 0


class Evictions:
    """Passes evictions on, and keeps the server's answers, also those that nobody waits for."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self._passing: list[asyncio.Task[web.StreamResponse]] = []

    def __call__(self, request: web.Request) -> Fault | None:
        return self._evict if request.path.endswith("/eviction") else None

    async def _evict(self, exchange: Exchange) -> web.StreamResponse:
        self._passing.append(asyncio.create_task(self._pass_on(exchange)))
        return await asyncio.shield(self._passing[-1])

    async def _pass_on(self, exchange: Exchange) -> web.StreamResponse:
        async with exchange.server_answer() as answer:
            if b"dryRun" not in await exchange.request.read():
                self.answers.append(answer.status)
            return web.Response(status=answer.status, body=await answer.read())
