"""The webhook is registered only when the cluster has been read: before, it could steer nothing.

And it is registered so that pods are created whatever happens to us.
"""

import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from rescheduler.extender.extender_server import ServeOptions
from rescheduler.extender.serve_program import ServeProgram
from rescheduler.extender.webhook.registration import CONFIGURATION_NAME, WebhookAddress
from rescheduler.settings import Policy
from testcluster.ports import pick_ports
from testcluster.serving import write_certificates
from tests.extender.running_extender import CONFIGURATIONS
from tests.kube.faultproxy import Fault, FaultProxy, answer_with
from tests.kube.support import eventually
from tests.migration.support import Sandbox, client_for

ENOUGH_TRIES = 4


class PartlyReadable:
    """Lists no volumes until it is told to, and remembers what it was asked."""

    def __init__(self) -> None:
        self.tries = 0
        self.is_readable = False
        self.registrations = 0

    def fault_for(self, request: web.Request) -> Fault | None:
        if request.path.startswith(CONFIGURATIONS):
            self.registrations += 1
        if request.path.endswith("/persistentvolumes") and not self.is_readable:
            self.tries += 1
            return answer_with(503)
        return None


@pytest.fixture
def options(tmp_path: Path) -> ServeOptions:
    write_certificates(tmp_path)
    (port,) = pick_ports(1)
    address = WebhookAddress(url=f"https://127.0.0.1:{port}")
    return ServeOptions("127.0.0.1", port, certificates=tmp_path, webhook=address)


async def test_the_webhook_is_registered_when_the_whole_cluster_has_been_read(
    sandbox: Sandbox, options: ServeOptions
) -> None:
    cluster, server = sandbox.cluster, PartlyReadable()
    async with FaultProxy(cluster.server, str(cluster.ca_file)) as proxy:
        proxy.chaos = server.fault_for
        async with client_for(cluster, proxy.url) as client:
            running = asyncio.create_task(ServeProgram(client, Policy(), options).run())
            try:
                await eventually(lambda: server.tries >= ENOUGH_TRIES, "volumes are not readable")
                assert server.registrations == 0
                server.is_readable = True
                path = f"{CONFIGURATIONS}/{CONFIGURATION_NAME}"
                await eventually(lambda: cluster.client.exists(path), "the webhook is registered")
                (webhook,) = cluster.client.get(path)["webhooks"]
                cluster.client.delete(path)
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
    # No pod waits for us for longer, and none is refused.
    assert (webhook["timeoutSeconds"], webhook["failurePolicy"]) == (1, "Ignore")
