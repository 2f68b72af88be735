"""Strategies: what is worth changing, one file each.

A strategy states what it wants as a cost per node, given how loaded the node is. The planner adds
the costs of all enabled strategies up and looks for moves that lower the sum, so strategies never
undo each other's work.
"""

from collections.abc import Callable
from typing import Protocol

from rescheduler.model.snapshot import Bools, Floats
from rescheduler.planning.load import NodeLoad
from rescheduler.planning.strategies.load_balancing import LoadBalancing
from rescheduler.planning.strategies.node_maintenance import NodeMaintenance
from rescheduler.planning.strategies.resource_optimization import ResourceOptimization
from rescheduler.settings import Policy


class Strategy(Protocol):
    """What one strategy wants."""

    name: str

    def pressed(self, utilization: Floats) -> Bools:
        """Nodes that pods should leave, given the utilisation of every node."""

    def cost(self, utilization: Floats, nodes: int | slice) -> Floats:
        """What it costs that these nodes, one or all, are so utilised."""

    def avoids(self, utilization: Floats) -> Bools:
        """Nodes that must not receive a pod if that would bring them to this utilisation."""

    def reason(self, node: int, utilization: Floats) -> str:
        """Why a pod should leave this node, with the numbers."""


STRATEGIES: dict[str, Callable[[NodeLoad, Policy], Strategy]] = {
    "NodeMaintenance": NodeMaintenance,
    "ResourceOptimization": ResourceOptimization,
    "LoadBalancing": LoadBalancing,
}
"""By name, the most urgent first."""
