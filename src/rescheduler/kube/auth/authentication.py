"""Prove who we are, and keep the proof fresh.

Tokens expire, are rotated on disk, or are revoked. Wherever they come from, `Authentication`
loads them again when their time is over, and at once when the server rejected the last one.
"""

import asyncio
import base64
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from rescheduler.errors import CredentialsError
from rescheduler.kube.auth.certificates import ClientCertificate


@dataclass(frozen=True)
class ClientIdentity:
    """What proves who we are: the `Authorization` header, a client certificate, both or neither."""

    authorization: str = field(default="", repr=False)
    certificate: ClientCertificate | None = None
    good_for_seconds: float = math.inf


class Authentication:
    """An identity that is loaded when it is needed and again when it is no longer good."""

    def __init__(
        self,
        load: Callable[[], Awaitable[ClientIdentity]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load = load
        self._clock = clock
        self._lock = asyncio.Lock()
        self._identity: ClientIdentity | None = None
        self._good_until = -math.inf

    async def identity(self) -> ClientIdentity:
        """The identity to use now."""
        async with self._lock:
            if self._identity is None or self._clock() >= self._good_until:
                return await self._renew()
            return self._identity

    async def after_rejection(self, rejected: ClientIdentity) -> ClientIdentity:
        """The identity to use after the server rejected one.

        Many calls may be rejected at once; the first renews it for all of them.
        """
        async with self._lock:
            if self._identity is None or self._identity is rejected:
                return await self._renew()
            return self._identity

    async def _renew(self) -> ClientIdentity:
        self._identity = await self._load()
        self._good_until = self._clock() + self._identity.good_for_seconds
        return self._identity


def fixed(identity: ClientIdentity) -> Authentication:
    """An identity that never changes."""

    async def load() -> ClientIdentity:
        return identity

    return Authentication(load)


def bearer(token: str, source: str) -> str:
    """The `Authorization` header for a token. `source` is where it comes from, for messages."""
    return f"Bearer {header_value(token.strip(), source)}"


def basic(username: str, password: str) -> str:
    """The `Authorization` header for a user name and a password."""
    return f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode()}"


def header_value(value: str, source: str) -> str:
    """The value, if it can be sent as an HTTP header. It may be confidential: it is not shown."""
    if not value.isprintable():
        raise CredentialsError(f"{source}: expected one line of printable characters")
    return value
