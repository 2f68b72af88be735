"""A server listens on all addresses that the machine has."""

import errno
import os
import socket
from typing import Any

import pytest

from rescheduler.serving.listener import listening_sockets
from testcluster.ports import pick_ports


def without(monkeypatch: pytest.MonkeyPatch, *families: int) -> None:
    """As if the kernel had been started with `ipv6.disable=1`, say."""

    class Socket(socket.socket):
        def __init__(self, family: int = socket.AF_INET, *arguments: Any, **options: Any) -> None:
            if family in families:
                raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
            super().__init__(family, *arguments, **options)

    monkeypatch.setattr(socket, "socket", Socket)


def with_nothing_to_bind(monkeypatch: pytest.MonkeyPatch, unbound: int) -> None:
    """As if `net.ipv6.conf.all.disable_ipv6` were 1, say."""

    class Socket(socket.socket):
        def bind(self, address: Any) -> None:
            if self.family == unbound:
                raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
            # All addresses of this machine are those of other tests, too.
            super().bind(("127.0.0.1", address[1]))

    monkeypatch.setattr(socket, "socket", Socket)


async def families(host: str) -> list[int]:
    (port,) = pick_ports(1)
    sockets = await listening_sockets(host, port)
    found = [int(sock.family) for sock in sockets]
    for sock in sockets:
        sock.close()
    return found


def found_by_lookups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both families, as a lookup finds them on a machine without IPv6."""
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, port, *options, **more: [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", port, 0, 0)),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)),
        ],
    )


async def test_a_machine_without_ipv6_listens_on_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    found_by_lookups(monkeypatch)
    without(monkeypatch, socket.AF_INET6)
    assert await families("") == [socket.AF_INET]


async def test_a_machine_whose_ipv6_is_turned_off_listens_on_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found_by_lookups(monkeypatch)
    with_nothing_to_bind(monkeypatch, socket.AF_INET6)
    assert await families("") == [socket.AF_INET]


async def test_an_address_that_was_asked_for_is_not_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found_by_lookups(monkeypatch)
    without(monkeypatch, socket.AF_INET6)
    with pytest.raises(OSError, match="not supported"):
        await families("localhost")


async def test_a_machine_without_any_address_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    found_by_lookups(monkeypatch)
    without(monkeypatch, socket.AF_INET6, socket.AF_INET)
    with pytest.raises(OSError, match="not supported"):
        await families("")
