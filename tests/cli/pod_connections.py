"""Lets the API server reach pods that are processes of this machine.

Its connections to pods go to a Unix socket, where it asks for an address of the pod network. Nobody
has such an address here: whatever it is, the process that listens on that port is meant.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import StreamRequestHandler, ThreadingMixIn, UnixStreamServer
from threading import Thread

from testcluster import TestCluster


class ConnectHandler(StreamRequestHandler):
    """Answers one CONNECT, and then copies in both directions."""

    def handle(self) -> None:
        port = int(self.rfile.readline().split()[1].rpartition(b":")[2])
        while self.rfile.readline().strip():
            pass
        with socket.create_connection(("127.0.0.1", port)) as pod:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            answering = Thread(target=copy, args=(pod, self.connection), daemon=True)
            answering.start()
            copy(self.connection, pod)
            answering.join()


def copy(source: socket.socket, sink: socket.socket) -> None:
    """Copy until one side ends, and then end the other."""
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


class ConnectServer(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True


@contextmanager
def pods_reached_by(cluster: TestCluster) -> Iterator[None]:
    """While the block runs, the API server reaches pods."""
    path = cluster.layout.nodes_socket
    with ConnectServer(str(path), ConnectHandler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()
            path.unlink()
