"""The service account of a pod."""

from pathlib import Path

import pytest

from rescheduler.errors import CredentialsError, Forbidden
from rescheduler.kube.auth.loader import load_credentials
from rescheduler.kube.client import Client
from testcluster import TestCluster
from tests.kube.auth.support import ask_who
from tests.kube.support import QUICK_CLIENT


async def test_a_service_account_whose_token_is_rotated(
    cluster: TestCluster, tmp_path: Path
) -> None:
    host, port = cluster.server.removeprefix("https://").split(":")
    environment = {
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": port,
        "HOME": str(tmp_path),
    }
    (tmp_path / "ca.crt").write_bytes(cluster.ca_file.read_bytes())
    (tmp_path / "token").write_text(cluster.admin_token)
    found = load_credentials(environment=environment, service_account=tmp_path)
    async with Client(found, QUICK_CLIENT) as client:
        assert await ask_who(client) == "admin"
        # Still good, and not read for every call.
        (tmp_path / "token").write_text("a revoked token")
        assert await ask_who(client) == "admin"
    found = load_credentials(environment=environment, service_account=tmp_path)
    async with Client(found, QUICK_CLIENT) as client:
        with pytest.raises(Forbidden):
            await ask_who(client)
        # The token that was just rejected is read again, once.
        (tmp_path / "token").write_text(cluster.powerless_token)
        assert await ask_who(client) == "powerless"


async def test_neither_a_kubeconfig_nor_a_pod(tmp_path: Path) -> None:
    with pytest.raises(
        CredentialsError, match=f"no kubeconfig .*{tmp_path}/.kube/config.*not running in a pod"
    ):
        load_credentials(environment={"HOME": str(tmp_path)}, service_account=tmp_path)
