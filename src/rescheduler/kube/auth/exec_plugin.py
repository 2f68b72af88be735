"""Exec credential plugins: programs that print a token or a client certificate.

The protocol is `client.authentication.k8s.io`, versions v1 and v1beta1. What the plugin should know
goes in the variable KUBERNETES_EXEC_INFO; its answer is an ExecCredential on standard output.
Anything the plugin writes to standard error is shown at once if ours is a terminal, for it may ask
a person to log in. Elsewhere it becomes part of the error if the plugin fails. A silent plugin gets
no terminal at all: its user is typing something else.
"""

import asyncio
import base64
import math
import os
import shutil
from asyncio.subprocess import DEVNULL, PIPE
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec

from rescheduler.errors import CredentialsError
from rescheduler.kube.auth.authentication import ClientIdentity, bearer
from rescheduler.kube.auth.certificates import ClientCertificate
from rescheduler.kube.auth.clusters import authorities_of
from rescheduler.kube.auth.kubeconfig import ChosenContext, Cluster, Entry, Exec, reason
from rescheduler.model.json_decoder import JsonDecoder

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"
KIND = "ExecCredential"
EXEC_INFO = "KUBERNETES_EXEC_INFO"
# What a cluster's entry tells plugins goes under this name among its extensions.
CLUSTER_EXTENSION = "client.authentication.k8s.io/exec"

NEVER, IF_AVAILABLE, ALWAYS = "Never", "IfAvailable", "Always"

# A plugin may ask a person to log in.
TIMEOUT_SECONDS = 300.0
# A token is renewed this long before it expires, so that it does not expire on its way.
EXPIRY_MARGIN_SECONDS = 10.0
# Enough of what a plugin says when it fails.
SHOWN_CHARACTERS = 1000

STDIN, STDERR = 0, 2


class ExecCredentialStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The credentials in a plugin's answer."""

    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None


class ExecCredential(msgspec.Struct, frozen=True, rename="camel"):
    """A plugin's answer."""

    kind: str = ""
    api_version: str = ""
    status: ExecCredentialStatus | None = None


class ExecPlugin:
    """The plugin of one user, for one cluster."""

    def __init__(self, config: Exec, chosen: ChosenContext, *, silent: bool = False) -> None:
        check(config, chosen.user)
        self._config = config
        self._silent = silent
        self._cluster = chosen.cluster
        # A command with a slash is a path like others in the file; any other is found in $PATH.
        is_path = os.sep in config.command
        self._command = str(chosen.user.resolved(config.command)) if is_path else config.command
        self._source = f"{chosen.source}: exec plugin {self._command!r}"

    async def identity(self) -> ClientIdentity:
        """Run the plugin and read its answer."""
        return self._identity_in(self._status_in(await self._output()))

    async def _output(self) -> bytes:
        """What the plugin prints."""
        interactive = self._is_interactive()
        try:
            process = await asyncio.create_subprocess_exec(
                self._executable(),
                *self._config.args,
                env=self._environment(interactive),
                stdin=None if interactive else DEVNULL,
                stdout=PIPE,
                stderr=None if self._has_terminal(STDERR) else PIPE,
            )
        except (FileNotFoundError, PermissionError) as error:
            raise self._missing() from error
        except (OSError, ValueError) as error:
            raise self._error(f"could not be run: {reason(error)}") from error
        output, errors = await self._wait(process)
        if process.returncode != 0:
            said = printable((errors or b"").decode(errors="replace").strip()[-SHOWN_CHARACTERS:])
            failure = f"failed with exit code {process.returncode}"
            raise self._error(f"{failure}: {said}" if said else failure)
        return output

    async def _wait(self, process: asyncio.subprocess.Process) -> tuple[bytes, bytes | None]:
        try:
            return await asyncio.wait_for(process.communicate(), TIMEOUT_SECONDS)
        except TimeoutError as error:
            raise self._error(f"did not end within {TIMEOUT_SECONDS:.0f} s") from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    def _is_interactive(self) -> bool:
        """Whether the plugin may read from our standard input."""
        has_terminal = self._has_terminal(STDIN)
        if self._config.interactive_mode == ALWAYS and not has_terminal:
            raise self._error(f"interactiveMode is {ALWAYS}: standard input is not a terminal")
        return self._config.interactive_mode != NEVER and has_terminal

    def _has_terminal(self, stream: int) -> bool:
        """Whether one of our standard streams is a terminal that the plugin may use."""
        return not self._silent and os.isatty(stream)

    def _executable(self) -> str:
        """The program; one from a relative directory in $PATH is not trusted, as in kubectl."""
        found = shutil.which(self._command)
        if found is None or not Path(found).is_absolute():
            raise self._missing()
        return found

    def _environment(self, interactive: bool) -> dict[str, str]:
        """Our variables, those of the kubeconfig, and what the plugin should know."""
        spec: dict[str, Any] = {"interactive": interactive}
        if self._config.provide_cluster_info:
            spec["cluster"] = cluster_info(self._cluster)
        info = {"kind": KIND, "apiVersion": self._config.api_version, "spec": spec}
        variables = {variable.name: variable.value for variable in self._config.env}
        return {**os.environ, **variables, EXEC_INFO: msgspec.json.encode(info).decode()}

    def _status_in(self, output: bytes) -> ExecCredentialStatus:
        """The credentials in what the plugin printed, if it has the form that we asked for."""
        try:
            answer = JsonDecoder(ExecCredential).decode(output)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._error(f"expected an {KIND} as JSON on standard output: {error}") from error
        for field, value, expected in (
            ("kind", answer.kind, KIND),
            ("apiVersion", answer.api_version, self._config.api_version),
        ):
            if value != expected:
                raise self._error(f"{field} {value!r} in its answer: expected {expected}")
        if answer.status is None:
            raise self._error("expected a status in its answer")
        return answer.status

    def _identity_in(self, status: ExecCredentialStatus) -> ClientIdentity:
        token = (status.token or "").strip()
        certificate, key = status.client_certificate_data, status.client_key_data
        if not token and not certificate and not key:
            raise self._error("expected a token or a client certificate in its answer")
        if certificate and not key:
            raise self._error("expected clientKeyData with the certificate in its answer")
        if key and not certificate:
            raise self._error("expected clientCertificateData with the key in its answer")
        return ClientIdentity(
            bearer(token, f"{self._source}: token") if token else "",
            ClientCertificate(certificate.encode(), key.encode(), f"{self._source}: its answer")
            if certificate and key
            else None,
            seconds_until(status.expiration_timestamp),
        )

    def _missing(self) -> CredentialsError:
        hint = printable(self._config.install_hint.strip())
        return self._error("no such program" + (f"\n{hint}" if hint else ""))

    def _error(self, what: str) -> CredentialsError:
        return CredentialsError(f"{self._source}: {what}")


def check(config: Exec, user: Entry[Any]) -> None:
    """Raise unless the plugin is completely described."""
    if not config.command:
        raise user.error("exec.command", "missing, expected the name or the path of a program")
    if config.api_version not in (V1, V1BETA1):
        raise user.error("exec.apiVersion", f"{config.api_version!r}: expected {V1} or {V1BETA1}")
    mode, modes = config.interactive_mode, (NEVER, IF_AVAILABLE, ALWAYS)
    # Only the older version has a default.
    if mode not in modes and (mode or config.api_version != V1BETA1):
        what = repr(mode) if mode else "missing"
        raise user.error("exec.interactiveMode", f"{what}, expected one of {', '.join(modes)}")
    if not all(variable.name for variable in config.env):
        raise user.error("exec.env", "expected a name for every variable")


def cluster_info(cluster: Entry[Cluster]) -> dict[str, Any]:
    """The cluster as plugins know it: without paths, for they may run elsewhere."""
    entry = cluster.value
    authorities = authorities_of(cluster)
    if isinstance(authorities, Path):
        authorities = authorities.read_bytes()
    extensions = (named.extension for named in entry.extensions if named.name == CLUSTER_EXTENSION)
    optional = {
        "tls-server-name": entry.tls_server_name,
        "insecure-skip-tls-verify": entry.insecure_skip_tls_verify,
        "certificate-authority-data": base64.b64encode(authorities or b"").decode(),
        "proxy-url": entry.proxy_url,
        "disable-compression": entry.disable_compression,
    }
    return {
        "server": entry.server,
        **{key: value for key, value in optional.items() if value},
        "config": next(extensions, None),
    }


def seconds_until(timestamp: datetime | None) -> float:
    """How long credentials are good for; without a time, until the server rejects them."""
    if timestamp is None:
        return math.inf
    return (timestamp - datetime.now(UTC)).total_seconds() - EXPIRY_MARGIN_SECONDS


def printable(text: str) -> str:
    """Text by others without what would confuse a terminal."""
    return "".join(
        character if character.isprintable() or character.isspace() else f"U+{ord(character):04X}"
        for character in text
    )
