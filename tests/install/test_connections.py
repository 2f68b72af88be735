"""What installs on real nodes are checked with sees the connections that no policy allows."""

from typing import Any

import pytest

from tests.install.real_nodes.connections import Connection, connections_in
from tests.install.real_nodes.network_policies import Network

OWN, DNS, APISERVER, NODE = "10.201.1.3", "10.201.2.2", "10.200.0.1", "10.201.1.1"
TABLE = """\
ipv4     2 tcp      6 431976 ESTABLISHED src=10.201.1.3 dst=10.96.0.1 sport=40238 dport=443 \
src=10.200.0.1 dst=10.200.0.11 sport=6443 dport=56852 [ASSURED] mark=0 zone=0 use=2
ipv4     2 udp      17 28 src=10.201.1.3 dst=10.96.0.10 sport=5353 dport=53 [UNREPLIED] \
src=10.201.2.2 dst=10.201.1.3 sport=53 dport=5353 mark=0 zone=0 use=2
ipv4     2 icmp     1 28 src=10.201.1.3 dst=10.201.2.2 type=8 code=0 id=1 src=10.201.2.2 \
dst=10.201.1.3 type=0 code=0 id=1 mark=0 zone=0 use=2
"""


def pod(namespace: str, **labels: str) -> dict[str, Any]:
    ports = [{"name": "serving", "containerPort": 8443}]
    return {
        "metadata": {"namespace": namespace, "name": "any", "labels": labels},
        "spec": {"containers": [{"ports": ports}]},
    }


def network(**rules: list[dict[str, Any]]) -> Network:
    selector = {"matchLabels": {"app": "own"}}
    spec = {"podSelector": selector, "policyTypes": ["Ingress", "Egress"], **rules}
    system = {"metadata": {"name": "kube-system", "labels": {"name": "kube-system"}}}
    return Network([{"spec": spec}], {DNS: pod("kube-system", app="dns")}, {"kube-system": system})


def are_allowed(found: Network, connection: Connection) -> bool:
    return not found.refused([connection], {OWN: pod("ours", app="own")})


def test_connections_are_seen_after_their_addresses_were_translated() -> None:
    assert connections_in(TABLE) == {
        Connection("TCP", OWN, APISERVER, 6443),
        Connection("UDP", OWN, DNS, 53),
    }


@pytest.mark.parametrize(
    ("rule", "is_allowed"),
    [
        ({}, True),
        ({"ports": [{"port": 53, "protocol": "UDP"}]}, True),
        ({"ports": [{"port": 53}]}, False),
        ({"ports": [{"port": 50, "endPort": 60, "protocol": "UDP"}]}, True),
        ({"to": [{"namespaceSelector": {"matchLabels": {"name": "kube-system"}}}]}, True),
        ({"to": [{"podSelector": {"matchLabels": {"app": "dns"}}}]}, False),
        ({"to": [{"ipBlock": {"cidr": "10.201.0.0/16"}}]}, True),
        ({"to": [{"ipBlock": {"cidr": "10.201.0.0/16", "except": ["10.201.2.0/24"]}}]}, False),
    ],
)
def test_a_rule_allows_its_ports_to_its_peers(rule: dict[str, Any], is_allowed: bool) -> None:
    assert are_allowed(network(egress=[rule]), Connection("UDP", OWN, DNS, 53)) == is_allowed


def test_without_a_rule_nothing_is_allowed_but_what_a_pods_own_node_sends() -> None:
    assert not are_allowed(network(), Connection("TCP", OWN, APISERVER, 6443))
    assert not are_allowed(network(), Connection("TCP", APISERVER, OWN, 8443))
    assert are_allowed(network(), Connection("TCP", NODE, OWN, 8443))


def test_a_name_of_a_port_is_that_of_the_pod_that_is_reached() -> None:
    found = network(ingress=[{"ports": [{"port": "serving"}]}])
    assert are_allowed(found, Connection("TCP", APISERVER, OWN, 8443))
    assert not are_allowed(found, Connection("TCP", APISERVER, OWN, 8080))
