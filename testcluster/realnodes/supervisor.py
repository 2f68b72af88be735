"""The process that owns the nodes of a cluster, and removes all traces of them.

It is the parent of every process on the nodes, and ends when its standard input does. The test
process holds the other end of that pipe. So a test that stops its cluster and a test that is killed
are cleaned up in the same way: nodes end, and with them their namespaces and mounts; then cgroups
and the directory of the cluster are removed. The logs stay only if a line in the pipe says so.

Started as `python -m testcluster.realnodes.supervisor FILE`, where the file describes the nodes. It
prints the ids of their first processes as JSON, or the error, when all are started.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from testcluster import directories
from testcluster.realnodes import cgroups, cpu_priority
from testcluster.realnodes.addresses import (
    APISERVER_PORT,
    FABRIC_ADDRESS,
    FABRIC_MAC,
    NodeAddresses,
    addresses_of,
)
from testcluster.realnodes.forwarder import forward_to_apiserver, forward_to_nodes
from testcluster.realnodes.namespaces import NODE_NAMESPACES, NetworkNamespace
from testcluster.realnodes.order import KEEP_LOGS, Order

END_SECONDS = 30.0


class Node:
    """The processes and namespaces of one node."""

    def __init__(self, init: str, log: str) -> None:
        # If this process is killed, so is unshare; and with unshare, the first process of the node.
        options = ["--kill-child", *NODE_NAMESPACES]
        command = ["setpriv", "--pdeathsig", "KILL", "unshare", *options, init]
        with Path(log).open("ab") as output:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, text=True
            )
        assert self.process.stdout is not None
        if self.process.stdout.readline() != "up\n":
            raise RuntimeError(f"a node did not start: {Path(log).read_text().strip()}")
        # unshare enters the network namespace itself; only the first process of the node has all.
        (self.first,) = psutil.Process(self.process.pid).children()

    def plug_in(self) -> None:
        """Let it go on, now that its cable is there."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.close()

    def end(self) -> None:
        """Kill its first process; the system kills the others, and removes its namespaces."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self.first.kill()
        self.process.wait(END_SECONDS)


class Nodes:
    """All nodes of a cluster, and the network between them."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.fabric = NetworkNamespace()
        self.nodes: list[Node] = []

    def start(self) -> None:
        """Build the network and start every node."""
        self.in_fabric(
            "link set lo up",
            f"link add nodes address {FABRIC_MAC} type bridge",
            f"addr add {FABRIC_ADDRESS}/24 dev nodes",
            "link set nodes up",
        )
        inits = zip(self.order.inits, self.order.logs, strict=True)
        for addresses, (init, log) in zip(addresses_of(len(self.order.inits)), inits, strict=True):
            cgroups.create(self.order.cgroup, addresses.name)
            cpu_priority.extend_to(self.order.cgroup)
            node = Node(init, log)
            self.nodes.append(node)
            self.connect(addresses, node.process.pid)
            node.plug_in()

    def connect(self, addresses: NodeAddresses, pid: int) -> None:
        """Run a cable from the fabric's bridge to the node."""
        link = addresses.fabric_link
        self.in_fabric(
            f"link add {link} type veth peer name eth0 netns {pid}",
            f"link set {link} master nodes up",
            # The API server calls webhooks at the addresses of their pods.
            f"route add {addresses.pod_network} via {addresses.address}",
        )

    def in_fabric(self, *commands: str) -> None:
        """Run `ip` in the fabric's namespace."""
        done = subprocess.run(
            ["nsenter", f"--net={self.fabric.path}", "ip", "-batch", "-"],
            input="\n".join(commands),
            env={**os.environ, **self.order.env},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"ip: {done.stderr.strip()}")

    def end(self) -> None:
        """End all nodes and remove everything outside their directories."""
        for node in self.nodes:
            node.end()
        self.fabric.close()
        cgroups.remove(self.order.cgroup)


def main() -> int:
    """Start the nodes, wait for the end of standard input, and clean up."""
    order = Order(**json.loads(Path(sys.argv[1]).read_text()))
    # While it cleans up, nobody else does.
    lock = directories.join(Path(order.directory))
    # Ended otherwise than by its owner, it still cleans up.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    nodes = Nodes(order)
    try:
        nodes.start()
        print(json.dumps({"pids": [node.first.pid for node in nodes.nodes]}), flush=True)
        asyncio.run(serve(nodes.fabric, order))
    except (OSError, RuntimeError) as error:
        print(json.dumps({"error": str(error)}), flush=True)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        clean_up(nodes, Path(order.directory))
        lock.close()
    return 0


async def serve(fabric: NetworkNamespace, order: Order) -> None:
    """Forward connections until the owner writes or ends."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ended.set)
    listener = fabric.listen(FABRIC_ADDRESS, APISERVER_PORT)
    to_apiserver = await forward_to_apiserver(listener, order.apiserver_port)
    to_nodes = await forward_to_nodes(order.nodes_socket, fabric)
    await ended.wait()
    to_apiserver.close()
    to_nodes.close()


def clean_up(nodes: Nodes, cluster: Path) -> None:
    """End the nodes, and remove what the owner does not keep; it may live on for a while."""
    try:
        nodes.end()
    finally:
        if sys.stdin.read().startswith(KEEP_LOGS):
            directories.keep_logs(cluster)
        else:
            directories.remove(cluster)


if __name__ == "__main__":
    sys.exit(main())
