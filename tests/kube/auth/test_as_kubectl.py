"""What kubectl makes of a kubeconfig, we make of it.

Every kubeconfig of the table is read by both. The entries that are chosen and merged must be the
same, and the API server must take both for the same user.
"""

import asyncio
import base64
import json
import os
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from rescheduler.errors import CredentialsError
from rescheduler.kube.auth.kubeconfig import ChosenContext, read_kubeconfig
from rescheduler.kube.auth.loader import kubeconfig_files, load_credentials
from rescheduler.kube.client import Client
from testcluster import TestCluster
from tests.kube.auth.conftest import STDIN
from tests.kube.auth.support import (
    PRINT_STATUS,
    V1,
    V1BETA1,
    Json,
    client_certificate,
    exec_plugin,
    exec_user,
    kubeconfig,
    kubectl,
    trusted,
    user_info,
    write,
)
from tests.kube.support import QUICK_CLIENT


@dataclass(frozen=True)
class Asked:
    """What a person sets $KUBECONFIG to, and gives as --context."""

    files: str
    context: str | None = None

    @property
    def context_option(self) -> list[str]:
        return [] if self.context is None else [f"--context={self.context}"]


class KubeconfigWriter:
    """Writes kubeconfigs for the test cluster into a directory."""

    def __init__(self, cluster: TestCluster, directory: Path, proxy: str) -> None:
        self.cluster = cluster
        self.directory = directory
        self.proxy = proxy

    @property
    def admin(self) -> Json:
        return {"token": self.cluster.admin_token}

    @property
    def powerless(self) -> Json:
        return {"token": self.cluster.powerless_token}

    def one(self, user: Json, **fields: Any) -> Asked:
        """A single file with a single context; a field of the cluster that is None is left out."""
        cluster = {key: value for key, value in self.entry(**fields).items() if value is not None}
        return Asked(str(write(self.directory / "config", kubeconfig(cluster, user))))

    def entry(self, **fields: Any) -> Json:
        return trusted(self.cluster, **fields)

    def text(self, text: str) -> Asked:
        return Asked(str(write(self.directory / "config", text)))

    def file(self, name: str, content: str | bytes) -> Path:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def plugin(self, status: Json, name: str = "plugin") -> Path:
        return exec_plugin(self.directory, f"status = {status!r}", PRINT_STATUS, name=name)

    def authority(self) -> bytes:
        return self.cluster.ca_file.read_bytes()

    def certificate(self, name: str = "carla") -> tuple[bytes, bytes]:
        return client_certificate(self.cluster, name)


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def token_file_beside_the_file(writer: KubeconfigWriter) -> Asked:
    writer.file("secrets/token", writer.cluster.powerless_token + "\n")
    return writer.one({"tokenFile": "secrets/token"})


def token_file_and_token(writer: KubeconfigWriter) -> Asked:
    writer.file("token", writer.cluster.powerless_token)
    return writer.one({**writer.admin, "tokenFile": "token"})


def inline_authority(writer: KubeconfigWriter) -> Asked:
    data = encoded(writer.authority())
    fields = {"certificate-authority": None, "certificate-authority-data": data}
    return writer.one(writer.admin, **fields)


def inline_authority_on_several_lines(writer: KubeconfigWriter) -> Asked:
    data = encoded(writer.authority())
    lines = "\n".join(data[start : start + 64] for start in range(0, len(data), 64))
    fields = {"certificate-authority": None, "certificate-authority-data": lines}
    return writer.one(writer.admin, **fields)


def authority_with_comments(writer: KubeconfigWriter) -> Asked:
    data = "# Zoë's own authority\n".encode() + writer.authority()
    fields = {"certificate-authority": None, "certificate-authority-data": encoded(data)}
    return writer.one(writer.admin, **fields)


def authority_beside_the_file(writer: KubeconfigWriter) -> Asked:
    writer.file("pki/ca.crt", writer.authority())
    return writer.one(writer.admin, **{"certificate-authority": "./pki/../pki/ca.crt"})


def inline_certificate(writer: KubeconfigWriter) -> Asked:
    certificate, key = map(encoded, writer.certificate())
    return writer.one({"client-certificate-data": certificate, "client-key-data": key})


def certificate_beside_the_file(writer: KubeconfigWriter) -> Asked:
    certificate, key = writer.certificate()
    writer.file("carla.crt", certificate)
    writer.file("carla.key", key)
    return writer.one({"client-certificate": "carla.crt", "client-key": "carla.key"})


def certificate_file_with_inline_key(writer: KubeconfigWriter) -> Asked:
    certificate, key = writer.certificate()
    writer.file("carla.crt", certificate)
    return writer.one({"client-certificate": "carla.crt", "client-key-data": encoded(key)})


def certificate_and_token(writer: KubeconfigWriter) -> Asked:
    certificate, key = map(encoded, writer.certificate())
    user = {**writer.admin, "client-certificate-data": certificate, "client-key-data": key}
    return writer.one(user)


def certificate_and_plugin(writer: KubeconfigWriter) -> Asked:
    certificate, key = map(encoded, writer.certificate())
    user = {"client-certificate-data": certificate, "client-key-data": key}
    return writer.one({**user, **exec_user(str(writer.plugin(writer.admin)))})


def plugin_with_certificate(writer: KubeconfigWriter) -> Asked:
    certificate, key = (part.decode() for part in writer.certificate())
    status = {"clientCertificateData": certificate, "clientKeyData": key}
    return writer.one(exec_user(str(writer.plugin(status))))


def plugin_beside_the_file(writer: KubeconfigWriter) -> Asked:
    writer.plugin(writer.admin)
    return writer.one(exec_user("./plugin"))


def plugin_of_the_older_version(writer: KubeconfigWriter) -> Asked:
    plugin = writer.plugin(writer.admin)
    return writer.one(exec_user(str(plugin), apiVersion=V1BETA1, interactiveMode=None))


def plugin_with_arguments(writer: KubeconfigWriter) -> Asked:
    plugin = exec_plugin(
        writer.directory,
        "status = {'token': sys.argv[1] + os.environ['SECOND_HALF']}",
        PRINT_STATUS,
    )
    token = writer.cluster.admin_token
    env = [{"name": "SECOND_HALF", "value": token[8:]}]
    return writer.one(exec_user(str(plugin), args=[token[:8]], env=env))


def first_file_wins(writer: KubeconfigWriter) -> Asked:
    """The user of the second file has a field that the first one's has not: it does not count."""
    writer.file("token", writer.cluster.admin_token)
    first = kubeconfig(writer.entry(), writer.powerless, "shared")
    second = kubeconfig(
        writer.entry(server="https://127.0.0.1:1"), {"tokenFile": "token"}, "shared"
    )
    files = [write(writer.directory / "one", first), write(writer.directory / "two", second)]
    return Asked(os.pathsep.join(map(str, files)))


def spread_over_files(writer: KubeconfigWriter) -> Asked:
    """Cluster, user and context in a file each, paths relative to each of them."""
    writer.file("clusters/ca.crt", writer.authority())
    writer.file("users/token", writer.cluster.powerless_token)
    whole = kubeconfig(writer.entry(**{"certificate-authority": "ca.crt"}), {"tokenFile": "token"})
    parts = {
        "clusters/config": {"clusters": whole["clusters"]},
        "users/config": {"users": whole["users"]},
        "contexts/config": {
            "contexts": whole["contexts"],
            "current-context": whole["current-context"],
        },
    }
    files = [write(writer.directory / name, content) for name, content in parts.items()]
    return Asked(os.pathsep.join(map(str, files)))


def current_context_of_the_first_file(writer: KubeconfigWriter) -> Asked:
    """The first file has no current context, some names are empty, some files missing or empty."""
    nameless = kubeconfig(writer.entry(), writer.admin, "one", **{"current-context": ""})
    first = write(writer.directory / "one", nameless)
    second = write(writer.directory / "two", kubeconfig(writer.entry(), writer.powerless, "two"))
    third = write(writer.directory / "three", kubeconfig(writer.entry(), writer.admin, "three"))
    empty = write(writer.directory / "empty", "")
    missing = writer.directory / "missing"
    return Asked(os.pathsep.join(map(str, ["", first, missing, empty, second, third, second, ""])))


def context_by_name(writer: KubeconfigWriter) -> Asked:
    files = current_context_of_the_first_file(writer).files
    return Asked(files, context="one")


def context_with_a_namespace(writer: KubeconfigWriter) -> Asked:
    context = {"cluster": "here", "user": "here", "namespace": "shop"}
    contexts = [{"name": "other", "context": {}}, {"name": "here", "context": context}]
    content = kubeconfig(writer.entry(), writer.admin, contexts=contexts)
    return Asked(str(write(writer.directory / "config", content)))


def impersonation(writer: KubeconfigWriter) -> Asked:
    extra = {"example.com/Scopes %1": ["one", "two"], "reason": ["on call"]}
    groups = ["developers", "system:masters"]
    act_as = {"as": "joe", "as-uid": "1234", "as-groups": groups, "as-user-extra": extra}
    return writer.one({**writer.admin, **act_as})


def json_instead_of_yaml(writer: KubeconfigWriter) -> Asked:
    return writer.text(json.dumps(kubeconfig(writer.entry(), writer.admin), indent="\t"))


def anchors(writer: KubeconfigWriter) -> Asked:
    return writer.text(
        f"x-user: &user {{token: {writer.cluster.admin_token}}}\n"
        "current-context: here\n"
        "contexts: [{name: here, context: {cluster: here, user: here}}]\n"
        f"clusters: [{{name: here, cluster: {json.dumps(writer.entry())}}}]\n"
        "users: [{name: here, user: {<<: *user, username: null, exec: null, as-groups: []}}]\n"
    )


def unknown_fields(writer: KubeconfigWriter) -> Asked:
    content = kubeconfig({**writer.entry(), "colour": 1}, {**writer.admin, "shape": [1]})
    return Asked(str(write(writer.directory / "config", {**content, "preferences": {}, "x": 1})))


def two_documents(writer: KubeconfigWriter) -> Asked:
    first = json.dumps(kubeconfig(writer.entry(), writer.admin))
    return writer.text(
        f"{first}\n---\n{json.dumps(kubeconfig(writer.entry(), writer.powerless))}\n"
    )


ACCEPTED: dict[str, Callable[[KubeconfigWriter], Asked]] = {
    "token": lambda writer: writer.one(writer.admin),
    "token file beside the file": token_file_beside_the_file,
    "token file and token": token_file_and_token,
    "missing token file and token": lambda writer: writer.one({**writer.admin, "tokenFile": "no"}),
    "inline authority": inline_authority,
    "inline authority on several lines": inline_authority_on_several_lines,
    "authority with comments": authority_with_comments,
    "authority beside the file": authority_beside_the_file,
    "no verification": lambda writer: writer.one(
        writer.admin, **{"certificate-authority": None, "insecure-skip-tls-verify": True}
    ),
    "server name": lambda writer: writer.one(writer.admin, **{"tls-server-name": "kubernetes"}),
    "server with a slash": lambda writer: writer.one(
        writer.admin, server=f"{writer.cluster.server}/"
    ),
    "server with a query": lambda writer: writer.one(
        writer.admin, server=f"{writer.cluster.server}/?a=b#c"
    ),
    "without compression": lambda writer: writer.one(writer.admin, **{"disable-compression": True}),
    "proxy": lambda writer: writer.one(writer.admin, **{"proxy-url": writer.proxy}),
    "proxy and server name": lambda writer: writer.one(
        writer.admin, **{"proxy-url": writer.proxy, "tls-server-name": "kubernetes"}
    ),
    "inline certificate": inline_certificate,
    "certificate beside the file": certificate_beside_the_file,
    "certificate file with inline key": certificate_file_with_inline_key,
    "certificate and token": certificate_and_token,
    "key without certificate": lambda writer: writer.one({**writer.admin, "client-key": "no"}),
    "plugin": lambda writer: writer.one(exec_user(str(writer.plugin(writer.admin)))),
    "plugin beside the file": plugin_beside_the_file,
    "plugin of the older version": plugin_of_the_older_version,
    "plugin with arguments": plugin_with_arguments,
    "plugin with certificate": plugin_with_certificate,
    "certificate and plugin": certificate_and_plugin,
    "token and plugin": lambda writer: writer.one({**writer.admin, **exec_user("no-such-plugin")}),
    "impersonation": impersonation,
    "first file wins": first_file_wins,
    "spread over files": spread_over_files,
    "current context of the first file": current_context_of_the_first_file,
    "context by name": context_by_name,
    "context with a namespace": context_with_a_namespace,
    "JSON": json_instead_of_yaml,
    "anchors": anchors,
    "unknown fields": unknown_fields,
    "two documents": two_documents,
}


class Proxy:
    """An HTTP proxy that connects to where it is asked to, and remembers that."""

    def __init__(self) -> None:
        self.targets: list[str] = []
        self._streams: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = "http://{}:{}".format(*self._server.sockets[0].getsockname())

    async def stop(self) -> None:
        self._server.close()
        for stream in self._streams:
            stream.cancel()
        await asyncio.gather(*self._streams, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, target, _ = head.split(maxsplit=2)
        assert method == "CONNECT"
        self.targets.append(target)
        host, port = target.rsplit(":", 1)
        beyond = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        for ends in ((reader, beyond[1]), (beyond[0], writer)):
            stream = asyncio.create_task(pass_on(*ends))
            self._streams.add(stream)


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(2**16):
            writer.write(data)
            await writer.drain()
    except OSError:
        # One end hung up; so does the other.
        pass
    finally:
        writer.close()


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    proxy = Proxy()
    await proxy.start()
    yield proxy
    await proxy.stop()


@pytest.mark.parametrize("case", ACCEPTED)
async def test_the_server_takes_us_for_whom_it_takes_kubectl(
    cluster: TestCluster, tmp_path: Path, proxy: Proxy, case: str
) -> None:
    asked = ACCEPTED[case](KubeconfigWriter(cluster, tmp_path, proxy.url))
    theirs = await kubectl(
        cluster, asked.files, "auth", "whoami", "--output=json", *asked.context_option
    )
    assert theirs.returncode == 0, theirs.stderr
    by_kubectl = list(proxy.targets)
    environment = {"KUBECONFIG": asked.files}
    ours = await user_info(environment=environment, context=asked.context)
    assert in_order(ours) == in_order(json.loads(theirs.stdout)["status"]["userInfo"])
    assert proxy.targets == by_kubectl * 2
    assert bool(by_kubectl) == case.startswith("proxy")


def in_order(info: Json) -> Json:
    """The server's answer, with the groups in one order."""
    return {**info, "groups": sorted(info["groups"])}


@pytest.mark.parametrize("case", ACCEPTED)
async def test_the_entries_that_are_chosen_are_those_of_kubectl(
    cluster: TestCluster, tmp_path: Path, case: str
) -> None:
    asked = ACCEPTED[case](KubeconfigWriter(cluster, tmp_path, "http://127.0.0.1:1"))
    options = ("--raw", "--merge", "--minify", "--output=json", *asked.context_option)
    theirs = await kubectl(cluster, asked.files, "config", "view", *options)
    assert theirs.returncode == 0, theirs.stderr
    merged = read_kubeconfig(kubeconfig_files(None, {"KUBECONFIG": asked.files}))
    assert merged is not None
    ours = as_minified(merged.choose(asked.context))
    assert without_defaults(ours) == without_defaults(json.loads(theirs.stdout))


def as_minified(chosen: ChosenContext) -> Json:
    """A context as `kubectl config view --minify` prints it."""
    entries = (chosen.cluster, chosen.user, chosen.context)
    cluster, user, context = (
        [{"name": entry.name, entry.kind: msgspec.to_builtins(entry.value)}] for entry in entries
    )
    plugin = user[0]["user"]["exec"]
    if plugin and plugin["apiVersion"] == V1BETA1:
        # kubectl prints the default.
        plugin["interactiveMode"] = "IfAvailable"
    return {
        "clusters": cluster,
        "users": user,
        "contexts": context,
        "current-context": chosen.context.name,
    }


def without_defaults(value: Any) -> Any:
    """Without empty fields, and without line breaks in inline data."""
    if isinstance(value, dict):
        cleaned = {
            key: item.replace("\n", "") if key.endswith("-data") else without_defaults(item)
            for key, item in value.items()
            if key not in ("apiVersion", "kind", "preferences") or "command" in value
        }
        return {key: item for key, item in cleaned.items() if item}
    return [without_defaults(item) for item in value] if isinstance(value, list) else value


RECORD = (
    "pathlib.Path(os.environ['RECORD']).write_text(json.dumps("
    "[json.loads(os.environ['KUBERNETES_EXEC_INFO']), sys.stdin.isatty()]))"
)


@pytest.mark.parametrize("standard_input", ["terminal", "no_terminal"])
@pytest.mark.parametrize("mode", ["Never", "IfAvailable", "Always"])
@pytest.mark.parametrize("version", [V1, V1BETA1])
async def test_a_plugin_is_given_what_kubectl_gives_it(
    cluster: TestCluster,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    version: str,
    mode: str,
    standard_input: str,
) -> None:
    request.getfixturevalue(standard_input)
    record = tmp_path / "record"
    plugin = exec_plugin(
        tmp_path, RECORD, f"status = {{'token': '{cluster.admin_token}'}}", PRINT_STATUS
    )
    user = exec_user(
        str(plugin),
        apiVersion=version,
        interactiveMode=mode,
        provideClusterInfo=standard_input == "terminal",
        env=[{"name": "RECORD", "value": str(record)}],
    )
    extension = {"audience": "test", "numbers": [1, 2.5, True, None]}
    entry = trusted(
        cluster,
        **{
            "tls-server-name": "kubernetes",
            "disable-compression": True,
            "extensions": [
                {"name": "other", "extension": "x"},
                {"name": "client.authentication.k8s.io/exec", "extension": extension},
            ],
        },
    )
    files = str(write(tmp_path / "config", kubeconfig(entry, user)))

    async def by_kubectl() -> object:
        done = await kubectl(cluster, files, "get", "--raw=/version", stdin=STDIN)
        return taken(record) if done.returncode == 0 else None

    async def by_us() -> object:
        try:
            await user_info(Path(files))
        except CredentialsError:
            return None
        return taken(record)

    theirs = await by_kubectl()
    assert await by_us() == theirs
    assert (theirs is None) == (mode == "Always" and standard_input == "no_terminal")


def taken(record: Path) -> object:
    content = json.loads(record.read_text())
    record.unlink()
    return content


class Recorder:
    """A server that records who its clients say they are, with TLS and without."""

    def __init__(self) -> None:
        self.recorded: list[Json] = []
        self.servers: dict[str, str] = {}

    async def version(self, request: web.Request) -> web.Response:
        names = {name.lower() for name in request.headers}
        chosen = [name for name in names if name.startswith(("authorization", "impersonate-"))]
        self.recorded.append({name: request.headers.getall(name) for name in chosen})
        return web.json_response({})


@pytest.fixture
async def recorder(cluster: TestCluster) -> AsyncIterator[Recorder]:
    files = cluster.layout.certificates
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.server_file, files.server_key_file)
    recorder = Recorder()
    application = web.Application()
    application.router.add_get("/version", recorder.version)
    runner = web.AppRunner(application)
    await runner.setup()
    for scheme, tls in (("https", context), ("http", None)):
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        recorder.servers[scheme] = "{}://{}:{}".format(scheme, *runner.addresses[-1])
    yield recorder
    await runner.cleanup()


SENT: dict[str, Json] = {
    "token": {"token": "x"},
    "password": {"username": "zoë", "password": "a:b c"},
    "user name alone": {"username": "joe"},
    "impersonation": {
        "token": "x",
        "as": "system:serviceaccount:shop:cart",
        "as-groups": ["b", "a"],
        "as-user-extra": {"Ünusual/key %": ["x y", "z"]},
    },
}


@pytest.mark.parametrize("scheme", ["https", "http"])
@pytest.mark.parametrize("case", SENT)
async def test_the_headers_are_those_of_kubectl(
    cluster: TestCluster, tmp_path: Path, recorder: Recorder, case: str, scheme: str
) -> None:
    entry = trusted(cluster, server=recorder.servers[scheme])
    file = write(tmp_path / "config", kubeconfig(entry, SENT[case]))
    done = await kubectl(cluster, str(file), "get", "--raw=/version")
    assert done.returncode == 0, done.stderr
    async with Client(load_credentials(file), QUICK_CLIENT) as client:
        await client.get("/version", dict)
    theirs, ours = recorder.recorded
    assert ours == theirs
