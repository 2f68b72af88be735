"""Kubeconfigs, plugins and tokens, as the real API server sees them."""

import base64
import datetime
import json
import os
import ssl
import stat
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rescheduler.errors import CredentialsError, Forbidden
from rescheduler.kube.authentication import TOKEN_FILE_SECONDS, Authentication, Secret
from rescheduler.kube.client import Client
from rescheduler.kube.credentials import load_credentials
from rescheduler.model.kinds import NODE
from testcluster import TestCluster
from tests.kube.support import QUICK_CLIENT

Json = dict[str, Any]
WriteConfig = Callable[..., Path]


async def who_am_i(kubeconfig: Path | None = None, **options: Any) -> str:
    """Connect, and ask the server who we are."""
    async with Client(await load_credentials(kubeconfig, **options), QUICK_CLIENT) as client:
        return await ask_who(client)


async def ask_who(client: Client) -> str:
    answer = await client.create(
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
    )
    return str(json.loads(answer.body)["status"]["userInfo"]["username"])


@pytest.fixture
def write_config(cluster: TestCluster, tmp_path: Path) -> WriteConfig:
    """Write a kubeconfig with one context, in which cluster or user can be changed."""

    def write(
        user: Json,
        name: str = "here",
        file: str = "config",
        current: bool = True,
        **fields: Any,
    ) -> Path:
        entry = {"server": cluster.server, "certificate-authority": str(cluster.ca_file)}
        config: Json = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {**entry, **fields}}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        }
        path = tmp_path / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            yaml.safe_dump({**config, **({"current-context": name} if current else {})})
        )
        return path

    return write


def exec_plugin(directory: Path, *lines: str, name: str = "plugin") -> Path:
    """A plugin in Python."""
    path = directory / name
    path.write_text(f"#!{sys.executable}\nimport json, pathlib, sys\n" + "\n".join(lines))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def exec_user(command: str, **fields: Any) -> Json:
    api_version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": api_version, "command": command, **fields}}


PRINT_STATUS = (
    "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1',"
    " 'kind': 'ExecCredential', 'status': status}))"
)


def tokens_in_turn(directory: Path, *statuses: Json) -> Path:
    """A plugin that gives one answer after the other, and the last one for ever."""
    return exec_plugin(
        directory,
        f"calls = pathlib.Path({str(directory / 'calls')!r})",
        "number = len(calls.read_text()) if calls.exists() else 0",
        "calls.write_text('x' * (number + 1))",
        f"statuses = {list(statuses)!r}",
        "status = statuses[min(number, len(statuses) - 1)]",
        PRINT_STATUS,
    )


def calls_of(directory: Path) -> int:
    return len((directory / "calls").read_text())


def client_certificate(cluster: TestCluster, name: str) -> tuple[bytes, bytes]:
    """A certificate and key for a user, by the authority that the server trusts."""
    files = cluster.layout.certificates
    authority = x509.load_pem_x509_certificate(files.ca_file.read_bytes())
    authority_key = serialization.load_pem_private_key(files.ca_key_file.read_bytes(), None)
    assert isinstance(authority_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(authority_key, hashes.SHA256())
    )
    return (
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


async def test_a_token_in_a_kubeconfig(cluster: TestCluster) -> None:
    assert await who_am_i(cluster.kubeconfig) == "admin"
    assert await who_am_i(cluster.powerless_kubeconfig) == "powerless"


async def test_an_inline_authority(cluster: TestCluster, write_config: WriteConfig) -> None:
    data = base64.b64encode(cluster.ca_file.read_bytes()).decode()
    config = write_config({"token": cluster.admin_token}, **{"certificate-authority-data": data})
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
    unverified = {"insecure-skip-tls-verify": True, "tls-server-name": "example.com"}
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


async def test_a_plugin_is_run_once_and_again_when_its_token_expires(
    cluster: TestCluster, write_config: WriteConfig, tmp_path: Path
) -> None:
    expired = {"token": cluster.powerless_token, "expirationTimestamp": "2020-01-01T00:00:00Z"}
    plugin = tokens_in_turn(tmp_path, expired, {"token": cluster.admin_token})
    config = write_config(exec_user(str(plugin)))
    async with Client(await load_credentials(config), QUICK_CLIENT) as client:
        assert await ask_who(client) == "powerless"
        assert await ask_who(client) == "admin"
        assert await ask_who(client) == "admin"
    assert calls_of(tmp_path) == 2


async def test_a_plugin_is_run_again_once_when_its_token_is_rejected(
    cluster: TestCluster, write_config: WriteConfig, tmp_path: Path
) -> None:
    plugin = tokens_in_turn(tmp_path, {"token": "revoked"}, {"token": cluster.admin_token})
    config = write_config(exec_user(f"./{plugin.name}"))
    async with Client(await load_credentials(config), QUICK_CLIENT) as client:
        assert await ask_who(client) == "admin"
        assert await ask_who(client) == "admin"
        assert calls_of(tmp_path) == 2
        # A watch is opened in the same way.
        assert await anext(client.watch(NODE, "0", 1)) == ()


async def test_a_plugin_whose_tokens_are_all_rejected_is_not_run_for_ever(
    write_config: WriteConfig, tmp_path: Path
) -> None:
    plugin = tokens_in_turn(tmp_path, {"token": "revoked"}, {"token": "also revoked"})
    with pytest.raises(Forbidden, match="401 Unauthorized"):
        await who_am_i(write_config(exec_user(str(plugin))))
    assert calls_of(tmp_path) == 2


async def test_a_plugin_may_give_a_client_certificate_and_renew_it(
    cluster: TestCluster, write_config: WriteConfig, tmp_path: Path
) -> None:
    statuses = [
        {
            "clientCertificateData": certificate.decode(),
            "clientKeyData": key.decode(),
            "expirationTimestamp": "2020-01-01T00:00:00Z",
        }
        for certificate, key in (client_certificate(cluster, name) for name in ("one", "two"))
    ]
    config = write_config(exec_user(str(tokens_in_turn(tmp_path, *statuses))))
    async with Client(await load_credentials(config), QUICK_CLIENT) as client:
        assert [await ask_who(client), await ask_who(client)] == ["one", "two"]


async def test_a_plugin_gets_its_arguments_and_environment(
    cluster: TestCluster, write_config: WriteConfig, tmp_path: Path
) -> None:
    plugin = exec_plugin(
        tmp_path,
        "import os",
        "assert json.loads(os.environ['KUBERNETES_EXEC_INFO'])['kind'] == 'ExecCredential'",
        "status = {'token': sys.argv[1] + os.environ['SECOND_HALF']}",
        PRINT_STATUS,
    )
    halves = cluster.admin_token[:8], cluster.admin_token[8:]
    env = [{"name": "SECOND_HALF", "value": halves[1]}]
    assert (
        await who_am_i(write_config(exec_user(str(plugin), args=[halves[0]], env=env))) == "admin"
    )


PLUGIN_FAILURES = {
    "exits": (["sys.exit('please log in')"], "please log in"),
    "no JSON": (["print('hello')"], "failed to decode"),
    "no token": (["status = {}", PRINT_STATUS], "expected a token or a client certificate"),
    "no key": (["status = {'clientCertificateData': 'x'}", PRINT_STATUS], "expected clientKeyData"),
}


@pytest.mark.parametrize(("lines", "message"), PLUGIN_FAILURES.values(), ids=PLUGIN_FAILURES.keys())
async def test_a_plugin_that_fails_is_named(
    write_config: WriteConfig, tmp_path: Path, lines: list[str], message: str
) -> None:
    config = write_config(exec_user(str(exec_plugin(tmp_path, *lines))))
    with pytest.raises(CredentialsError, match=message) as caught:
        await who_am_i(config)
    assert f"kubeconfig {config}, context 'here': exec plugin '{tmp_path}/plugin'" in str(
        caught.value
    )


async def test_a_plugin_that_is_missing_comes_with_its_hint(write_config: WriteConfig) -> None:
    config = write_config(exec_user("no-such-plugin", installHint="Install it with: ..."))
    with pytest.raises(CredentialsError, match=r"(?s)'no-such-plugin'.*Install it with"):
        await who_am_i(config)


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
    found = await load_credentials(environment=environment, service_account=tmp_path)
    async with Client(found, QUICK_CLIENT) as client:
        assert await ask_who(client) == "admin"
        # Still good, and not read for every call.
        (tmp_path / "token").write_text("a revoked token")
        assert await ask_who(client) == "admin"
    found = await load_credentials(environment=environment, service_account=tmp_path)
    async with Client(found, QUICK_CLIENT) as client:
        with pytest.raises(Forbidden):
            await ask_who(client)
        # The token that was just rejected is read again, once.
        (tmp_path / "token").write_text(cluster.powerless_token)
        assert await ask_who(client) == "powerless"


async def test_a_secret_is_loaded_again_when_its_time_is_over() -> None:
    now, loaded = [0.0], []

    async def load() -> Secret:
        loaded.append(now[0])
        return Secret(f"Bearer {now[0]}", good_for_seconds=TOKEN_FILE_SECONDS)

    authentication = Authentication(load, clock=lambda: now[0])
    for now[0] in (0.0, 59.0, 60.0, 100.0, 200.0):
        await authentication.secret()
    assert loaded == [0.0, 60.0, 200.0]
    # Another call was rejected earlier, and has renewed it already.
    assert (await authentication.after_rejection(Secret("Bearer old"))).header == "Bearer 200.0"
    assert loaded == [0.0, 60.0, 200.0]


def jwt(expires: float) -> str:
    """A token of an identity provider. The name makes base64 use its more unusual characters."""
    claims = json.dumps({"exp": expires, "name": "Zoë ???>>>"}, ensure_ascii=False)
    return f"x.{base64.urlsafe_b64encode(claims.encode()).decode().rstrip('=')}.x"


@pytest.fixture
async def provider(cluster: TestCluster) -> AsyncIterator[str]:
    """An identity provider."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    files = cluster.layout.certificates
    context.load_cert_chain(files.server_file, files.server_key_file)

    async def discovery(request: web.Request) -> web.Response:
        return web.json_response({"token_endpoint": f"https://{request.host}/token"})

    async def token(request: web.Request) -> web.Response:
        form = await request.post()
        assert form["grant_type"] == "refresh_token"
        if form["refresh_token"] != "good":
            return web.json_response({"error": "invalid_grant"}, status=400)
        return web.json_response({"id_token": jwt(time.time() + 3600), "refresh_token": "next"})

    application = web.Application()
    application.router.add_get("/.well-known/openid-configuration", discovery)
    application.router.add_post("/token", token)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    yield "https://{}:{}".format(*runner.addresses[0])
    await runner.cleanup()


def oidc_user(issuer: str, **fields: str) -> Json:
    base = {"client-id": "me", "client-secret": "hush", "idp-issuer-url": issuer}
    return {"auth-provider": {"name": "oidc", "config": {**base, **fields}}}


async def test_an_expired_oidc_token_is_refreshed_and_kept(
    cluster: TestCluster, provider: str, write_config: WriteConfig
) -> None:
    """The API server does not know this provider, so its token is only looked at."""
    authority = {"idp-certificate-authority": str(cluster.ca_file)}
    tokens = {"refresh-token": "good", "id-token": jwt(expires=1)}
    config = write_config(oidc_user(provider, **tokens, **authority))
    secret = await (await load_credentials(config)).authentication.secret()
    kept = yaml.safe_load(config.read_text())["users"][0]["user"]["auth-provider"]["config"]
    assert kept["refresh-token"] == "next"
    assert secret.header == f"Bearer {kept['id-token']}"
    assert 3000 < secret.good_for_seconds < 3600
    # It is good for an hour now, so it is not refreshed again.
    again = await (await load_credentials(config)).authentication.secret()
    assert again.header == secret.header


async def test_providers_that_kubernetes_gave_up_are_named(write_config: WriteConfig) -> None:
    config = write_config({"auth-provider": {"name": "gcp"}})
    with pytest.raises(CredentialsError, match="auth-provider 'gcp': expected 'oidc'"):
        await who_am_i(config)


async def test_an_identity_provider_that_nobody_vouches_for_gets_no_secret(
    provider: str, write_config: WriteConfig
) -> None:
    config = write_config(oidc_user(provider, **{"refresh-token": "good"}))
    with pytest.raises(CredentialsError, match=f"OIDC provider {provider}: .*verify failed"):
        await who_am_i(config)


async def test_an_oidc_refresh_that_is_refused_is_told(
    cluster: TestCluster, provider: str, write_config: WriteConfig
) -> None:
    authority = base64.b64encode(cluster.ca_file.read_bytes()).decode()
    fields = {"refresh-token": "bad", "idp-certificate-authority-data": authority}
    with pytest.raises(CredentialsError, match=r"could not refresh the token: 400"):
        await who_am_i(write_config(oidc_user(provider, **fields)))
    with pytest.raises(CredentialsError, match="expected a refresh-token"):
        await who_am_i(write_config(oidc_user(provider)))


async def test_no_secret_is_sent_without_tls(write_config: WriteConfig) -> None:
    config = write_config({"token": "secret"}, server="http://127.0.0.1:1")
    found = await load_credentials(config)
    assert await found.authentication.secret() == Secret()


async def test_contexts_that_are_not_there(cluster: TestCluster, write_config: WriteConfig) -> None:
    config = write_config({"token": cluster.admin_token}, current=False)
    with pytest.raises(CredentialsError, match=f"kubeconfig {config}: no current context; .*here"):
        await load_credentials(config)
    with pytest.raises(CredentialsError, match="no context 'there'; expected one of: here"):
        await load_credentials(config, context="there")


NOT_KUBECONFIGS = {
    "empty": ("", "expected a kubeconfig, but it is empty"),
    "no YAML": ("a: [", "expected YAML"),
    "text": ("hello", "expected clusters, users and contexts, but it is a str"),
    "no contexts": ("{}", "no current context; expected at least one context"),
    "contexts of another form": ("contexts: [hello]", "Expected key name in"),
    "no such cluster": (
        "{current-context: a, contexts: [{name: a, context: {cluster: b}}]}",
        "context 'a': .*Expected object with name b in .*clusters",
    ),
    "no such user": (
        "{current-context: a, contexts: [{name: a, context: {cluster: b, user: c}}],"
        " clusters: [{name: b, cluster: {server: 'https://127.0.0.1:1'}}]}",
        "context 'a': no user 'c'",
    ),
    "no server": (
        "{current-context: a, contexts: [{name: a, context: {cluster: b}}],"
        " clusters: [{name: b, cluster: {}}]}",
        "context 'a': .*server",
    ),
    "no such authority": (
        "{current-context: a, contexts: [{name: a, context: {cluster: b}}],"
        " clusters: [{name: b, cluster: {server: 'https://a', certificate-authority: ca}}]}",
        "context 'a': .*ca",
    ),
}


@pytest.mark.parametrize(("text", "message"), NOT_KUBECONFIGS.values(), ids=NOT_KUBECONFIGS.keys())
async def test_a_file_that_is_not_a_kubeconfig_is_named(
    tmp_path: Path, text: str, message: str
) -> None:
    config = tmp_path / "config"
    config.write_text(text)
    with pytest.raises(CredentialsError, match=message) as caught:
        await load_credentials(config)
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
        await load_credentials(tmp_path / "missing")
    with pytest.raises(CredentialsError, match=f"kubeconfig {tmp_path}: expected a readable file"):
        await load_credentials(tmp_path)
    with pytest.raises(CredentialsError, match="no-token"):
        await who_am_i(write_config({"tokenFile": "no-token"}))
    (tmp_path / "ca").write_text("not a certificate")
    broken = write_config({"token": "x"}, **{"certificate-authority": "ca"})
    with pytest.raises(CredentialsError, match="ca: expected a readable file of PEM certificates"):
        await who_am_i(broken)
    broken = write_config({"client-certificate": "ca", "client-key": "ca"})
    with pytest.raises(CredentialsError, match="expected a PEM certificate and its key"):
        await who_am_i(broken)


async def test_neither_a_kubeconfig_nor_a_pod(tmp_path: Path) -> None:
    with pytest.raises(
        CredentialsError, match=f"no kubeconfig .*{tmp_path}/.kube/config.*not running in a pod"
    ):
        await load_credentials(environment={"HOME": str(tmp_path)}, service_account=tmp_path)
