"""The namespaces of nodes, and network namespaces that this process enters itself."""

import ctypes
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

CLONE_NEWNET = 0x40000000
NODE_NAMESPACES = ("--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--mount-proc")
"""Options of `unshare` for a node; time and users are the host's."""

libc = ctypes.CDLL(None, use_errno=True)


class NetworkNamespace:
    """A network namespace without a name: it goes when nobody has it open or runs in it."""

    def __init__(self) -> None:
        with self._back_to_own():
            check(libc.unshare(CLONE_NEWNET), "unshare")
            self.descriptor = open_current()

    @property
    def path(self) -> str:
        """A path for `nsenter --net`, valid while this process runs."""
        return f"/proc/{os.getpid()}/fd/{self.descriptor}"

    def listen(self, address: str, port: int) -> socket.socket:
        """A listening socket in there.

        A socket stays in the namespace in which it was made, wherever its process goes.
        """
        with self._back_to_own():
            enter(self.descriptor)
            return socket.create_server((address, port), backlog=128)

    def new_socket(self) -> socket.socket:
        """A TCP socket in there, to connect from."""
        with self._back_to_own():
            enter(self.descriptor)
            return socket.socket()

    def close(self) -> None:
        """Let go of it."""
        os.close(self.descriptor)

    @contextmanager
    def _back_to_own(self) -> Iterator[None]:
        """Only this thread leaves its namespace, and only during the block."""
        own = open_current()
        try:
            yield
        finally:
            enter(own)
            os.close(own)


def open_current() -> int:
    """A descriptor of the network namespace of this thread."""
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def enter(descriptor: int) -> None:
    """Move this thread to another network namespace."""
    check(libc.setns(descriptor, CLONE_NEWNET), "setns")


def check(result: int, call: str) -> None:
    """Raise for the error of a system call."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
