"""Credentials from kubeconfig files, read by the `kubernetes` package.

The package knows the format, inline certificates, exec plugins and token providers. What it does
differently from kubectl, and what it does unsafely, is put right here:
- it keeps quiet when an exec plugin fails, and goes on without credentials;
- the last file's current context wins, where kubectl takes the first one;
- it finds a user's files relative to the cluster's kubeconfig, and crashes without a user;
- it sends OIDC refresh tokens to identity providers without verifying their certificate, and
  forgets the new refresh token that it gets for the old one.
"""
# The package has no types.
# mypy: disable-error-code="no-untyped-call"

import asyncio
import logging
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from kubernetes.aio.client import Configuration
from kubernetes.aio.config.config_exception import ConfigException
from kubernetes.aio.config.dateutil import parse_rfc3339
from kubernetes.aio.config.exec_provider import ExecProvider
from kubernetes.aio.config.kube_config import (
    ConfigNode,
    FileOrData,
    KubeConfigLoader,
    KubeConfigMerger,
)

from rescheduler.errors import CredentialsError
from rescheduler.kube.authentication import (
    Authentication,
    ClientCertificate,
    Secret,
    bearer,
    fixed,
    token_file,
)
from rescheduler.kube.credentials import Credentials, is_loopback, proxy_for
from rescheduler.kube.oidc import refreshed_tokens, seconds_left

logger = logging.getLogger(__name__)

USER_FILES = ("client-certificate", "client-key", "tokenFile")

# A plugin may ask a person to log in.
EXEC_TIMEOUT_SECONDS = 300.0
# A token is renewed this long before it expires, so that it does not expire on its way.
EXPIRY_MARGIN_SECONDS = 10.0

OIDC = "oidc"

# What the package raises on files that are not quite kubeconfigs.
MALFORMED = (ConfigException, KeyError, TypeError, AttributeError, ValueError, OSError)


async def from_kubeconfig(files: Sequence[Path], context: str | None) -> Credentials:
    """What the kubeconfig says about a context, or about its current one."""
    merger = merged(files)
    name = chosen_context(merger, files, context)
    source = f"kubeconfig {named(files)}, context {name!r}"
    try:
        loader = Loader(merger, name, source)
        configuration = Configuration()
        await loader.load_and_set(configuration)
    except MALFORMED as error:
        raise CredentialsError(f"{source}: {explain(error)}") from error
    return credentials_of(loader, configuration, source)


def merged(files: Sequence[Path]) -> KubeConfigMerger:
    """All files as one, after checking that each of them has the form of a kubeconfig."""
    for file in files:
        check_form(file)
    filled = [str(file) for file in files if file.read_text().strip()]
    if not filled:
        raise CredentialsError(f"kubeconfig {named(files)}: expected a kubeconfig, but it is empty")
    try:
        return KubeConfigMerger(":".join(filled))
    except MALFORMED as error:
        raise CredentialsError(f"kubeconfig {named(files)}: {explain(error)}") from error


def check_form(file: Path) -> None:
    """Raise unless `file` can be read and holds a mapping."""
    try:
        content = yaml.safe_load(file.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise CredentialsError(f"kubeconfig {file}: expected a readable file: {error}") from error
    except yaml.YAMLError as error:
        raise CredentialsError(f"kubeconfig {file}: expected YAML: {error}") from error
    if content is not None and not isinstance(content, dict):
        raise CredentialsError(
            f"kubeconfig {file}: expected clusters, users and contexts, "
            f"but it is a {type(content).__name__}"
        )


def chosen_context(merger: KubeConfigMerger, files: Sequence[Path], context: str | None) -> str:
    """The context that was asked for, or the current one of the first file that has one."""
    try:
        names = [str(entry["name"]) for entry in merger.config.value["contexts"]]
    except MALFORMED as error:
        raise CredentialsError(f"kubeconfig {named(files)}: {explain(error)}") from error
    expected = f"expected one of: {', '.join(names)}" if names else "expected at least one context"
    current = (merger.config_files[path].get("current-context") for path in merger.paths)
    name = context or next(filter(None, current), None)
    if name is None:
        raise CredentialsError(f"kubeconfig {named(files)}: no current context; {expected}")
    if name not in names:
        raise CredentialsError(f"kubeconfig {named(files)}: no context {name!r}; {expected}")
    return str(name)


def credentials_of(loader: "Loader", configuration: Configuration, source: str) -> Credentials:
    """What was loaded, as the rest of the program knows it."""
    server = str(configuration.host)
    return Credentials(
        server=server,
        authentication=authentication_of(loader, configuration, source),
        ca_file=configuration.ssl_ca_cert,
        verify=configuration.verify_ssl,
        tls_server_name=configuration.tls_server_name,
        proxy=configuration.proxy or proxy_for(server),
        compression=wants_compression(server, loader.cluster),
        source=source,
    )


def wants_compression(server: str, cluster: dict[str, Any]) -> bool:
    """A kubeconfig is used from afar, where lists travel faster when they are compressed."""
    return not cluster.get("disable-compression", False) and not is_loopback(server)


def authentication_of(
    loader: "Loader", configuration: Configuration, source: str
) -> Authentication:
    """How this user proves who they are, and keeps doing so."""
    if not configuration.host.startswith("https"):
        # As kubectl does: a secret is not sent where everyone can read it.
        logger.info(
            "Left out the credentials on a connection without TLS", extra={"source": source}
        )
        return fixed(Secret())
    certificate = None
    if configuration.cert_file and configuration.key_file:
        certificate = ClientCertificate(configuration.cert_file, configuration.key_file)
    if loader.is_renewable:
        return Authentication(loader.secret)
    if "tokenFile" in loader.user:
        return token_file(Path(loader.user["tokenFile"]), certificate)
    header = str(configuration.api_key.get("BearerToken", "")).strip()
    return fixed(Secret(header, certificate))


class Loader(KubeConfigLoader):
    """The package's loader, with its failures made visible."""

    # What the package sets and does not declare.
    _user: Any
    _cluster: Any
    _current_context: Any

    def __init__(self, merger: KubeConfigMerger, context: str, source: str) -> None:
        self.source = source
        super().__init__(
            merger.config,
            active_context=context,
            config_base_path=None,
            config_persister=lambda _: merger.save_changes(),
        )

    @property
    def user(self) -> dict[str, Any]:
        """The user's entry, with paths made absolute."""
        entry: dict[str, Any] = self._user.value
        return entry

    @property
    def cluster(self) -> dict[str, Any]:
        """The cluster's entry."""
        entry: dict[str, Any] = self._cluster.value
        return entry

    @property
    def is_renewable(self) -> bool:
        """Whether a plugin or a provider gives out the user's secret."""
        return "exec" in self.user or "auth-provider" in self.user

    def set_active_context(self, context_name: str | None = None) -> None:
        """Choose a context, and find the user's files beside the file that names the user."""
        super().set_active_context(context_name)
        wanted = self._current_context["context"].safe_get("user")
        if self._user is None and wanted:
            raise ConfigException(f"no user {wanted!r}; expected it in the list of users")
        if self._user is None:
            self._user = ConfigNode("user", {}, self._cluster.path)
        entry = self._user.value
        files = {key: self._beside_user(entry[key]) for key in USER_FILES if entry.get(key)}
        self._user = ConfigNode(self._user.name, {**entry, **files}, self._user.path)
        if "server" not in self._cluster:
            raise ConfigException("its cluster has no server; expected the API server's URL")

    async def secret(self) -> Secret:
        """A fresh secret from the exec plugin or the token provider."""
        return await (self._from_plugin() if "exec" in self.user else self._from_provider())

    async def _load_authentication(self) -> None:
        """Leave plugin and provider alone: `secret` asks them when it is first needed."""
        if not self.is_renewable:
            await super()._load_authentication()

    async def _from_plugin(self) -> Secret:
        """Run the exec plugin and read its answer."""
        entry = dict(self.user["exec"])
        command = str(entry.get("command", ""))
        if "/" in command:
            entry["command"] = self._beside_user(command)
        try:
            provider = ExecProvider(ConfigNode("exec", entry, self._user.path))
            status = await asyncio.wait_for(provider.run(), EXEC_TIMEOUT_SECONDS)
            return self._secret_in(status)
        except (*MALFORMED, TimeoutError) as error:
            hint = entry.get("installHint")
            raise CredentialsError(
                f"{self.source}: exec plugin {command!r}: {explain(error)}"
                + (f"\n{str(hint).strip()}" if hint else "")
            ) from error

    def _secret_in(self, status: dict[str, Any]) -> Secret:
        token = str(status.get("token") or "").strip()
        certificate = None
        if status.get("clientCertificateData"):
            certificate = ClientCertificate(
                file_with(status, "clientCertificateData"), file_with(status, "clientKeyData")
            )
        if not token and certificate is None:
            raise ConfigException("expected a token or a client certificate in its answer")
        header = bearer(token) if token else ""
        return Secret(header, certificate, seconds_until(status.get("expirationTimestamp")))

    def _beside_user(self, path: str) -> str:
        """Paths in a kubeconfig are relative to the directory it is in."""
        return str(Path(self._user.path).absolute().parent / path)

    async def _from_provider(self) -> Secret:
        """The OIDC provider's token, refreshed and written back if it has expired."""
        provider = self.user["auth-provider"]
        if provider["name"] != OIDC:
            raise CredentialsError(
                f"{self.source}: auth-provider {provider['name']!r}: expected {OIDC!r}; Kubernetes "
                "has replaced the others by exec plugins"
            )
        config = provider.get("config") or {}
        if seconds_left(config.get("id-token")) < EXPIRY_MARGIN_SECONDS:
            config.update(await refreshed_tokens(config, self._beside_user))
            self._config_persister(self._config.value)
        token = config["id-token"]
        return Secret(bearer(token), None, seconds_left(token) - EXPIRY_MARGIN_SECONDS)


def file_with(status: dict[str, Any], key: str) -> str:
    """A file with what the plugin answered; the package removes it when the program ends."""
    if not status.get(key):
        raise ConfigException(f"expected {key} in its answer")
    return str(FileOrData(status, "", data_key_name=key, base64_file_content=False).as_file())


def seconds_until(timestamp: str | None) -> float:
    """How long a secret is good for; without a time, until the server rejects it."""
    if timestamp is None:
        return math.inf
    left: float = (parse_rfc3339(timestamp) - datetime.now(UTC)).total_seconds()
    return left - EXPIRY_MARGIN_SECONDS


def explain(error: Exception) -> str:
    """What went wrong, in words."""
    match error:
        case ConfigException() | OSError():
            return str(error)
        case KeyError():
            return f"expected the key {error}"
        case _:
            return f"not in the form of a kubeconfig: {error}"


def named(files: Sequence[Path]) -> str:
    """The files, for a message."""
    return ":".join(map(str, files))
