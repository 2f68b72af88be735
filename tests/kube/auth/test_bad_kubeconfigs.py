"""Kubeconfigs that kubectl refuses, we refuse: by path and field, and without showing secrets."""

import base64
import json
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rescheduler.errors import CredentialsError
from rescheduler.kube.auth.authentication import ClientIdentity, basic
from rescheduler.kube.auth.certificates import ClientCertificate
from rescheduler.kube.auth.loader import load_credentials
from testcluster import TestCluster
from tests.kube.auth.support import Json, exec_user, kubeconfig, kubectl, trusted, user_info, write

Change = Callable[[Json], Any]

# Every token, key and password of this file has these letters in it.
SECRET = "hush"
SECRET_DATA = base64.b64encode(SECRET.encode()).decode()


def cluster_with(**fields: Any) -> Change:
    def change(config: Json) -> None:
        config["clusters"][0]["cluster"].update(fields)

    return change


def user_with(**fields: Any) -> Change:
    def change(config: Json) -> None:
        config["users"][0]["user"].update(fields)

    return change


def user_of(user: Json) -> Change:
    return lambda config: config["users"][0].update(user=user)


def config_with(**fields: Any) -> Change:
    return lambda config: config.update(fields)


def context_with(**fields: Any) -> Change:
    return lambda config: config["contexts"][0]["context"].update(fields)


def appended(field: str, entry: Any) -> Change:
    return lambda config: config[field].append(entry)


CLUSTER, USER, CONTEXT = "cluster 'here': ", "user 'here': ", "context 'here': "

REFUSED: dict[str, tuple[Change, str]] = {
    "another version": (config_with(apiVersion="v2"), "apiVersion: 'v2': expected v1"),
    "another kind": (config_with(kind="Pod"), "kind: 'Pod': expected Config"),
    "users that are no list": (
        config_with(users={"here": {"token": SECRET}}),
        "users: expected a list, but it is a mapping",
    ),
    "a user that is text": (
        appended("users", {"name": "x", "user": SECRET}),
        "users[1].user: expected a mapping, but it is text",
    ),
    "a name that is a number": (
        appended("clusters", {"name": 17, "cluster": {}}),
        "clusters[1].name: 17: expected text",
    ),
    "a token that is a number": (
        user_with(token=4711),
        "users[0].user.token: expected text, but it is a whole number",
    ),
    "a password that is a list": (
        user_with(password=[SECRET]),
        "users[0].user.password: expected text, but it is a list",
    ),
    "groups that are text": (
        user_with(**{"as-groups": SECRET}),
        "users[0].user.as-groups: expected a list, but it is text",
    ),
    "a switch that is text": (
        cluster_with(**{"disable-compression": "yes, please"}),
        "clusters[0].cluster.disable-compression: 'yes, please': expected true or false",
    ),
    "arguments that are a mapping": (
        user_with(**exec_user("x", args={"secret": SECRET})),
        "users[0].user.exec.args: expected a list, but it is a mapping",
    ),
    "a name that appears twice": (
        appended("users", {"name": "here", "user": {"token": SECRET}}),
        USER + "name: appears twice in this file, expected it once",
    ),
    "no such cluster": (
        context_with(cluster="there"),
        CONTEXT + "cluster: no cluster 'there'; expected one of: here",
    ),
    "no such user": (
        context_with(user="there"),
        CONTEXT + "user: no user 'there'; expected one of: here",
    ),
    "no such current context": (
        config_with(**{"current-context": "there"}),
        "no context 'there'; expected one of: here",
    ),
    "no server": (cluster_with(server=""), CLUSTER + "server: missing, expected the API server's"),
    "a server of another scheme": (
        cluster_with(server="ftp://127.0.0.1"),
        CLUSTER + "server: 'ftp://127.0.0.1': expected a URL such as https://192.0.2.1:6443",
    ),
    "a server with a bad port": (
        cluster_with(server="https://127.0.0.1:lots"),
        CLUSTER + "server: expected a URL such as https://192.0.2.1:6443",
    ),
    "a server whose host has an empty part": (
        cluster_with(server="https://cluster..example:6443"),
        CLUSTER + "server: expected a URL such as https://192.0.2.1:6443: encoding with 'idna'",
    ),
    "a server with a password": (
        cluster_with(server=f"https://joe:{SECRET}@127.0.0.1"),
        CLUSTER + "server: expected a URL such as https://192.0.2.1:6443, without a user name",
    ),
    "a proxy of another scheme": (
        cluster_with(**{"proxy-url": f"ftp://joe:{SECRET}@127.0.0.1"}),
        CLUSTER + "proxy-url: expected a URL such as http://192.0.2.1:3128",
    ),
    "two authorities": (
        cluster_with(**{"certificate-authority-data": SECRET_DATA}),
        CLUSTER + "certificate-authority: expected this or certificate-authority-data, not both",
    ),
    "an authority and no verification": (
        cluster_with(**{"insecure-skip-tls-verify": True}),
        CLUSTER + "insecure-skip-tls-verify: expected this or a certificate authority, not both",
    ),
    "an authority that is missing": (
        cluster_with(**{"certificate-authority": "missing.crt"}),
        "missing.crt: expected a readable file: No such file or directory",
    ),
    "an authority that is a directory": (
        cluster_with(**{"certificate-authority": "."}),
        "expected a readable file: Is a directory",
    ),
    "an authority without base64": (
        cluster_with(**{"certificate-authority": "", "certificate-authority-data": "?"}),
        CLUSTER + "certificate-authority-data: expected base64",
    ),
    "an authority with spaces in its base64": (
        cluster_with(**{"certificate-authority": "", "certificate-authority-data": "aGVs bG8="}),
        CLUSTER + "certificate-authority-data: expected base64",
    ),
    "an authority without PEM": (
        cluster_with(**{"certificate-authority": "", "certificate-authority-data": SECRET_DATA}),
        "certificate authority inline data: expected PEM certificates",
    ),
    "a token and a password": (
        user_with(username="joe", password=SECRET),
        USER + "token: expected this or username and password, not both",
    ),
    "a token file and a password": (
        user_of({"tokenFile": "config", "password": SECRET}),
        USER + "tokenFile: expected this or username and password, not both",
    ),
    "a token of two lines": (
        user_with(token=f"{SECRET}\n{SECRET}"),
        USER + "token: expected one line of printable characters",
    ),
    "a token file that is missing": (
        user_of({"tokenFile": "missing.token"}),
        "missing.token: expected a readable file",
    ),
    "a certificate without a key": (
        user_with(**{"client-certificate-data": SECRET_DATA}),
        USER + "client-key: missing, expected this or client-key-data",
    ),
    "two certificates": (
        user_with(**{"client-certificate": "x", "client-certificate-data": SECRET_DATA}),
        USER + "client-certificate: expected this or client-certificate-data, not both",
    ),
    "two keys": (
        user_with(
            **{
                "client-certificate-data": SECRET_DATA,
                "client-key": "x",
                "client-key-data": SECRET_DATA,
            }
        ),
        USER + "client-key: expected this or client-key-data, not both",
    ),
    "a key that is missing": (
        user_with(**{"client-certificate-data": SECRET_DATA, "client-key": "missing.key"}),
        "client-key: ",
    ),
    "a certificate without PEM": (
        user_with(**{"client-certificate-data": SECRET_DATA, "client-key-data": SECRET_DATA}),
        USER + "client certificate inline data with key inline data: expected a PEM certificate",
    ),
    "groups to act as, but no user": (
        user_with(**{"as-groups": ["x"]}),
        USER + "as: missing, expected it with as-uid, as-groups and as-user-extra",
    ),
    "a user to act as on two lines": (
        user_with(**{"as": "joe\nroot"}),
        USER + "as: expected one line of printable characters",
    ),
    "an auth provider that is gone": (
        user_of({"auth-provider": {"name": "gcp", "config": {"access-token": SECRET}}}),
        USER + "auth-provider: 'gcp': no longer supported; expected an exec plugin instead",
    ),
    "a plugin without a command": (
        user_of(exec_user("")),
        USER + "exec.command: missing, expected the name or the path of a program",
    ),
    "a plugin without a version": (
        user_of(exec_user("true", apiVersion=None)),
        USER + "exec.apiVersion: '': expected client.authentication.k8s.io/v1 or",
    ),
    "a plugin of a version that is gone": (
        user_of(exec_user("true", apiVersion="client.authentication.k8s.io/v1alpha1")),
        USER + "exec.apiVersion: 'client.authentication.k8s.io/v1alpha1': expected ",
    ),
    "a plugin without a mode": (
        user_of(exec_user("true", interactiveMode=None)),
        USER + "exec.interactiveMode: missing, expected one of Never, IfAvailable, Always",
    ),
    "a plugin of another mode": (
        user_of(exec_user("true", interactiveMode="Sometimes")),
        USER + "exec.interactiveMode: 'Sometimes', expected one of Never, IfAvailable, Always",
    ),
    "a variable without a name": (
        user_of(exec_user("true", env=[{"value": SECRET}])),
        USER + "exec.env: expected a name for every variable",
    ),
    "a bad plugin that is not needed": (
        user_with(**exec_user("true", interactiveMode="Sometimes")),
        USER + "exec.interactiveMode: 'Sometimes', expected one of Never, IfAvailable, Always",
    ),
}


@pytest.mark.parametrize(("change", "message"), REFUSED.values(), ids=REFUSED.keys())
async def test_what_kubectl_refuses_is_refused_by_path_and_field(
    cluster: TestCluster, tmp_path: Path, change: Change, message: str
) -> None:
    config = kubeconfig(trusted(cluster), {"token": cluster.admin_token})
    change(config)
    file = write(tmp_path / "config", config)
    await assert_refused(cluster, file, message)


async def assert_refused(cluster: TestCluster, file: Path, message: str) -> None:
    theirs = await kubectl(cluster, str(file), "auth", "whoami")
    assert theirs.returncode != 0
    with pytest.raises(CredentialsError) as caught:
        await user_info(file)
    assert message in str(caught.value)
    assert str(file.parent) in str(caught.value)
    for secret in (SECRET, SECRET_DATA, "4711", cluster.admin_token):
        assert secret not in str(caught.value)


NO_KUBECONFIGS = {
    "text": (SECRET, "expected clusters, users and contexts, but it is text"),
    "a list": ("[]", "expected clusters, users and contexts, but it is a list"),
    "no YAML": (f"token: {SECRET}\na: [", "expected YAML: YAML is malformed: line"),
    "a tag that does not fit": (f"token: !!int {SECRET}", "a value does not fit its tag"),
    "an unknown tag": (f"token: !unknown {SECRET}", "expected YAML"),
    "no UTF-8": (b"token: \xff", "byte 7 is 0xff: expected text encoded as UTF-8"),
    "endless nesting": ("[" * 10_000, "levels inside one another"),
    "empty": ("", "expected a kubeconfig, but it is empty"),
    "blank": (" \n", "expected a kubeconfig, but it is empty"),
    "nothing in it": ("{}", "no current context; there are none"),
}


@pytest.mark.parametrize(("content", "message"), NO_KUBECONFIGS.values(), ids=NO_KUBECONFIGS.keys())
async def test_what_is_no_kubeconfig_is_refused_by_path(
    cluster: TestCluster, tmp_path: Path, content: str | bytes, message: str
) -> None:
    file = tmp_path / "config"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    await assert_refused(cluster, file, message)


@pytest.mark.parametrize("name", ["oidc", "azure", "gcp"])
def test_auth_providers_are_refused_with_what_to_use_instead(
    cluster: TestCluster, tmp_path: Path, name: str
) -> None:
    user = {"auth-provider": {"name": name, "config": {"refresh-token": SECRET}}}
    file = write(tmp_path / "config", kubeconfig(trusted(cluster), user))
    expected = rf"{file}: user 'here': auth-provider: '{name}': .* exec plugin .*kubelogin"
    with pytest.raises(CredentialsError, match=expected) as caught:
        load_credentials(file)
    assert SECRET not in str(caught.value)


def test_a_key_that_appears_twice_is_refused(cluster: TestCluster, tmp_path: Path) -> None:
    """kubectl takes the last one. Which token was meant is not for us to guess."""
    text = json.dumps(kubeconfig(trusted(cluster), {"token": SECRET}))
    file = write(tmp_path / "config", text.replace('"token"', '"token": "x", "token"'))
    with pytest.raises(CredentialsError, match=f"{file}: .*line 1: the key 'token' appears twice"):
        load_credentials(file)


def test_a_proxy_that_we_cannot_use_is_refused(cluster: TestCluster, tmp_path: Path) -> None:
    """kubectl can: it knows socks5."""
    entry = trusted(cluster, **{"proxy-url": "socks5://127.0.0.1:1080"})
    file = write(tmp_path / "config", kubeconfig(entry, {"token": SECRET}))
    with pytest.raises(CredentialsError, match=r"proxy-url: expected .*, with http or https"):
        load_credentials(file)


def test_an_entry_that_is_not_chosen_may_be_incomplete(
    cluster: TestCluster, tmp_path: Path
) -> None:
    config = kubeconfig(trusted(cluster), {"token": SECRET})
    config["clusters"].append({"name": "broken", "cluster": {"certificate-authority": "missing"}})
    config["users"].append({"name": "broken", "user": {"auth-provider": {"name": "gcp"}}})
    assert load_credentials(write(tmp_path / "config", config)).server == cluster.server


def test_what_is_secret_does_not_appear_in_text_forms(cluster: TestCluster, tmp_path: Path) -> None:
    proxy = f"http://joe:{SECRET}@127.0.0.1:3128"
    entry = trusted(cluster, **{"proxy-url": proxy})
    config = kubeconfig(entry, {"token": SECRET})
    assert SECRET not in repr(load_credentials(write(tmp_path / "config", config)))
    certificate = ClientCertificate(SECRET.encode(), SECRET.encode())
    assert SECRET not in repr(ClientIdentity(basic("joe", SECRET), certificate))


def test_what_is_secret_does_not_appear_in_tracebacks(cluster: TestCluster, tmp_path: Path) -> None:
    config = kubeconfig(trusted(cluster), {"token": [SECRET]})
    with pytest.raises(CredentialsError, match="token: expected text") as caught:
        load_credentials(write(tmp_path / "config", config))
    assert SECRET not in "".join(traceback.format_exception(caught.value))
