"""What the server shows and whom it trusts, kept fresh while it runs.

Certificates come from a directory that somebody else keeps up to date (cert-manager, for one), or
from a Secret that we fill ourselves. New ones are used for new connections; those that are open
stay open.
"""

import asyncio
import logging
import ssl
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from rescheduler.errors import ReschedulerError, SettingsError
from rescheduler.extender.tls.key_pair import KeyPair

logger = logging.getLogger(__name__)

# A mounted Secret is replaced without notice; whoever serves with old files is soon refused.
LOOK_SECONDS = 30.0


@dataclass(frozen=True)
class ServingCredentials:
    """What to serve with, and whose clients to trust."""

    serving: KeyPair
    authority: bytes
    """Who vouches for us; goes into the webhook's configuration. Empty if nobody said."""
    client_authority: bytes = b""
    """Who vouches for clients. Empty means that anyone may ask."""


class Source(ABC):
    """Where certificates come from."""

    @abstractmethod
    async def load(self) -> ServingCredentials:
        """Those that are good now."""


class CertificateFiles(Source):
    """A directory with `tls.crt`, `tls.key` and perhaps `ca.crt`, as a TLS Secret is mounted."""

    def __init__(self, directory: Path, client_authority: Path | None) -> None:
        self._directory = directory
        self._client_authority = client_authority

    async def load(self) -> ServingCredentials:
        authority = self._directory / "ca.crt"
        return ServingCredentials(
            KeyPair(content(self._directory / "tls.crt"), content(self._directory / "tls.key")),
            content(authority) if authority.exists() else b"",
            content(self._client_authority) if self._client_authority is not None else b"",
        )


def content(file: Path) -> bytes:
    """What is in a file that must be there."""
    try:
        found = file.read_bytes()
    except OSError as error:
        raise SettingsError(f"{file}: cannot be read: {error.strerror}") from error
    if not found:
        # Taken for nothing said, an empty file would let anyone in.
        raise SettingsError(f"{file}: is empty; expected PEM")
    return found


class ServingContext:
    """The TLS settings of a running server.

    New credentials get a context of their own, which new connections are handed over to. To load
    them into the old one would not do: half of a pair that does not fit would stay in it, and an
    authority once trusted would be trusted for ever.
    """

    def __init__(self, credentials: ServingCredentials) -> None:
        self.context = context_with(credentials)
        """What the server listens with."""
        self.context.sni_callback = self._hand_over
        self._newest = self.context
        self._used = credentials

    @property
    def knows_clients(self) -> bool:
        """Whether clients can show who they are."""
        return self.context.verify_mode != ssl.CERT_NONE

    def use(self, credentials: ServingCredentials) -> bool:
        """Take these from now on; whether they are others than before."""
        if credentials == self._used:
            return False
        self._newest = context_with(credentials)
        self._used = credentials
        return True

    def _hand_over(
        self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext
    ) -> None:
        """Called as a connection begins, whether or not the client says whom it wants."""
        connection.context = self._newest


def context_with(credentials: ServingCredentials) -> ssl.SSLContext:
    """TLS settings with these credentials, if they are of any use."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        load(credentials.serving, made)
        if credentials.client_authority:
            made.load_verify_locations(cadata=credentials.client_authority.decode())
            # Optional, because only some paths ask for one; a wrong one is refused all the same.
            made.verify_mode = ssl.CERT_OPTIONAL
    except (OSError, ValueError) as error:
        raise SettingsError(f"the certificates cannot be used: {error}") from error
    return made


def load(serving: KeyPair, context: ssl.SSLContext) -> None:
    """Show this from now on."""
    # OpenSSL reads them from files only.
    with tempfile.TemporaryDirectory() as directory:
        certificate, key = Path(directory) / "tls.crt", Path(directory) / "tls.key"
        certificate.write_bytes(serving.certificate)
        key.touch(mode=0o600)
        key.write_bytes(serving.key)
        # Without a password it would ask for one at the terminal.
        context.load_cert_chain(certificate, key, password="")


async def keep_fresh(
    source: Source,
    serving: ServingContext,
    renewed: Callable[[ServingCredentials], Awaitable[None]],
) -> None:
    """Look for new certificates again and again, until cancelled."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        try:
            credentials = await source.load()
            if serving.use(credentials):
                logger.info("Took over new certificates")
            await renewed(credentials)
        except ReschedulerError as error:
            logger.warning("Failed to look for new certificates", extra={"error": str(error)})
