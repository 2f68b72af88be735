"""Which connections NetworkPolicies allow: what a network plugin that enforces them would do."""

import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from rescheduler.model.objects import LabelSelector
from rescheduler.model.selectors import selects
from testcluster.client import JsonObject
from tests.install.real_nodes.connections import Connection

IN, OUT = "Ingress", "Egress"


@dataclass(frozen=True)
class Network:
    """The policies of a namespace, and who has which address in the cluster."""

    policies: list[JsonObject]
    pods: dict[str, JsonObject]
    """By address."""
    namespaces: dict[str, JsonObject]

    def refused(self, connections: Iterable[Connection], own: dict[str, JsonObject]) -> set[str]:
        """The connections to and from our own pods, by address, that no policy allows.

        What a pod's own node sends is always allowed, or no probe of a kubelet would work.
        """
        return {
            f"{direction} {connection}"
            for connection in connections
            for direction, pod, other in self._sides(connection, own)
            if not self._is_allowed(direction, pod, other, connection)
        }

    def _sides(
        self, connection: Connection, own: dict[str, JsonObject]
    ) -> Iterator[tuple[str, JsonObject, str]]:
        if connection.source in own:
            yield OUT, own[connection.source], connection.destination
        if connection.destination in own and not is_of_node(connection):
            yield IN, own[connection.destination], connection.source

    def _is_allowed(
        self, direction: str, pod: JsonObject, other: str, connection: Connection
    ) -> bool:
        applying = [
            policy["spec"]
            for policy in self.policies
            if direction in policy["spec"]["policyTypes"]
            and is_selected(policy["spec"]["podSelector"], pod)
        ]
        rules = [rule for spec in applying for rule in spec.get(direction.lower(), [])]
        target = pod if direction == IN else self.pods.get(other)
        return not applying or any(
            self._has_peer(rule, direction, other, pod) and has_port(rule, connection, target)
            for rule in rules
        )

    def _has_peer(self, rule: JsonObject, direction: str, other: str, pod: JsonObject) -> bool:
        peers = rule.get("from" if direction == IN else "to")
        return not peers or any(self._is_peer(peer, other, pod) for peer in peers)

    def _is_peer(self, peer: JsonObject, other: str, pod: JsonObject) -> bool:
        if "ipBlock" in peer:
            block = peer["ipBlock"]
            address = ipaddress.ip_address(other)
            return address in ipaddress.ip_network(block["cidr"]) and not any(
                address in ipaddress.ip_network(part) for part in block.get("except", [])
            )
        found = self.pods.get(other)
        if found is None:
            return False
        own, others = pod["metadata"]["namespace"], found["metadata"]["namespace"]
        is_in_namespace = (
            is_selected(peer["namespaceSelector"], self.namespaces[others])
            if "namespaceSelector" in peer
            else own == others
        )
        return is_in_namespace and is_selected(peer.get("podSelector", {}), found)


def is_of_node(connection: Connection) -> bool:
    """Whether the source is the pod's own node, which is the gateway of its network."""
    network = ipaddress.ip_network(f"{connection.destination}/24", strict=False)
    return connection.source == str(network[1])


def is_selected(selector: JsonObject, target: JsonObject) -> bool:
    """Whether a selector selects an object by its labels."""
    return selects(msgspec.convert(selector, LabelSelector), target["metadata"].get("labels", {}))


def has_port(rule: JsonObject, connection: Connection, target: JsonObject | None) -> bool:
    """Whether a rule is about the port of a connection; a name is one of the target's."""
    ports = rule.get("ports")
    return not ports or any(
        port.get("protocol", "TCP") == connection.protocol and is_port(port, connection, target)
        for port in ports
    )


def is_port(port: JsonObject, connection: Connection, target: JsonObject | None) -> bool:
    """The same for one of its ports, or a range of them."""
    wanted: int | str | None = port.get("port")
    if wanted is None:
        return True
    if isinstance(wanted, int):
        return connection.port in range(wanted, port.get("endPort", wanted) + 1)
    containers = target["spec"]["containers"] if target else []
    declared = [each for container in containers for each in container.get("ports", [])]
    return (wanted, connection.port) in {
        (each.get("name"), each["containerPort"]) for each in declared
    }
