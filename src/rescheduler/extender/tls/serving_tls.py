"""The server's certificate and the CA of its clients, replaced while it runs.

Certificates come from a directory that somebody else keeps up to date, such as cert-manager, or
from a Secret that we write ourselves. New connections use new certificates; open ones stay open.
"""

import asyncio
import hmac
import logging
import ssl
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from rescheduler.errors import ReschedulerError, SettingsError
from rescheduler.extender.tls.key_pair import KeyPair
from rescheduler.kube.auth.memory_files import as_file

logger = logging.getLogger(__name__)

# A mounted Secret is replaced without notice, and its old certificate expires soon.
RELOAD_SECONDS = 30.0
TOKEN_CHARACTERS = 32


@dataclass(frozen=True)
class ServingCredentials:
    """The certificate to serve with, and the CA of clients."""

    serving: KeyPair
    authority: bytes
    """The CA of the serving certificate, for the webhook's configuration. Empty if not given."""
    client_authority: bytes = b""
    """The CA of client certificates. Empty means that clients need none."""

    @property
    def webhook_token(self) -> str:
        """A secret in the webhook's path, by which we know the API server.

        API servers present no certificate by default, but only administrators may read the
        webhook's configuration. All replicas have the same key, and so the same token.
        """
        return hmac.digest(self.serving.key, b"webhook path", "sha256").hex()[:TOKEN_CHARACTERS]


class CertificateSource(ABC):
    """Where certificates come from."""

    @abstractmethod
    async def load(self) -> ServingCredentials:
        """The certificates as they are now. This may create or renew them first."""


class CertificateFiles(CertificateSource):
    """A directory with `tls.crt`, `tls.key` and perhaps `ca.crt`, as a TLS Secret is mounted."""

    def __init__(self, directory: Path, client_authority: Path | None) -> None:
        self._directory = directory
        self._client_authority = client_authority

    async def load(self) -> ServingCredentials:
        authority = self._directory / "ca.crt"
        return ServingCredentials(
            KeyPair(
                file_content(self._directory / "tls.crt"), file_content(self._directory / "tls.key")
            ),
            file_content(authority) if authority.exists() else b"",
            file_content(self._client_authority) if self._client_authority is not None else b"",
        )


def file_content(file: Path) -> bytes:
    """The content of a file that must exist."""
    try:
        found = file.read_bytes()
    except OSError as error:
        raise SettingsError(f"{file}: cannot be read: {error.strerror}") from error
    if not found:
        # An empty client CA would let anyone in.
        raise SettingsError(f"{file}: is empty; expected PEM")
    return found


class ServingContext:
    """The TLS settings of a running server.

    New credentials get a context of their own, which new connections switch to. They are not loaded
    into the old one: half of a key pair that does not match would stay in it, and a CA once trusted
    would be trusted for ever.
    """

    def __init__(self, credentials: ServingCredentials) -> None:
        self.context = context_with(credentials)
        """The context that the server listens with."""
        self.context.sni_callback = self._switch_context
        self._newest = self.context
        self._used = credentials

    def is_webhook_token(self, token: str) -> bool:
        """Whether a request for the webhook comes from the API server."""
        return hmac.compare_digest(
            token.encode(errors="replace"), self._used.webhook_token.encode()
        )

    @property
    def has_client_ca(self) -> bool:
        """Whether client certificates are checked."""
        return self.context.verify_mode != ssl.CERT_NONE

    def use(self, credentials: ServingCredentials) -> bool:
        """Use these for new connections; returns whether they are different from before."""
        if credentials == self._used:
            return False
        self._newest = context_with(credentials)
        self._used = credentials
        return True

    def _switch_context(
        self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext
    ) -> None:
        """Called at the start of every connection, also without a server name from the client."""
        connection.context = self._newest


def context_with(credentials: ServingCredentials) -> ssl.SSLContext:
    """TLS settings with these credentials; SettingsError if they cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        load_key_pair(credentials.serving, context)
        if credentials.client_authority:
            context.load_verify_locations(cadata=credentials.client_authority.decode())
            # Optional, because only some paths require one; a wrong one is always refused.
            context.verify_mode = ssl.CERT_OPTIONAL
    except (OSError, ValueError) as error:
        raise SettingsError(f"the certificates cannot be used: {error}") from error
    return context


def load_key_pair(pair: KeyPair, context: ssl.SSLContext) -> None:
    """Load a certificate and its key into a context, which Python reads from files only."""
    with as_file(pair.certificate) as certificate, as_file(pair.key) as key:
        # Without a password OpenSSL would ask for one at the terminal.
        context.load_cert_chain(certificate, key, password="")


async def keep_certificates_current(
    source: CertificateSource,
    serving: ServingContext,
    on_load: Callable[[ServingCredentials], Awaitable[None]],
) -> None:
    """Load certificates every 30 seconds and use new ones, until cancelled."""
    while True:
        await asyncio.sleep(RELOAD_SECONDS)
        try:
            credentials = await source.load()
            if serving.use(credentials):
                logger.info("Loaded new certificates")
            await on_load(credentials)
        except ReschedulerError as error:
            logger.warning("Failed to load certificates", extra={"error": str(error)})
