"""Clients that say of a pod what is not true, on a real API server."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from rescheduler.extender.tls.certificates import issued
from testcluster.applying import apply
from testcluster.builders import deployment, pod
from testcluster.client import JsonObject
from tests.extender.running_extender import RunningExtender, post, serving_on
from tests.migration.support import ID, STATUS, Sandbox, controller_on, is_ready


class Landing:
    """A Deployment whose pods only the test binds, and whose evicted pod is not replaced yet."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.home, self.target = sandbox.add_nodes("home", "target")
        template = sandbox.here(schedulerName="nobody")
        apply(sandbox.cluster, deployment(f"{sandbox.namespace}/web", template=template))
        self.bare = sandbox.outside.create(
            sandbox.path("pods"), pod(f"{sandbox.namespace}/bare", schedulerName="nobody")
        )

    async def evict(self) -> tuple[JsonObject, str]:
        """Migrate the one pod; this pod, and the Migration when it waits for another."""
        sandbox = self.sandbox
        await sandbox.until(lambda: sandbox.pods("web"), "there is a pod")
        (old,) = sandbox.pods("web")
        self.bind(old, self.home)
        await sandbox.until(lambda: is_ready(sandbox.pods("web")[0]), "it is Ready")
        quota = {"metadata": {"name": "one"}, "spec": {"hard": {"pods": "1"}}}
        sandbox.outside.create(sandbox.path("resourcequotas"), quota)
        await sandbox.until(
            lambda: (sandbox.get("resourcequotas", "one") or {}).get("status", {}).get("used"),
            "the quota counts",
        )
        name = sandbox.migrate(old, self.target, mode="Evict")
        await sandbox.until(lambda: sandbox.status(name).get("step") == "Landing", "it is evicted")
        await sandbox.until(lambda: not sandbox.pods("web"), "it is gone")
        return old, name

    async def land(self) -> None:
        """Let the replacement be created, and bind it."""
        sandbox = self.sandbox
        sandbox.outside.delete(sandbox.path("resourcequotas", "one"))
        await sandbox.until(lambda: sandbox.pods("web"), "there is a replacement")
        self.bind(sandbox.pods("web")[0], self.target)

    def bind(self, body: JsonObject, node: str) -> None:
        path = self.sandbox.path("pods", body["metadata"]["name"])
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        metadata = {"name": body["metadata"]["name"]}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        self.sandbox.outside.create(f"{path}/binding", binding)


@asynccontextmanager
async def session_of(
    extender: RunningExtender, directory: Path, name: str
) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of this name, with a certificate of the CA for clients."""
    purpose = ExtendedKeyUsageOID.CLIENT_AUTH
    pair = issued(extender.bundle.authority, name, purpose, datetime.now(UTC))
    certificate, key = directory / "other.crt", directory / "other.key"
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    context: ssl.SSLContext = extender.client_context(known=False)
    context.load_cert_chain(certificate, key)
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(extender.url, connector=connector) as session:
        yield session


@pytest.mark.parametrize("client", ["someone", "kube-scheduler"])
async def test_a_pod_that_is_said_to_be_a_replacement_is_neither_marked_nor_deleted(
    sandbox: Sandbox, tmp_path: Path, client: str
) -> None:
    landing = Landing(sandbox)
    async with (
        serving_on(sandbox.cluster, tmp_path) as extender,
        controller_on(sandbox.cluster),
        session_of(extender, tmp_path, client) as session,
    ):
        old, migration = await landing.evict()
        claims = {key: old["metadata"][key] for key in ("ownerReferences", "labels")}
        metadata = {**landing.bare["metadata"], **claims}
        del metadata["creationTimestamp"]
        args = {"Pod": {**landing.bare, "metadata": metadata}, "NodeNames": [landing.target]}
        for verb in ("filter", "prioritize"):
            assert (await post(session, f"/extender/{verb}", args))[0] == 200
        await landing.land()
        (status,) = await sandbox.finished(migration)
    assert (status["outcome"], status["newNode"]) == ("Landed", landing.target), status
    left = sandbox.pod("bare")
    assert left is not None
    assert "deletionTimestamp" not in left["metadata"]
    assert not {ID, STATUS} & left["metadata"].get("labels", {}).keys()
