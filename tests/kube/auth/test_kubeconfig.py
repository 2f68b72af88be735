"""Kubeconfigs, as the real API server sees them."""

import base64
import os
from pathlib import Path

import pytest
import yaml

from rescheduler.errors import CredentialsError, Forbidden
from rescheduler.kube.auth.authentication import ClientIdentity
from rescheduler.kube.auth.loader import load_credentials
from testcluster import TestCluster
from tests.kube.auth.conftest import WriteConfig
from tests.kube.auth.support import client_certificate, who_am_i


async def test_a_token_in_a_kubeconfig(cluster: TestCluster) -> None:
    assert await who_am_i(cluster.kubeconfig) == "admin"
    assert await who_am_i(cluster.powerless_kubeconfig) == "powerless"


async def test_an_inline_authority(cluster: TestCluster, write_config: WriteConfig) -> None:
    data = base64.b64encode(cluster.ca_file.read_bytes()).decode()
    inline = {"certificate-authority": None, "certificate-authority-data": data}
    config = write_config({"token": cluster.admin_token}, **inline)
    assert await who_am_i(config) == "admin"


async def test_inline_client_certificates(cluster: TestCluster, write_config: WriteConfig) -> None:
    certificate, key = (
        base64.b64encode(part).decode() for part in client_certificate(cluster, "carla")
    )
    config = write_config({"client-certificate-data": certificate, "client-key-data": key})
    assert await who_am_i(config) == "carla"


async def test_client_certificate_files_beside_the_kubeconfig(
    cluster: TestCluster, write_config: WriteConfig, tmp_path: Path
) -> None:
    certificate, key = client_certificate(cluster, "carla")
    config = write_config({"client-certificate": "carla.crt", "client-key": "carla.key"})
    (tmp_path / "carla.crt").write_bytes(certificate)
    (tmp_path / "carla.key").write_bytes(key)
    assert await who_am_i(config) == "carla"


async def test_a_server_name_and_skipped_verification(
    cluster: TestCluster, write_config: WriteConfig
) -> None:
    user = {"token": cluster.admin_token}
    assert await who_am_i(write_config(user, **{"tls-server-name": "kubernetes"})) == "admin"
    wrong = write_config(user, **{"tls-server-name": "example.com"})
    with pytest.raises(CredentialsError, match=r"no trusted connection to .*example.com"):
        await who_am_i(wrong)
    unverified = {
        "insecure-skip-tls-verify": True,
        "tls-server-name": "example.com",
        "certificate-authority": None,
    }
    assert await who_am_i(write_config(user, **unverified)) == "admin"


async def test_several_files_and_a_context_by_name(
    cluster: TestCluster, write_config: WriteConfig
) -> None:
    first = write_config({"token": cluster.admin_token}, "first", "a/first", current=False)
    (first.parent / "token").write_text(cluster.powerless_token + "\n")
    second = write_config({"tokenFile": "token"}, "second", "a/second")
    third = write_config({"token": "wrong"}, "third", "third")
    environment = {"KUBECONFIG": os.pathsep.join(map(str, [first, "missing", second, third]))}
    # The first file that names a current context decides, as in kubectl.
    assert await who_am_i(environment=environment) == "powerless"
    assert await who_am_i(environment=environment, context="first") == "admin"
    # A file that is named counts more than the environment.
    assert await who_am_i(first, environment=environment, context="first") == "admin"


async def test_the_kubeconfig_in_the_home_directory(
    cluster: TestCluster, write_config: WriteConfig, tmp_path: Path
) -> None:
    write_config({"token": cluster.admin_token}, file=".kube/config")
    assert await who_am_i(environment={"HOME": str(tmp_path)}) == "admin"


async def test_no_secret_is_sent_without_tls(write_config: WriteConfig) -> None:
    config = write_config({"token": "secret"}, server="http://127.0.0.1:1")
    found = load_credentials(config)
    assert await found.authentication.identity() == ClientIdentity()


async def test_contexts_that_are_not_there(cluster: TestCluster, write_config: WriteConfig) -> None:
    config = write_config({"token": cluster.admin_token}, current=False)
    with pytest.raises(CredentialsError, match=f"kubeconfig {config}: no current context; .*here"):
        load_credentials(config)
    with pytest.raises(CredentialsError, match="no context 'there'; expected one of: here"):
        load_credentials(config, context="there")


NOT_KUBECONFIGS = {
    "empty": ("", "expected a kubeconfig, but it is empty"),
    "no YAML": ("a: [", "expected YAML"),
    "text": ("hello", "expected clusters, users and contexts, but it is text"),
    "no contexts": ("{}", "no current context; there are none"),
    "contexts of another form": (
        "contexts: [hello]",
        r"contexts\[0\]: expected a mapping, but it is text",
    ),
    "no such cluster": (
        "{current-context: a, contexts: [{name: a, context: {cluster: b}}]}",
        "context 'a': cluster: no cluster 'b'; there are none",
    ),
    "no such user": (
        "{current-context: a, contexts: [{name: a, context: {cluster: b, user: c}}],"
        " clusters: [{name: b, cluster: {server: 'https://127.0.0.1:1'}}]}",
        "context 'a': user: no user 'c'; there are none",
    ),
    "no server": (
        "{current-context: a, contexts: [{name: a, context: {cluster: b}}],"
        " clusters: [{name: b, cluster: {}}]}",
        "cluster 'b': server: missing, expected the API server's URL",
    ),
    "no such authority": (
        "{current-context: a, contexts: [{name: a, context: {cluster: b}}],"
        " clusters: [{name: b, cluster: {server: 'https://a', certificate-authority: ca}}]}",
        "cluster 'b': certificate-authority: .*ca: expected a readable file: No such file",
    ),
}


@pytest.mark.parametrize(("text", "message"), NOT_KUBECONFIGS.values(), ids=NOT_KUBECONFIGS.keys())
async def test_a_file_that_is_not_a_kubeconfig_is_named(
    tmp_path: Path, text: str, message: str
) -> None:
    config = tmp_path / "config"
    config.write_text(text)
    with pytest.raises(CredentialsError, match=message) as caught:
        load_credentials(config)
    assert f"kubeconfig {config}" in str(caught.value)


async def test_a_user_is_not_needed(write_config: WriteConfig, tmp_path: Path) -> None:
    config = write_config({})
    entries = yaml.safe_load(config.read_text())
    del entries["users"], entries["contexts"][0]["context"]["user"]
    config.write_text(yaml.safe_dump(entries))
    with pytest.raises(Forbidden, match=r"401|system:anonymous"):
        await who_am_i(config)


async def test_files_that_cannot_be_read_are_named(
    cluster: TestCluster, write_config: WriteConfig, tmp_path: Path
) -> None:
    with pytest.raises(CredentialsError, match="missing: no such file"):
        load_credentials(tmp_path / "missing")
    with pytest.raises(CredentialsError, match=f"kubeconfig {tmp_path}: expected a readable file"):
        load_credentials(tmp_path)
    with pytest.raises(CredentialsError, match="no-token"):
        await who_am_i(write_config({"tokenFile": "no-token"}))
    (tmp_path / "ca").write_text("not a certificate")
    broken = write_config({"token": "x"}, **{"certificate-authority": "ca"})
    with pytest.raises(CredentialsError, match="ca: expected a readable file of PEM certificates"):
        await who_am_i(broken)
    broken = write_config({"client-certificate": "ca", "client-key": "ca"})
    with pytest.raises(CredentialsError, match="expected a PEM certificate and its key"):
        await who_am_i(broken)
