"""An extender that serves a real cluster, and clients that send it requests over HTTPS."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from rescheduler.extender.extender_server import ServeOptions
from rescheduler.extender.serve_program import ServeProgram
from rescheduler.extender.tls.certificates import Bundle
from rescheduler.extender.webhook.registration import CONFIGURATION_NAME, WebhookAddress
from rescheduler.settings import Policy
from testcluster import TestCluster
from testcluster.builders import owner_reference, pod, replicaset
from testcluster.ports import pick_ports
from testcluster.serving import write_certificates
from testcluster.waiting import wait_until
from tests.migration.support import Sandbox, client_for

SHIPPED_NAME, PATIENT_NAME = "steering.rescheduler.dev", "patient.rescheduler.dev"
PATIENT_SECONDS = 30
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


@dataclass(frozen=True)
class RunningExtender:
    """The program that serves, its address, and its certificates."""

    program: ServeProgram
    port: int
    bundle: Bundle
    directory: Path
    """Holds ca.crt, tls.crt, tls.key, client.crt and client.key."""

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def client_context(self, *, known: bool = True) -> ssl.SSLContext:
        """Trusts the server; has a client certificate if it is to be known."""
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
) -> AsyncIterator[RunningExtender]:
    """Serve a cluster while the block runs, once it is loaded."""
    bundle = write_certificates(directory)
    (port,) = pick_ports(1)
    options = ServeOptions(
        "127.0.0.1",
        port,
        certificates=directory,
        client_authority=directory / "ca.crt",
        webhook=WebhookAddress(url=f"https://127.0.0.1:{port}") if webhook else None,
    )
    async with client_for(cluster, server) as client:
        program = ServeProgram(client, policy or Policy(), options)
        running = asyncio.create_task(program.run())
        extender = RunningExtender(program, port, bundle, directory)
        try:
            await until_ready(extender, running)
            yield extender
            if running.done():
                running.result()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            if webhook:
                cluster.client.delete(f"{CONFIGURATIONS}/{CONFIGURATION_NAME}")


async def until_ready(extender: RunningExtender, running: "asyncio.Task[None]") -> None:
    """Wait until requests are answered."""

    async def is_ready(session: aiohttp.ClientSession) -> bool:
        if running.done():
            running.result()
        try:
            async with session.get("/readyz") as response:
                return response.status == 200
        except aiohttp.ClientError:
            return False

    async with extender.session(known=False) as session:
        deadline = asyncio.get_running_loop().time() + 120
        while not await is_ready(session):
            assert asyncio.get_running_loop().time() < deadline, "not ready within 120 s"
            await asyncio.sleep(0.02)


async def post(session: aiohttp.ClientSession, path: str, body: Any) -> tuple[int, Any]:
    """Send a request; returns the status and the response."""
    async with session.post(path, json=body) as response:
        return response.status, await response.json()


def wait_until_webhook_is_called(sandbox: Sandbox, *, as_shipped: bool = False) -> None:
    """Return when the API server sends us new pods: it learns of webhooks a moment later.

    It gives up the shipped webhook after a second, and the pod is created unsteered. That is right
    for pods, but on a busy machine a replacement would go anywhere by chance. So it is told to wait
    for longer, unless the webhook is wanted `as_shipped`.
    """
    name = SHIPPED_NAME if as_shipped else be_patient(sandbox.cluster)
    owner = owner_reference(replicaset(f"{sandbox.namespace}/nobody"))
    probe = pod(f"{sandbox.namespace}/probe")
    probe["metadata"]["ownerReferences"] = [owner]
    before = webhook_calls(sandbox.cluster, name)

    def is_called() -> bool:
        sandbox.outside.request("POST", f"{sandbox.path('pods')}?dryRun=All", probe)
        return webhook_calls(sandbox.cluster, name) > before

    wait_until(is_called, what="the webhook is called")


def be_patient(cluster: TestCluster) -> str:
    """Have the API server wait for the webhook for longer; under which name it does so."""
    path = f"{CONFIGURATIONS}/{CONFIGURATION_NAME}"
    wait_until(lambda: cluster.client.exists(path), what="the webhook is registered")
    registered = cluster.client.get(path)
    (webhook,) = registered["webhooks"]
    webhook |= {"name": PATIENT_NAME, "timeoutSeconds": PATIENT_SECONDS}
    cluster.client.replace(path, registered)
    return PATIENT_NAME


def webhook_calls(cluster: TestCluster, name: str) -> int:
    """How often the API server has had a response from the webhook of this name."""
    counter = f'apiserver_admission_webhook_request_total{{code="200",name="{name}"'
    lines = cluster.kubectl("get", "--raw", "/metrics").splitlines()
    return sum(int(line.split()[-1]) for line in lines if line.startswith(counter))
