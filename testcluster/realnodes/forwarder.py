"""Forwards connections between the API server on the host and the network of the nodes.

The control plane stays on the host, where tests run webhooks and extenders that it calls.
"""

import asyncio
import contextlib
import socket

from testcluster.realnodes.namespaces import NetworkNamespace

CHUNK_BYTES = 1 << 16


async def forward_to_apiserver(listener: socket.socket, port: int) -> asyncio.Server:
    """Forward every connection to a port of this machine, until the server is closed."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            to_reader, to_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            # The API server is being started again; the client retries.
            writer.close()
            return
        await join((reader, writer), (to_reader, to_writer))

    return await asyncio.start_server(connected, sock=listener)


async def forward_to_nodes(path: str, network: NetworkNamespace) -> asyncio.Server:
    """An HTTP proxy for CONNECT at a Unix socket, which connects to addresses in `network`."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        host, _, port = request.split()[1].decode().rpartition(":")
        to_node = network.new_socket()
        to_node.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(to_node, (host, int(port)))
        except OSError:
            to_node.close()
            writer.write(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
            writer.close()
            return
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await join((reader, writer), await asyncio.open_connection(sock=to_node))

    return await asyncio.start_unix_server(connected, path)


Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def join(one: Stream, other: Stream) -> None:
    """Copy in both directions until one side ends."""
    # Cancelled at the end; asyncio would log that as an error.
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(copy(one[0], other[1]), copy(other[0], one[1]))


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until one side ends, and then end the other: TLS needs no half-closed connections."""
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
    writer.close()
