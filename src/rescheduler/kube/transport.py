"""Send one request over HTTP and return what comes back. No retries here."""

import asyncio
import math
import socket
import ssl
import sys
import time
from asyncio.sslproto import SSLProtocol
from asyncio.trsock import TransportSocket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.client_middlewares import ClientHandlerType
from aiohttp.payload import BytesPayload

from rescheduler.kube.auth.authentication import ClientIdentity
from rescheduler.kube.auth.certificates import ClientCertificate, load_certificate, ssl_context
from rescheduler.kube.auth.credentials import Credentials
from rescheduler.kube.request import Request
from rescheduler.kube.write_fence import WritePermit

# A server that went away without a word is noticed after about a minute on any connection.
KEEPALIVE_IDLE_SECONDS = 30
KEEPALIVE_PROBE_SECONDS = 10
KEEPALIVE_PROBES = 3

# Shorter than servers and load balancers keep idle connections, so that a write is not sent on
# one that they are just closing.
IDLE_CONNECTION_SECONDS = 30

# asyncio keeps a buffer of 256 KiB for every connection with TLS, and reads into another one. There
# is a connection for every kind that is watched, and most are silent. A record of TLS has 16 KiB.
READ_BYTES = 32 << 10
SSLProtocol.max_size = READ_BYTES


class ConnectionLost(aiohttp.ClientError):
    """The connection ended after a request was sent."""


@dataclass(frozen=True)
class Timeouts:
    """How long to wait for the server before giving up on one attempt."""

    connect_seconds: float = 10.0
    # Between two pieces of an answer.
    read_seconds: float = 30.0
    # For the whole answer. The server itself gives up on a request after 60 s.
    total_seconds: float = 90.0
    # Between two pieces of a watch. The server sends a bookmark every minute, but only if
    # anything changed since the watch was opened; so after longer silence the watch is opened
    # again, which also notices a server that went away without a word.
    watch_seconds: float = 75.0
    # How long sent bytes may be on their way. After that the system drops them and the connection,
    # so that they arrive by then or never. None leaves it to the system, which tries for minutes.
    delivery_seconds: float | None = None

    @property
    def call(self) -> aiohttp.ClientTimeout:
        """For everything but watches."""
        return aiohttp.ClientTimeout(
            total=self.total_seconds,
            sock_connect=self.connect_seconds,
            sock_read=self.read_seconds,
        )

    @property
    def watch(self) -> aiohttp.ClientTimeout:
        """For watches, which may last for ever while they speak."""
        return aiohttp.ClientTimeout(
            total=None, sock_connect=self.connect_seconds, sock_read=self.watch_seconds
        )


@dataclass(eq=False)
class IdentitySession:
    """Connections that were all opened with the same client certificate."""

    certificate: ClientCertificate | None
    http: aiohttp.ClientSession
    requests: int = 0
    """How many requests are being sent or answered."""


RequestObserver = Callable[[Request, int | None, float], None]
"""Called after each request: its status, None without an answer, and the seconds that it took. For
a watch, until it was accepted."""


class Transport:
    """Connections to one API server, which are kept and used again."""

    def __init__(
        self,
        credentials: Credentials,
        timeouts: Timeouts,
        observer: RequestObserver | None = None,
    ) -> None:
        self.server = credentials.server
        self.timeouts = timeouts
        self._credentials = credentials
        self._observer = observer
        # Also checks the authorities now, and not when the first request is sent.
        self._ssl = ssl_context(credentials.trust, credentials.source)
        self._session: IdentitySession | None = None
        self._retired: set[IdentitySession] = set()

    async def close(self) -> None:
        """Close all connections, also those in use."""
        for session in [*self._retired, self._session]:
            if session is not None:
                await session.http.close()
        self._retired, self._session = set(), None

    @asynccontextmanager
    async def send(
        self,
        request: Request,
        identity: ClientIdentity,
        timeout: aiohttp.ClientTimeout,
        permit: WritePermit | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request; the answer's head is there, its body can be read until the end.

        With a `permit`, only if it still says so when there is a connection.
        """
        headers = {"Content-Type": request.content_type} if request.body is not None else {}
        if identity.authorization:
            headers["Authorization"] = identity.authorization
        async with (
            self._observed(request) as observed,
            self._session_for(identity.certificate) as session,
            session.request(
                request.method,
                self.server + request.path,
                params=request.query,
                data=request.body if permit is None else PermittedBody(request, permit),
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
                proxy=self._credentials.proxy,
                server_hostname=self._credentials.trust.server_name,
            ) as response,
        ):
            observed.answered(response.status)
            yield response

    @asynccontextmanager
    async def websocket(
        self, request: Request, identity: ClientIdentity, protocol: str, most_bytes: int
    ) -> AsyncIterator["aiohttp.ClientWebSocketResponse[bool]"]:
        """Open a websocket; messages are no longer than `most_bytes`."""
        # Container runtimes answer 406 to who accepts only JSON.
        headers = {"Accept": "*/*"}
        if identity.authorization:
            headers["Authorization"] = identity.authorization
        async with (
            self._session_for(identity.certificate) as session,
            session.ws_connect(
                self.server + request.path,
                params=request.query,
                protocols=(protocol,),
                headers=headers,
                proxy=self._credentials.proxy,
                server_hostname=self._credentials.trust.server_name,
                max_msg_size=most_bytes,
            ) as socket,
        ):
            yield socket

    @asynccontextmanager
    async def _observed(self, request: Request) -> AsyncIterator["ObservedRequest"]:
        observed = ObservedRequest(request, self._observer)
        try:
            yield observed
        finally:
            observed.ended()

    @asynccontextmanager
    async def _session_for(
        self, certificate: ClientCertificate | None
    ) -> AsyncIterator[aiohttp.ClientSession]:
        """The session; a new one when the client certificate was renewed.

        Connections that were opened with the old one would go on being refused. The old session
        is closed when its last request has ended, which for a watch may take minutes.
        """
        if self._session is None or certificate != self._session.certificate:
            renewed = self._new_session(certificate)
            if self._session is not None:
                self._retired.add(self._session)
            self._session = renewed
        session = self._session
        session.requests += 1
        try:
            await self._close_unused()
            yield session.http
        finally:
            session.requests -= 1
            await self._close_unused()

    async def _close_unused(self) -> None:
        """Close old sessions that no request uses any more."""
        unused = {session for session in self._retired if not session.requests}
        self._retired -= unused
        for session in unused:
            await session.http.close()

    def _new_session(self, certificate: ClientCertificate | None) -> "IdentitySession":
        # Certificates need a context of their own: open connections still use that of the last one.
        context = self._ssl
        if certificate is not None:
            context = ssl_context(self._credentials.trust, self._credentials.source)
            load_certificate(context, certificate)
        return IdentitySession(certificate, self._new_http_session(context))

    def _new_http_session(self, context: ssl.SSLContext) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            ssl=context,
            keepalive_timeout=IDLE_CONNECTION_SECONDS,
            socket_factory=partial(new_socket, delivery_seconds=self.timeouts.delivery_seconds),
        )
        headers = [
            ("User-Agent", user_agent()),
            ("Accept", "application/json"),
            ("Accept-Encoding", "gzip" if self._credentials.compression else "identity"),
            *self._credentials.impersonation,
        ]
        return aiohttp.ClientSession(
            connector=connector,
            headers=headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            middlewares=(never_send_twice,),
        )


class ObservedRequest:
    """Reports a request to the observer once."""

    def __init__(self, request: Request, observer: RequestObserver | None) -> None:
        self._request = request
        self._observer = observer
        self._status: int | None = None
        self._started = time.monotonic()

    def answered(self, status: int) -> None:
        """The head of the answer has come. A watch may take minutes more, so it is reported now."""
        self._status = status
        if self._request.is_watch:
            self.ended()

    def ended(self) -> None:
        """The request is over."""
        observer, self._observer = self._observer, None
        if observer is not None:
            observer(self._request, self._status, time.monotonic() - self._started)


async def chunks_of(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The body, in the pieces in which it comes."""
    try:
        async for chunk in response.content.iter_any():
            yield chunk
    except RuntimeError as error:
        # How aiohttp reports a connection that was closed while nobody waited for a piece.
        raise ConnectionLost(str(error)) from error


def socket_of(response: aiohttp.ClientResponse) -> TransportSocket | None:
    """What the body is read from; None if all of it has come."""
    transport = None if response.connection is None else response.connection.transport
    return None if transport is None else transport.get_extra_info("socket")


class ReadBatching:
    """Has a busy watch read a few times a second, and not whenever an event arrives.

    A watch of pods in a large cluster has an event every few milliseconds. Most of what it costs to
    read them one by one is to wake up: by the next event, other processes have taken the caches of
    the processor. So the system collects events for a moment, and we read them together. Events
    that come seldom are read at once.
    """

    def __init__(self, sock: TransportSocket | None, seconds: float) -> None:
        """Without a socket, or for 0 `seconds`, nothing is held back."""
        # Linux alone is known to look at what has come when the mark is lowered.
        is_possible = sock is not None and seconds > 0 and sys.platform == "linux"
        self._socket = sock if is_possible else None
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None
        self._listens_since = -math.inf

    def after_events(self) -> None:
        """Events were read: hold back the next ones, if these came soon after others."""
        if self._socket is None:
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._timer is not None:
            self._timer.cancel()
        elif now - self._listens_since < self._seconds:
            # We are woken up early when there is enough for one read. It also fits the buffer that
            # every connection has, so the system enlarges none.
            self._wake_up_at(READ_BYTES)
        else:
            self._listens_since = now
            return
        self._timer = loop.call_at(now + self._seconds, self._listen)

    def close(self) -> None:
        """Hold back nothing any more: others may use the connection."""
        if self._timer is not None:
            self._timer.cancel()
            self._listen()

    def _listen(self) -> None:
        """Let whatever has come, or comes from now on, be read at once."""
        self._timer = None
        self._listens_since = asyncio.get_running_loop().time()
        self._wake_up_at(1)

    def _wake_up_at(self, received_bytes: int) -> None:
        assert self._socket is not None, "nothing is held back without a socket"
        # A connection that was closed meanwhile has nothing more to read.
        with suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, received_bytes)


async def never_send_twice(
    request: aiohttp.ClientRequest, handler: ClientHandlerType
) -> aiohttp.ClientResponse:
    """Keep aiohttp from repeating requests by itself.

    It would send a PUT or DELETE again when the connection ends before the answer, although the
    first one may have been carried out. An exception that it does not know stops it.
    """
    try:
        return await handler(request)
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise ConnectionLost(str(error)) from error


class PermittedBody(BytesPayload):
    """The body of a write that needs a permit.

    aiohttp writes it when it has a connection, and the head of the request together with it. A
    request whose body is missing is not carried out.
    """

    def __init__(self, request: Request, permit: WritePermit) -> None:
        assert request.body is not None, "every write has a body"
        super().__init__(request.body, content_type=request.content_type)
        self._permit = permit

    async def write_with_length(
        self, writer: AbstractStreamWriter, content_length: int | None
    ) -> None:
        self._permit.send()
        await super().write_with_length(writer, content_length)


def new_socket(
    address: aiohttp.AddrInfoType, delivery_seconds: float | None = None
) -> socket.socket:
    """A socket that notices when its peer is gone, even if nothing is being sent."""
    family, kind, protocol, _, _ = address
    sock = socket.socket(family, kind, protocol)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        # Elsewhere the system's own, longer, times apply.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_SECONDS)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_PROBE_SECONDS)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)
        if delivery_seconds is not None:
            milliseconds = max(1, int(delivery_seconds * 1000))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
    return sock


def user_agent() -> str:
    """Who we are in the server's audit log."""
    return f"rescheduler/{version_number()}"


@cache
def version_number() -> str:
    """Our version, if it is known."""
    with suppress(PackageNotFoundError):
        return version("kube-rescheduler")
    return "unknown"
