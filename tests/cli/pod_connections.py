"""Lets the API server reach pods that are processes of this machine.

Its connections to pods and nodes go to a Unix socket, where it asks for an address of their
network. Nobody has such an address here: whatever it is, the process that listens on that port is
meant.

Ports of pods are forwarded by a server that stands in for the kubelet of simulated nodes. How a
real one does it is tested on real nodes (tests/real_nodes/test_port_forward.py).
"""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import StreamRequestHandler, ThreadingMixIn, UnixStreamServer
from threading import Event, Thread

from aiohttp import WSMsgType, web

from testcluster import TestCluster
from testcluster.ports import pick_ports


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
def pods_reached_by(cluster: TestCluster, *nodes: str) -> Iterator[None]:
    """While the block runs, the API server reaches pods, and forwards ports of those on `nodes`."""
    path = cluster.layout.nodes_socket
    with ConnectServer(str(path), ConnectHandler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            with port_forwarding(cluster, nodes):
                yield
        finally:
            server.shutdown()
            path.unlink()


# ---------------------------------------------------------------- in place of a kubelet


@contextmanager
def port_forwarding(cluster: TestCluster, nodes: tuple[str, ...]) -> Iterator[None]:
    (port,) = pick_ports(1)
    is_serving, stop = Event(), Event()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificates = cluster.layout.certificates
    context.load_cert_chain(certificates.server_file, certificates.server_key_file)

    async def serve() -> None:
        app = web.Application()
        app.router.add_get("/portForward/{namespace}/{pod}", forward)
        runner = web.AppRunner(app, handle_signals=False)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
        is_serving.set()
        await asyncio.to_thread(stop.wait)
        await runner.cleanup()

    thread = Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    is_serving.wait()
    for name in nodes:
        status = {
            "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }
        cluster.client.patch(f"/api/v1/nodes/{name}/status", {"status": status})
    try:
        yield
    finally:
        stop.set()
        thread.join()


async def forward(request: web.Request) -> web.WebSocketResponse:
    """Forward one port by websocket, as a kubelet does."""
    answer = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
    await answer.prepare(request)
    port = int(request.query["port"])
    for stream in (0, 1):
        await answer.send_bytes(bytes([stream]) + port.to_bytes(2, "little"))
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError as error:
        await answer.send_bytes(b"\1" + str(error).encode())
        await answer.close()
        return answer

    async def answering() -> None:
        while data := await reader.read(65536):
            await answer.send_bytes(b"\0" + data)
        await answer.close()

    task = asyncio.create_task(answering())
    async for message in answer:
        assert message.type == WSMsgType.BINARY
        assert message.data[0] == 0
        writer.write(message.data[1:])
    await task
    writer.close()
    return answer
