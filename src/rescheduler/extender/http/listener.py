"""Accepts connections, as many as we can keep open, and closes those that ask for nothing.

Every connection takes a file descriptor, and those that carry out migrations need some as well. So
connections above the limit are closed before the TLS handshake.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from weakref import WeakSet

from aiohttp import web

logger = logging.getLogger(__name__)

# Schedulers and API servers keep a few connections each.
MOST_CONNECTIONS = 400
# Half the default of most systems is not enough for a burst after a restart of all of them.
BACKLOG = 512
HANDSHAKE_SECONDS = 5.0
# For the head of the first request. Clients connect when they have something to ask.
FIRST_REQUEST_SECONDS = 10.0
# No file descriptor is left: others may be closed meanwhile.
RETRY_SECONDS = 1.0


class Listener:
    """Connections to one server. `open` it, and `close` it at the end."""

    def __init__(self, server: web.Server, context: Callable[[], ssl.SSLContext]) -> None:
        self._server = server
        self._context = context
        self._sockets: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._starting: set[asyncio.Task[None]] = set()
        self._shaking_hands: set[web.RequestHandler] = set()
        self._used: WeakSet[asyncio.BaseTransport] = WeakSet()

    async def open(self, host: str, port: int) -> int:
        """Listen on all addresses of a host; the port, which the system chooses if it is 0."""
        self._sockets = await listening_sockets(host, port)
        self._accepting = [asyncio.create_task(self._accept(sock)) for sock in self._sockets]
        listening: int = self._sockets[0].getsockname()[1]
        return listening

    async def close(self) -> None:
        """Accept no more connections."""
        tasks = [*self._accepting, *self._starting]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for sock in self._sockets:
            sock.close()

    def used(self, transport: asyncio.BaseTransport | None) -> None:
        """A request came on this connection."""
        if transport is not None:
            self._used.add(transport)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listening)
            except OSError as error:
                logger.warning("Failed to accept a connection", extra={"error": str(error)})
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if self._count() >= MOST_CONNECTIONS:
                connection.close()
                continue
            task = asyncio.create_task(self._start(connection))
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)

    def _count(self) -> int:
        """How many connections there are. For a moment, some are in both places."""
        return len({*self._shaking_hands, *self._server.connections})

    async def _start(self, connection: socket.socket) -> None:
        """Shake hands, and leave the connection to the HTTP server."""
        loop = asyncio.get_running_loop()
        handler = self._server()
        self._shaking_hands.add(handler)
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: handler,
                connection,
                ssl=self._context(),
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
            )
        except (OSError, TimeoutError):
            # A client without TLS, of another CA, or gone; ssl.SSLError is an OSError.
            connection.close()
            return
        finally:
            self._shaking_hands.discard(handler)
        loop.call_later(FIRST_REQUEST_SECONDS, self._close_unused, transport)

    def _close_unused(self, transport: asyncio.Transport) -> None:
        if transport not in self._used:
            transport.abort()


async def listening_sockets(host: str, port: int) -> list[socket.socket]:
    """A socket for each address of a host; an empty one stands for all of this machine."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    try:
        for family, _, _, _, address in dict.fromkeys(found):
            sockets.append(listening_socket(family, address))
    except OSError:
        for sock in sockets:
            sock.close()
        raise
    return sockets


def listening_socket(family: int, address: tuple[object, ...]) -> socket.socket:
    """A socket that listens on one address."""
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # The IPv4 addresses have a socket of their own.
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.setblocking(False)
        sock.bind(address)
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock
