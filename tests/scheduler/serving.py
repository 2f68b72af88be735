"""A scheduler side that serves a real cluster, and a client that asks it over HTTPS."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from rescheduler.scheduler.certificates import Bundle
from rescheduler.scheduler.program import ServingProgram
from rescheduler.scheduler.registration import NAME, Address
from rescheduler.scheduler.side import ServingOptions
from rescheduler.settings import Policy
from testcluster import TestCluster
from testcluster.builders import owner_reference, pod, replicaset
from testcluster.ports import pick_ports
from testcluster.serving import write_certificates
from testcluster.waiting import wait_until
from tests.migration.support import Corner, client_for

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


@dataclass(frozen=True)
class Side:
    """What is being served, and where."""

    program: ServingProgram
    port: int
    bundle: Bundle
    directory: Path
    """Holds ca.crt, tls.crt, tls.key, client.crt and client.key."""

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def client_context(self, *, known: bool = True) -> ssl.SSLContext:
        """Trusts the server; shows its certificate if it is to be known."""
        context = ssl.create_default_context(cafile=str(self.directory / "ca.crt"))
        if known:
            context.load_cert_chain(self.directory / "client.crt", self.directory / "client.key")
        return context

    @asynccontextmanager
    async def session(self, *, known: bool = True) -> AsyncIterator[aiohttp.ClientSession]:
        connector = aiohttp.TCPConnector(ssl=self.client_context(known=known))
        async with aiohttp.ClientSession(self.url, connector=connector) as session:
            yield session


@asynccontextmanager
async def serving_on(
    cluster: TestCluster,
    directory: Path,
    policy: Policy | None = None,
    *,
    webhook: bool = False,
    server: str | None = None,
) -> AsyncIterator[Side]:
    """Serve a cluster while the block runs, once it is known."""
    bundle = write_certificates(directory)
    (port,) = pick_ports(1)
    options = ServingOptions(
        "127.0.0.1",
        port,
        certificates=directory,
        client_authority=directory / "ca.crt",
        webhook=Address(url=f"https://127.0.0.1:{port}") if webhook else None,
    )
    async with client_for(cluster, server) as client:
        program = ServingProgram(client, policy or Policy(), options)
        running = asyncio.create_task(program.run())
        side = Side(program, port, bundle, directory)
        try:
            await until_ready(side, running)
            yield side
            if running.done():
                running.result()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            if webhook:
                cluster.client.delete(f"{CONFIGURATIONS}/{NAME}")


async def until_ready(side: Side, running: "asyncio.Task[None]") -> None:
    """Wait until questions are answered."""

    async def is_ready(session: aiohttp.ClientSession) -> bool:
        if running.done():
            running.result()
        try:
            async with session.get("/readyz") as response:
                return response.status == 200
        except aiohttp.ClientError:
            return False

    async with side.session(known=False) as session:
        deadline = asyncio.get_running_loop().time() + 120
        while not await is_ready(session):
            assert asyncio.get_running_loop().time() < deadline, "not ready within 120 s"
            await asyncio.sleep(0.02)


async def post(session: aiohttp.ClientSession, path: str, body: Any) -> tuple[int, Any]:
    """Ask, and give status and answer."""
    async with session.post(path, json=body) as response:
        return response.status, await response.json()


def wait_until_asked(corner: Corner) -> None:
    """Return when the API server shows us new pods: it learns of webhooks a moment later."""
    owner = owner_reference(replicaset(f"{corner.namespace}/nobody"))
    probe = pod(f"{corner.namespace}/probe")
    probe["metadata"]["ownerReferences"] = [owner]
    before = times_asked(corner.cluster)

    def is_asked() -> bool:
        corner.outside.request("POST", f"{corner.path('pods')}?dryRun=All", probe)
        return times_asked(corner.cluster) > before

    wait_until(is_asked, what="the webhook is asked")


def times_asked(cluster: TestCluster) -> int:
    """How often the API server has had an answer from the webhook."""
    counter = 'apiserver_admission_webhook_request_total{code="200",name="steering.rescheduler.dev"'
    lines = cluster.kubectl("get", "--raw", "/metrics").splitlines()
    return sum(int(line.split()[-1]) for line in lines if line.startswith(counter))
