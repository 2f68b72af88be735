"""NodeMaintenance: a node labelled for maintenance is emptied of every pod that can move."""

import numpy as np

from rescheduler.model.snapshot import Bools, Floats, Ints
from rescheduler.planning.strategies.strategy import Rows, Strategy
from rescheduler.planning.strategies.urgency import Urgency
from rescheduler.settings import Policy

# More than anything else can gain: a person asked for this.
_WEIGHT = 1e6


class NodeMaintenance(Strategy):
    """How many pods that could go are still on the nodes under maintenance."""

    name = "NodeMaintenance"
    urgency = Urgency.REQUESTED

    @classmethod
    def cordons_nodes(cls, policy: Policy) -> bool:
        return policy.node_maintenance.cordon

    def nodes_to_relieve(self, used: Floats, movable: Ints) -> Bools:
        return self.load.under_maintenance

    def cost(self, rows: Rows, used: Floats, movable: Ints) -> Floats:
        return np.asarray(_WEIGHT * self.load.under_maintenance[rows] * movable)

    def nodes_to_empty(self) -> Bools:
        return self.load.under_maintenance

    def avoids(self, rows: Rows, used: Floats) -> Bools:
        return self.load.under_maintenance[rows]

    def reason(self, node: int, used: Floats) -> str:
        return f"the label {self.load.maintenance_label}"

    def idle_reason(self, used: Floats) -> str:
        return f"no node has the label {self.load.maintenance_label}"
