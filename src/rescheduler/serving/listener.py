"""Accepts connections, as many as we can keep open, and closes those that ask for nothing.

Every connection takes a file descriptor, and those that carry out migrations need some as well. So
there is a limit. Above it, a new connection takes the place of another one: of the client that has
the most, the one that was used longest ago. A client that opens thousands loses its own.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from weakref import WeakKeyDictionary

from aiohttp import web

logger = logging.getLogger(__name__)

# Half the default of most systems is not enough for a burst after a restart of all clients.
BACKLOG = 512
HANDSHAKE_SECONDS = 5.0
# For the head of the first request. Clients connect when they have something to ask.
FIRST_REQUEST_SECONDS = 10.0
# Of IPv6 that the kernel was started without, and of IPv6 that was turned off later.
NO_SUCH_FAMILY = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
# No file descriptor is left: others may be closed meanwhile.
RETRY_SECONDS = 1.0


class Listener:
    """Connections to one server. `open` it, and `close` it at the end."""

    def __init__(
        self,
        server: web.Server,
        most_connections: int,
        context: Callable[[], ssl.SSLContext | None],
    ) -> None:
        """Without a `context`, connections are not encrypted."""
        self._server = server
        self._most_connections = most_connections
        self._context = context
        self._sockets: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._starting: set[asyncio.Task[None]] = set()
        self._shaking_hands: set[web.RequestHandler] = set()
        self._used_at: WeakKeyDictionary[asyncio.BaseTransport, float] = WeakKeyDictionary()
        """When a request last came on a connection; at first, when it was opened."""

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
            self._used_at[transport] = asyncio.get_running_loop().time()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listening)
            except OSError as error:
                logger.warning("Failed to accept a connection", extra={"error": str(error)})
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if self._has_room():
                task = asyncio.create_task(self._start(connection))
                self._starting.add(task)
                task.add_done_callback(self._starting.discard)
            else:
                connection.close()
            # Many may be waiting: requests on those that were accepted take their turns between.
            await asyncio.sleep(0)

    def _has_room(self) -> bool:
        """Whether there is room for one more connection, perhaps because another one is closed."""
        opened = {handler: handler.transport for handler in self._server.connections}
        transports = [each for each in opened.values() if each and not each.is_closing()]
        # For a moment, some are in both places.
        if len(transports) + len(self._shaking_hands - opened.keys()) < self._most_connections:
            return True
        if not transports:
            return False
        of_client = Counter(map(client_of, transports))
        least_missed = min(
            transports,
            key=lambda each: (-of_client[client_of(each)], self._used_at.get(each, 0.0)),
        )
        least_missed.abort()
        return True

    async def _start(self, connection: socket.socket) -> None:
        """Shake hands, and leave the connection to the HTTP server."""
        loop = asyncio.get_running_loop()
        context = self._context()
        handler = self._server()
        self._shaking_hands.add(handler)
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: handler,
                connection,
                ssl=context,
                ssl_handshake_timeout=None if context is None else HANDSHAKE_SECONDS,
            )
        except (OSError, TimeoutError):
            # A client without TLS, of another CA, or gone; ssl.SSLError is an OSError.
            connection.close()
            return
        finally:
            self._shaking_hands.discard(handler)
        opened_at = self._used_at.setdefault(transport, loop.time())
        loop.call_later(FIRST_REQUEST_SECONDS, self._close_unused, transport, opened_at)

    def _close_unused(self, transport: asyncio.Transport, opened_at: float) -> None:
        if self._used_at[transport] == opened_at:
            transport.abort()


def client_of(transport: asyncio.BaseTransport) -> str:
    """The address of whoever has connected."""
    name = transport.get_extra_info("peername")
    return str(name[0]) if name else ""


async def listening_sockets(host: str, port: int) -> list[socket.socket]:
    """A socket for each address of a host; an empty one stands for all of this machine.

    Names are looked up alike whether or not a machine has IPv6. One without listens on the rest.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    missing: OSError | None = None
    try:
        for family, _, _, _, address in dict.fromkeys(found):
            try:
                sockets.append(listening_socket(family, address))
            except OSError as error:
                if host or error.errno not in NO_SUCH_FAMILY:
                    raise
                missing = error
        if missing is not None and not sockets:
            raise missing
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
