"""The addresses in the network of real nodes.

They are the same in every cluster: each has network namespaces of its own.
"""

from dataclasses import dataclass

FABRIC_ADDRESS = "10.200.0.1"
"""Where nodes find the API server, and the gateway of all of them."""
FABRIC_MAC = "02:00:00:00:00:01"
"""A bridge that is not given one takes that of a node, and another one's when that node goes: for
half a minute, all other nodes would send to the old one."""
APISERVER_PORT = 6443
KUBERNETES_SERVICE_ADDRESS = "10.96.0.1"
"""The first address of Services: where pods find the API server."""
DNS_SERVICE_ADDRESS = "10.96.0.10"
CLUSTER_DOMAIN = "cluster.local"
POD_NETWORK = "10.201.0.0/16"
MAX_NODES = 9


@dataclass(frozen=True)
class NodeAddresses:
    """The network of one node; nodes count from 1."""

    number: int

    @property
    def name(self) -> str:
        """The name of the node, and of its host."""
        return f"node-{self.number}"

    @property
    def address(self) -> str:
        """Its InternalIP."""
        return f"10.200.0.{10 + self.number}"

    @property
    def pod_network(self) -> str:
        """Where the addresses of its pods come from."""
        return f"10.201.{self.number}.0/24"

    @property
    def fabric_link(self) -> str:
        """The name of the fabric's end of its cable."""
        return f"to-node-{self.number}"


def addresses_of(count: int) -> list[NodeAddresses]:
    """The addresses of the first nodes."""
    return [NodeAddresses(number + 1) for number in range(count)]
