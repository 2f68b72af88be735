"""Client certificates in files are read again, and connections with old ones do not pile up."""

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path

import pytest

from rescheduler.errors import CredentialsError, Forbidden
from rescheduler.kube.auth.authentication import Authentication
from rescheduler.kube.auth.certificate_files import ClientCertificateFiles
from rescheduler.kube.auth.certificates import ClientCertificate
from rescheduler.kube.auth.loader import load_credentials
from rescheduler.kube.client import Client
from testcluster import TestCluster
from tests.kube.auth.conftest import WriteConfig
from tests.kube.auth.support import ask_who, client_certificate
from tests.kube.support import CONFIG_MAP, QUICK_CLIENT, eventually

FILES = {"client-certificate": "user.crt", "client-key": "user.key"}


@pytest.fixture
def issue(cluster: TestCluster, tmp_path: Path) -> Callable[..., None]:
    """Write a certificate for a user into the files, as a renewal does."""

    def write(name: str, lifetime: timedelta = timedelta(days=1)) -> None:
        for part, content in zip(
            ("crt", "key"), client_certificate(cluster, name, lifetime), strict=True
        ):
            draft = tmp_path / f"user.{part}.new"
            draft.write_bytes(content)
            draft.rename(tmp_path / f"user.{part}")

    return write


async def is_rejected(client: Client) -> bool:
    try:
        await ask_who(client)
    except Forbidden:
        return True
    return False


async def until_rejected(client: Client) -> None:
    deadline = time.monotonic() + 60
    while not await is_rejected(client):
        assert time.monotonic() < deadline, "the certificate is not rejected within 60 s"
        await asyncio.sleep(0.05)


async def test_a_certificate_that_has_expired_is_replaced_by_that_in_the_files(
    write_config: WriteConfig, issue: Callable[..., None]
) -> None:
    issue("short", timedelta(seconds=4))
    async with Client(load_credentials(write_config(FILES)), QUICK_CLIENT) as client:
        assert await ask_who(client) == "short"
        await until_rejected(client)
        issue("renewed")
        assert await ask_who(client) == "renewed"


async def test_files_are_read_again_before_the_server_rejects_anything(
    write_config: WriteConfig, issue: Callable[..., None]
) -> None:
    issue("one")
    async with Client(load_credentials(write_config(FILES)), QUICK_CLIENT) as client:
        assert await ask_who(client) == "one"
        issue("two")
        assert await ask_who(client) == "one", "the files are not read for every request"
        wait_a_minute(client)
        assert await ask_who(client) == "two"


async def test_a_certificate_next_to_a_token_file_is_read_again(
    cluster: TestCluster, write_config: WriteConfig, issue: Callable[..., None], tmp_path: Path
) -> None:
    (tmp_path / "token").write_text(cluster.powerless_token)
    issue("one")
    credentials = load_credentials(write_config({**FILES, "tokenFile": "token"}))
    before = (await credentials.authentication.identity()).certificate
    issue("two")
    rejected = await credentials.authentication.identity()
    assert (await credentials.authentication.after_rejection(rejected)).certificate != before


async def test_sessions_with_old_certificates_are_closed_when_their_last_request_has_ended(
    cluster: TestCluster, write_config: WriteConfig, issue: Callable[..., None]
) -> None:
    issue("user-0")
    give_rights(cluster, "user-0")
    before = connections_to(cluster)
    async with Client(load_credentials(write_config(FILES)), QUICK_CLIENT) as client:
        async with aclosing(client.watch(CONFIG_MAP, "", 300)) as watch:
            await anext(watch)
            for number in range(1, 6):
                issue(f"user-{number}")
                wait_a_minute(client)
                assert await ask_who(client) == f"user-{number}"
            # That of the watch, which goes on, and that of the newest certificate.
            await eventually(
                lambda: connections_to(cluster) == before + 2, "old connections are closed"
            )
        await eventually(
            lambda: connections_to(cluster) == before + 1, "that of the watch is closed"
        )
    await eventually(lambda: connections_to(cluster) == before, "all are closed")


def test_while_only_one_of_two_files_is_replaced_the_old_certificate_is_used(
    cluster: TestCluster, issue: Callable[..., None], tmp_path: Path
) -> None:
    issue("one")
    paths = tmp_path / "user.crt", tmp_path / "user.key"
    files = ClientCertificateFiles(ClientCertificate(*paths))
    one = files.current()
    certificate, key = client_certificate(cluster, "two")
    paths[0].write_bytes(certificate)
    assert files.current() == one
    paths[0].unlink()
    assert files.current() == one
    paths[0].write_bytes(certificate)
    paths[1].write_bytes(key)
    assert files.current() != one


def test_files_that_were_never_usable_are_refused(tmp_path: Path) -> None:
    paths = tmp_path / "user.crt", tmp_path / "user.key"
    files = ClientCertificateFiles(ClientCertificate(*paths))
    with pytest.raises(CredentialsError, match=r"user\.crt: cannot be read: No such file"):
        files.current()
    for path in paths:
        path.write_text("no certificate")
    with pytest.raises(CredentialsError, match="expected a PEM certificate and its key"):
        files.current()


def wait_a_minute(client: Client) -> None:
    """Let the time pass after which files are read again."""
    authentication: Authentication = client._authentication
    authentication._good_until = 0.0


def give_rights(cluster: TestCluster, user: str) -> None:
    subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "ClusterRole", "name": "view", "apiGroup": "rbac.authorization.k8s.io"}
    client = cluster.client
    client.create(
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"view-{user}"},
            "roleRef": role,
            "subjects": [subject],
        },
    )
    client.close()


def connections_to(cluster: TestCluster) -> int:
    """How many connections this process has open to the API server."""
    port = f":{cluster.layout.ports.apiserver:04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    established = {f"socket:[{row[9]}]" for row in rows if row[2].endswith(port) and row[3] == "01"}
    own = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            own.add(str(descriptor.readlink()))
        except OSError:
            continue
    return len(established & own)
