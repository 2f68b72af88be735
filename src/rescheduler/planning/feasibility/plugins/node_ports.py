"""NodePorts: a host port of the pod must be free on the node.

A port is taken per protocol and address. The wildcard address 0.0.0.0 stands for all of them, so
it conflicts with any address, and any address with it.
"""

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from rescheduler.model.pod_templates import PodTemplate
from rescheduler.model.snapshot import Bools
from rescheduler.planning.feasibility.filter_plugin import SharedLister

_ANY_ADDRESS = "0.0.0.0"


class HostPort(NamedTuple):
    """A port of a node that a container takes for itself."""

    protocol: str
    number: int
    address: str


class NodePorts:
    """Refuses nodes on which a wanted host port is taken."""

    name = "NodePorts"

    def __init__(self, lister: SharedLister) -> None:
        self._lister = lister
        self._wanted: list[tuple[HostPort, ...]] = []
        # How many placed pods take a port, by protocol and number, then by node and address.
        self._users: dict[tuple[str, int], dict[tuple[int, str], int]] = defaultdict(dict)
        for template in range(len(lister.snapshot.templates)):
            self.add_template(template)

    def add_template(self, template: int) -> None:
        """Prepare for a template that was not there before."""
        self._wanted.append(host_ports(self._lister.snapshot.templates[template]))

    def refused(self, template: int) -> Bools | None:
        taken = [node for port in self._wanted[template] for node in self._nodes_in_conflict(port)]
        if not taken:
            return None
        refused = np.zeros(len(self._lister.snapshot.nodes), bool)
        refused[taken] = True
        return refused

    def reason(self, template: int, node: int) -> str:
        for port in self._wanted[template]:
            if node in self._nodes_in_conflict(port):
                return f"host port {port.number}/{port.protocol} is taken on the node"
        raise AssertionError("asked why of a node that is not refused")

    def count_pods(self, template: int, node: int, count: int, terminating: bool) -> None:
        """Pods of this template came to the node, or left it if `count` is negative."""
        for port in self._wanted[template]:
            users = self._users[port.protocol, port.number]
            socket = (node, port.address)
            users[socket] = users.get(socket, 0) + count
            if users[socket] == 0:
                del users[socket]

    def _nodes_in_conflict(self, port: HostPort) -> list[int]:
        users = self._users.get((port.protocol, port.number), {})
        return [
            node
            for node, address in users
            if address == port.address or _ANY_ADDRESS in (address, port.address)
        ]


def host_ports(template: PodTemplate) -> tuple[HostPort, ...]:
    """Host ports of containers that run for the pod's whole life: sidecars and main ones."""
    sidecars = [
        container for container in template.init_containers if container.restart_policy == "Always"
    ]
    return tuple(
        HostPort(port.protocol or "TCP", port.host_port, port.host_ip or _ANY_ADDRESS)
        for container in (*sidecars, *template.containers)
        for port in container.ports
        if port.host_port > 0
    )
