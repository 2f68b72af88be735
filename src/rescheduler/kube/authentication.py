"""Prove who we are, and keep the proof fresh.

Tokens expire, are rotated on disk, or are revoked. Whatever they come from, `Authentication`
loads them again when their time is over, and at once when the server rejected the last one.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from rescheduler.errors import CredentialsError

# How often a token file is read again, as client-go does. The kubelet rotates a token long
# before it expires, so a minute late is early enough.
TOKEN_FILE_SECONDS = 60.0


@dataclass(frozen=True)
class ClientCertificate:
    """A certificate and its key, as files, which is the only way OpenSSL loads them."""

    certificate_file: str
    key_file: str


@dataclass(frozen=True)
class Secret:
    """What proves who we are: the `Authorization` header, a client certificate, or neither."""

    header: str = ""
    certificate: ClientCertificate | None = None
    good_for_seconds: float = math.inf


class Authentication:
    """A secret that is loaded when it is needed and again when it is no longer good."""

    def __init__(
        self, load: Callable[[], Awaitable[Secret]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._load = load
        self._clock = clock
        self._lock = asyncio.Lock()
        self._secret: Secret | None = None
        self._good_until = -math.inf

    async def secret(self) -> Secret:
        """The secret to use now."""
        async with self._lock:
            if self._secret is None or self._clock() >= self._good_until:
                return await self._renew()
            return self._secret

    async def after_rejection(self, rejected: Secret) -> Secret:
        """The secret to use after the server rejected one.

        Many calls may be rejected at once; the first renews it for all of them.
        """
        async with self._lock:
            if self._secret is None or self._secret is rejected:
                return await self._renew()
            return self._secret

    async def _renew(self) -> Secret:
        self._secret = await self._load()
        self._good_until = self._clock() + self._secret.good_for_seconds
        return self._secret


def fixed(secret: Secret) -> Authentication:
    """A secret that never changes."""

    async def load() -> Secret:
        return secret

    return Authentication(load)


def token_file(path: Path, certificate: ClientCertificate | None = None) -> Authentication:
    """A token that someone else replaces in a file now and then."""

    async def load() -> Secret:
        return Secret(bearer(read_token(path)), certificate, TOKEN_FILE_SECONDS)

    return Authentication(load)


def read_token(path: Path) -> str:
    """The token in a file."""
    try:
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CredentialsError(f"token file {path}: expected a readable file: {error}") from error
    if not token:
        raise CredentialsError(f"token file {path}: expected a token, but it is empty")
    return token


def bearer(token: str) -> str:
    """The `Authorization` header for a token."""
    return f"Bearer {token}"
