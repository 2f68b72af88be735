"""CostOptimization: fewer and cheaper nodes in use.

A node saves its price only when it is wholly free of pods that could be elsewhere. A node that
also holds pods which must stay, other than those that belong to it (a DaemonSet's, its own), is
paid for anyway, and so is a node of the control plane. What a node costs is said by its annotation
`rescheduler.dev/node-cost`, else by the policy's table of instance types; a node whose price
neither states costs the mean of the others.
"""

import numpy as np

from rescheduler.model.rules.node_availability import is_control_plane
from rescheduler.model.snapshot import Bools, Floats, Ints
from rescheduler.planning.node_load import NodeLoad
from rescheduler.planning.node_prices import node_prices
from rescheduler.planning.strategies.constraint_repair import ConstraintRepair
from rescheduler.planning.strategies.strategy import Measure, Rows, Strategy
from rescheduler.planning.strategies.strategy_context import StrategyContext
from rescheduler.settings import Policy


class CostOptimization(Strategy):
    """The price of the nodes in use, in mean prices."""

    name = "CostOptimization"
    # What is packed must also be right.
    requires = (ConstraintRepair,)
    shapes_load = True
    needs_combined_moves = True
    measures = (
        Measure(
            "nodes_in_use_cost",
            "Price of the nodes in use that moves could empty, in the unit of the policy.",
        ),
    )

    def __init__(self, load: NodeLoad, policy: Policy) -> None:
        super().__init__(load, policy)
        options = policy.cost_optimization
        nodes = load.snapshot.nodes.objects
        prices = node_prices(nodes, options.prices)
        # Empty or not, they run the cluster: nobody removes them.
        removable = np.array([not is_control_plane(node) for node in nodes], bool)
        mean = float(prices[removable].mean()) if removable.any() else 0.0
        self._unit = mean or 1.0
        self._prices = np.where(removable, prices / self._unit, 0.0)
        if options.move_cost is not None:
            self.move_price = options.move_cost / self._unit
        self._kept_in_use: Bools = np.zeros(len(prices), bool)

    @classmethod
    def states_move_price(cls, policy: Policy) -> bool:
        return policy.cost_optimization.move_cost is not None

    def prepare(self, context: StrategyContext) -> None:
        """From here on, nodes that stay in use whatever is moved cost nothing."""
        self._kept_in_use = context.kept_in_use

    def cost(self, rows: Rows, used: Floats, movable: Ints) -> Floats:
        paid = (movable > 0) & ~self._kept_in_use[rows]
        return np.asarray(self._prices[rows] * paid)

    def is_worth_it(self, movable: Ints, moves: int) -> bool:
        least = self.policy.cost_optimization.minimum_savings
        return least <= 0 or self._saved(movable, moves) >= least

    def _saved(self, movable: Ints, moves: int) -> float:
        """What is saved, in the unit of the policy, when nodes come to hold so many pods."""
        freed = self.nodes_to_relieve(self.load.used, self.start_movable).astype(np.int8)
        freed -= self.nodes_to_relieve(self.load.used, movable)
        return float((self._prices * freed).sum() - self.move_price * moves) * self._unit

    def nodes_to_relieve(self, used: Floats, movable: Ints) -> Bools:
        return np.asarray(self.cost(slice(None), used, movable) > 0)

    def measured(self, used: Floats, movable: Ints, rule_cost: float) -> tuple[float]:
        return (float(self.cost(slice(None), used, movable).sum()) * self._unit,)

    def reason(self, node: int, used: Floats) -> str:
        return f"a price of {self._prices[node] * self._unit:g} that is saved if it is emptied"

    def idle_reason(self, used: Floats) -> str:
        return "no node is in use that could be emptied"
