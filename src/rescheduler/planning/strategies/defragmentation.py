"""Defragmentation: room for pods of a given shape.

Free capacity that cannot hold one more pod of the shape is a fragment. It is measured in shapes:
half a shape of free CPU that is too little for one counts one half. Nodes with taints are left
out: their room is not for everyone.
"""

import numpy as np

from rescheduler.model.snapshot import Bools, Floats, Ints
from rescheduler.planning.node_load import PODS_ROW, NodeLoad
from rescheduler.planning.strategies.strategy import Rows, Strategy
from rescheduler.settings import Policy

# Amounts are whole numbers far below this share of a shape apart.
_ROUNDING = 1e-9
# Far less than a hole is worth.
_NUDGE = 0.05


class Defragmentation(Strategy):
    """The fragments of each node, in shapes."""

    name = "Defragmentation"
    shapes_load = True
    needs_combined_moves = True
    move_price = 1e-3

    def __init__(self, load: NodeLoad, policy: Policy) -> None:
        super().__init__(load, policy)
        shape = policy.defragmentation.amounts()
        self._parts = [
            (row, float(shape[resource]))
            for row, resource in enumerate(load.resources)
            if resource in shape
        ]
        self._closed = ~load.takes_pods | load.tainted
        # What nobody asks for is not gained by moving pods around.
        self._is_hopeless = len(self._parts) < max(len(shape), 1)

    def cost(self, rows: Rows, used: Floats, movable: Ints) -> Floats:
        shares = self._shares(rows, used)
        slots = self.load.allocatable[PODS_ROW][rows] - used[PODS_ROW]
        fitting = np.floor(np.minimum.reduce([*shares, np.maximum(slots, 0.0)]) + _ROUNDING)
        fragment = sum(share - fitting for share in shares) / len(shares)
        return np.asarray(np.where(self._closed[rows], 0.0, fragment))

    def guidance(self, rows: Rows, used: Floats, movable: Ints) -> Floats | None:
        """One large fragment and one small one are nearer to a hole than two that are alike."""
        part = np.minimum(self.cost(rows, used, movable), 1.0)
        return np.asarray(_NUDGE * part * (1.0 - part))

    def _shares(self, rows: Rows, used: Floats) -> list[Floats]:
        """How many shapes each resource alone would hold."""
        return [
            np.maximum(self.load.allocatable[row][rows] - used[row], 0.0) / amount
            for row, amount in self._parts
        ]

    def nodes_to_relieve(self, used: Floats, movable: Ints) -> Bools:
        if self._is_hopeless:
            return np.zeros(used.shape[1], bool)
        fragments = self.cost(slice(None), used, movable)
        return np.asarray((fragments > _ROUNDING) & (movable > 0))

    def reason(self, node: int, used: Floats) -> str:
        everyone = slice(None)
        fragment = float(self.cost(everyone, used, self.start_movable)[node])
        fitting = int(np.minimum.reduce(self._shares(everyone, used))[node] + _ROUNDING)
        return f"room for {fitting} of the shape and {fragment:.2f} of one that is of no use"

    def idle_reason(self, used: Floats) -> str:
        return "no free capacity is too small for the shape"
