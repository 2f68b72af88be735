"""NodeMaintenance: a node labelled for maintenance is emptied of every pod that can move."""

import numpy as np

from rescheduler.model.snapshot import Bools, Floats, Ints
from rescheduler.planning.movability.blocker import OF_NODES
from rescheduler.planning.strategies.strategy import Measure, Rows, Strategy
from rescheduler.planning.strategies.strategy_context import StrategyContext
from rescheduler.planning.strategies.urgency import Urgency
from rescheduler.settings import Policy

# More than anything else can gain: a person asked for this.
_WEIGHT = 1e6
# One node is emptied after another. So many are put in an order, each worth so much more than the
# next that no pod of the next goes first.
_ORDERED, _BEFORE_THE_NEXT = 16, 1.1


class NodeMaintenance(Strategy):
    """How many pods that could go are still on the nodes under maintenance."""

    name = "NodeMaintenance"
    urgency = Urgency.REQUESTED
    empties_maintenance_nodes = True
    measures = (
        Measure(
            "pods_to_drain",
            "Pods on nodes under maintenance, apart from those that belong to their node.",
        ),
    )

    @classmethod
    def cordons_nodes(cls, policy: Policy) -> bool:
        return policy.node_maintenance.cordon

    def prepare(self, context: StrategyContext) -> None:
        """Put the nodes in an order: those that are nearly empty come first."""
        nodes = np.flatnonzero(self.load.under_maintenance & (self.start_movable > 0))
        first = nodes[np.argsort(self.start_movable[nodes], kind="stable")][:_ORDERED]
        self._weight: Floats = np.where(self.load.under_maintenance, _WEIGHT, 0.0)
        self._weight[first] *= _BEFORE_THE_NEXT ** np.arange(len(first), 0, -1)
        self._staying = len(self._pods_that_stay(context))

    def _pods_that_stay(self, context: StrategyContext) -> list[int]:
        """Pods that have to leave as well, and cannot now: something blocks them."""
        pods, movability = context.snapshot.pods, context.movability
        rows = np.flatnonzero(pods.placed & ~movability.movable)
        rows = rows[self.load.under_maintenance[pods.node[rows]]]
        blockers = {row: movability.blocker(row) for row in rows.tolist()}
        return [row for row, found in blockers.items() if found and found.name not in OF_NODES]

    def nodes_to_relieve(self, used: Floats, movable: Ints) -> Bools:
        return self.load.under_maintenance

    def cost(self, rows: Rows, used: Floats, movable: Ints) -> Floats:
        return np.asarray(self._weight[rows] * movable)

    def nodes_to_empty(self) -> Bools:
        return self.load.under_maintenance

    def avoids(self, rows: Rows, used: Floats) -> Bools:
        return self.load.under_maintenance[rows]

    def measured(self, used: Floats, movable: Ints, rule_cost: float) -> tuple[float]:
        return (float(movable[self.load.under_maintenance].sum() + self._staying),)

    def reason(self, node: int, used: Floats) -> str:
        return f"the label {self.load.maintenance_label}"

    def idle_reason(self, used: Floats) -> str:
        return f"no node has the label {self.load.maintenance_label}"
