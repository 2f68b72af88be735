"""Asks a port inside of a pod, on the way that `kubectl port-forward` takes.

The API server connects us to the kubelet, and that to the port, by the loopback address of the pod.
So also what listens or answers there alone is reached, by whoever has the right to forward ports.

Every message begins with a byte that says which stream it belongs to, and both streams begin with
the number of the port.
"""

import re
from dataclasses import dataclass

from aiohttp import WSMsgType

from rescheduler.kube.client import Client

PROTOCOL = "v4.channel.k8s.io"
DATA, ERROR = 0, 1
PORT_BYTES = 2
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+) *\r\n", re.IGNORECASE)
END_OF_HEAD = b"\r\n\r\n"


class NoPage(Exception):
    """Nothing inside of the pod has answered as a web server does; why, for people."""


@dataclass(frozen=True)
class PodPage:
    """What a web server inside of a pod has answered."""

    status: int
    body: bytes


async def page_inside(server: Client, path: str, port: int, page: str, most_bytes: int) -> PodPage:
    """A page of a web server in a pod, whose ports are forwarded at this path of the API.

    The web server must say how long the page is.
    """
    head = f"GET {page} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    streams = {DATA: bytearray(), ERROR: bytearray()}
    async with server.websocket(path, {"ports": str(port)}, PROTOCOL, most_bytes) as socket:
        await socket.send_bytes(bytes([DATA]) + head.encode())
        async for message in socket:
            if message.type != WSMsgType.BINARY or message.data[0] not in streams:
                raise NoPage("the kubelet answers with another protocol")
            streams[message.data[0]] += message.data[1:]
            if why := streams[ERROR][PORT_BYTES:]:
                raise NoPage(why.decode(errors="replace").strip())
            answer = bytes(streams[DATA][PORT_BYTES:])
            if len(answer) > most_bytes:
                raise NoPage(f"the answer has more than {most_bytes:,} bytes")
            if (found := whole_page(answer)) is not None:
                return found
    raise NoPage("the connection ended before the answer")


def whole_page(answer: bytes) -> PodPage | None:
    """The page, if all of it has come."""
    head, end, body = answer.partition(END_OF_HEAD)
    if not end:
        return None
    line = head.split(maxsplit=2)
    length = LENGTH.search(head + b"\r\n")
    if length is None or len(line) < 2 or not line[0].startswith(b"HTTP/") or not line[1].isdigit():
        raise NoPage("what answers is no web server, or does not say how much it answers")
    return PodPage(int(line[1]), body) if len(body) >= int(length[1]) else None
