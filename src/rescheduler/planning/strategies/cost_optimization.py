"""CostOptimization: fewer and cheaper nodes in use.

A node saves its price only when it is wholly free of pods that could be elsewhere. A node that
also holds pods which must stay, other than those that belong to it (a DaemonSet's, its own), is
paid for anyway. What a node costs is said by its annotation `rescheduler.dev/node-cost`, else by
the policy's table of instance types; nodes that neither tells of cost the mean of the others.
"""

import math

import numpy as np

from rescheduler.model.objects import Node
from rescheduler.model.snapshot import Bools, Floats, Ints
from rescheduler.planning.node_load import CPU_ROW, MEMORY_ROW, NodeLoad
from rescheduler.planning.strategies.strategy import Rows, Strategy
from rescheduler.settings import Policy

INSTANCE_TYPE = "node.kubernetes.io/instance-type"
# Of the mean price of a node, where the policy does not say what a move costs.
_MOVE_COST = 1e-3
# Of a node's price: less than is saved by emptying it.
_NUDGE = 0.3


class CostOptimization(Strategy):
    """The price of the nodes in use, in mean prices."""

    name = "CostOptimization"
    is_rough = True

    def __init__(self, load: NodeLoad, policy: Policy) -> None:
        super().__init__(load, policy)
        options = policy.cost_optimization
        prices = node_prices(load.snapshot.nodes.objects, dict(options.prices))
        self.unit = float(prices.mean()) if len(prices) and prices.mean() > 0 else 1.0
        self.prices = prices / self.unit
        self.move_price = _MOVE_COST if options.move_cost is None else options.move_cost / self.unit
        self.anchored = np.zeros(len(prices), bool)

    def anchor(self, nodes: Bools) -> None:
        """These nodes are paid for whatever is moved."""
        self.anchored = nodes

    def cost(self, rows: Rows, used: Floats, movable: Ints) -> Floats:
        paid = (movable > 0) & ~self.anchored[rows]
        return np.asarray(self.prices[rows] * paid)

    def saved(self, before: Ints, after: Ints, moves: int) -> float:
        """What is saved, in the unit of node prices, when nodes come to hold so many pods."""
        freed = self.pressed(self.load.used, before).astype(np.int8)
        freed -= self.pressed(self.load.used, after)
        return float((self.prices * freed).sum() - self.move_price * moves) * self.unit

    def guidance(self, rows: Rows, used: Floats, movable: Ints) -> Floats | None:
        """An empty node and a full one are nearer to a saving than two that are half full."""
        empty = 1.0 - np.minimum(self._fullness(rows, used), 1.0)
        return np.asarray(_NUDGE * self.prices[rows] * (1.0 - empty * empty))

    def _fullness(self, rows: Rows, used: Floats) -> Floats:
        cpu, memory = self.load.capacity[CPU_ROW][rows], self.load.capacity[MEMORY_ROW][rows]
        return np.asarray((used[CPU_ROW] / cpu + used[MEMORY_ROW] / memory) / 2)

    def pressed(self, used: Floats, movable: Ints) -> Bools:
        return np.asarray(self.cost(slice(None), used, movable) > 0)

    def reason(self, node: int, used: Floats) -> str:
        return f"a price of {self.prices[node] * self.unit:g} that is saved if it is emptied"

    def at_rest(self, used: Floats) -> str:
        return "no node is in use that could be emptied"


def node_prices(nodes: tuple[Node, ...], by_instance_type: dict[str, float]) -> Floats:
    """What each node costs."""
    prices = np.array([_price_of(node, by_instance_type) for node in nodes], np.float64)
    known = np.isfinite(prices)
    return np.where(known, prices, prices[known].mean() if known.any() else 1.0)


def _price_of(node: Node, by_instance_type: dict[str, float]) -> float:
    """NaN if nothing tells of it."""
    try:
        price = float(node.metadata.annotations.node_cost)
    except ValueError:
        price = by_instance_type.get(node.metadata.labels.get(INSTANCE_TYPE, ""), math.nan)
    return price if price >= 0 else math.nan
