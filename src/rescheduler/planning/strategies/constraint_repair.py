"""ConstraintRepair: pods that break what they require go where they break nothing.

A pod may have been placed before a taint, a label or a neighbour came that it cannot stand. The
taint of a cordoned node is no such thing: cordoning says that pods may stay. Nodes on which pods
hold more than there is are relieved as well.

On request also wishes count: preferred node affinity, and taints that only prefer no pods.
"""

import numpy as np

from rescheduler.model.snapshot import Bools, Floats, Ints
from rescheduler.planning.strategies.strategy import Rows, Strategy

# Before overload and everything nice, after what a person asked for.
BROKEN = 1e5
# Less is rounding.
_OVERDRAWN = 1e-9


class ConstraintRepair(Strategy):
    """What nodes hold beyond what they can give. Rules that pods break are counted elsewhere."""

    name = "ConstraintRepair"

    def cost(self, rows: Rows, used: Floats, movable: Ints) -> Floats:
        total = np.zeros(np.shape(movable))
        for row, capacity in enumerate(self.load.capacity):
            total = total + np.maximum(used[row] / capacity[rows] - 1.0, 0.0)
        return np.asarray(BROKEN * total)

    def pressed(self, used: Floats, movable: Ints) -> Bools:
        overdrawn = self.cost(slice(None), used, movable) > _OVERDRAWN
        return np.asarray(overdrawn & (movable > 0))

    def reason(self, node: int, used: Floats) -> str:
        shares = (used / self.load.capacity)[:, node]
        worst = int(shares.argmax())
        return f"{shares[worst]:.1%} of its {self.load.resources[worst]} in use"

    def at_rest(self, used: Floats) -> str:
        return "no pod breaks what it requires, and no node holds more than it can give"
