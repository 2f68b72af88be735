"""What was sent arrives in time or never, although the network swallows it for a while."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from secrets import token_hex

import psutil
import pytest

from rescheduler.kube.transport import new_socket
from testcluster.waiting import wait_until

HERE, THERE, PORT = "10.231.77.1", "10.231.77.2", 7777
ADDRESS = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (THERE, PORT))
# Prints every message of every connection as a line.
SERVER = f"""
import socket, threading
def show(connection):
    while data := connection.recv(100):
        print(data.decode(), flush=True)
listener = socket.create_server(("{THERE}", {PORT}))
print("ready", flush=True)
while True:
    threading.Thread(target=show, args=(listener.accept()[0],), daemon=True).start()
"""


class Network:
    """A server in a network namespace, and a firewall in front of it."""

    def __init__(self, namespace: str) -> None:
        self._inside = ("ip", "netns", "exec", namespace)
        command = [*self._inside, sys.executable, "-uc", SERVER]
        self.server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.next_message() == "ready"

    def next_message(self) -> str:
        assert self.server.stdout is not None
        return self.server.stdout.readline().strip()

    def swallow(self) -> None:
        run(*self._inside, "iptables", "-I", "INPUT", "-p", "tcp", "-j", "DROP")

    def heal(self) -> None:
        run(*self._inside, "iptables", "-F", "INPUT")


def run(*command: str) -> None:
    subprocess.run(command, check=True)


@pytest.fixture
def network() -> Iterator[Network]:
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("iptables"):
        pytest.skip("needs root, ip and iptables, for a network namespace")
    name = f"delivery-{token_hex(3)}"
    here, there = f"d{token_hex(3)}", f"d{token_hex(3)}"
    run("ip", "netns", "add", name)
    try:
        run("ip", "link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
        run("ip", "addr", "add", f"{HERE}/30", "dev", here)
        run("ip", "link", "set", here, "up")
        run("ip", "-n", name, "addr", "add", f"{THERE}/30", "dev", there)
        run("ip", "-n", name, "link", "set", there, "up")
        network = Network(name)
        yield network
        network.server.kill()
        network.server.wait()
    finally:
        run("ip", "netns", "delete", name)


def is_open(port: int) -> bool:
    """Whether the system still has a connection from this port, closed by its process or not."""
    connections = psutil.net_connections("tcp4")
    return any(found.laddr == (HERE, port) for found in connections)


def send_into_swallowing_network(network: Network, delivery_seconds: float | None) -> int:
    """Send something that does not arrive, and close the connection; its own port."""
    with new_socket(ADDRESS, delivery_seconds) as sock:
        sock.connect((THERE, PORT))
        sock.send(b"early")
        assert network.next_message() == "early"
        network.swallow()
        sock.send(b"late")
        port: int = sock.getsockname()[1]
    return port


def test_without_a_limit_what_was_sent_arrives_when_the_network_is_back(network: Network) -> None:
    send_into_swallowing_network(network, None)
    network.heal()
    assert network.next_message() == "late"


def test_with_a_limit_it_never_arrives(network: Network) -> None:
    port = send_into_swallowing_network(network, 0.5)
    wait_until(lambda: not is_open(port), what="the system has given up the connection")
    network.heal()
    with socket.create_connection((THERE, PORT)) as later:
        later.send(b"another")
        assert network.next_message() == "another"
