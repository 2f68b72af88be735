"""Defragmentation: room for pods of a given shape.

Free capacity that cannot hold one more pod of the shape is a fragment. What counts is how many pods
of the shape find room, all nodes together: moving fragments together makes room for one more, and
filling a fragment makes none. Nodes with taints are left out: their room is not for everyone.
"""

from math import floor

import numpy as np

from rescheduler.model.snapshot import Bools, Floats, Ints
from rescheduler.planning.node_load import PODS_ROW, NodeLoad
from rescheduler.planning.strategies.strategy import Measure, Rows, Strategy
from rescheduler.settings import Policy

# Amounts are whole numbers far below this share of a shape apart.
_ROUNDING = 1e-9


class Defragmentation(Strategy):
    """How many pods of the shape each node has no room for, though it would if it were empty."""

    name = "Defragmentation"
    shapes_load = True
    needs_combined_moves = True
    measures = (Measure("free_shapes", "Pods of the shape that find room, all nodes together."),)

    def __init__(self, load: NodeLoad, policy: Policy) -> None:
        super().__init__(load, policy)
        self._shape = policy.defragmentation.amounts()
        self._parts = [
            (load.resources.index(resource), float(amount))
            for resource, amount in self._shape.items()
            if resource in load.resources
        ]
        # No node has some resource of the shape.
        self._is_hopeless = len(self._parts) < len(self._shape) or not self._parts
        self._open: Bools = load.takes_pods & ~load.tainted
        nothing = np.zeros_like(load.used)
        self._most: Floats = np.where(self._open, self._fitting(slice(None), nothing), 0.0)

    def cost(self, rows: Rows, used: Floats, movable: Ints) -> Floats:
        if self._is_hopeless:
            return np.zeros(np.shape(movable))
        fitting = self._fitting(rows, used)
        return np.asarray(np.where(self._open[rows], self._most[rows] - fitting, 0.0))

    def _fitting(self, rows: Rows, used: Floats) -> Floats:
        """How many more pods of the shape fit."""
        slots = self.load.allocatable[PODS_ROW][rows] - used[PODS_ROW]
        shares = [*self._shares(rows, used), np.maximum(slots, 0.0)]
        return np.asarray(np.floor(np.minimum.reduce(shares) + _ROUNDING))

    def _shares(self, rows: Rows, used: Floats) -> list[Floats]:
        """How many shapes each resource alone would hold."""
        return [
            np.maximum(self.load.allocatable[row][rows] - used[row], 0.0) / amount
            for row, amount in self._parts
        ]

    def _fragment(self, rows: Rows, used: Floats) -> Floats:
        """Free capacity that is of no use, in shapes: the mean over the shape's resources."""
        shares, fitting = self._shares(rows, used), self._fitting(rows, used)
        fragment = sum(share - fitting for share in shares) / max(len(shares), 1)
        return np.asarray(np.where(self._open[rows], fragment, 0.0))

    def nodes_to_relieve(self, used: Floats, movable: Ints) -> Bools:
        if self._is_hopeless or not self._could_fit_more(used):
            return np.zeros(used.shape[1], bool)
        return np.asarray((self._fragment(slice(None), used) > _ROUNDING) & (movable > 0))

    def _could_fit_more(self, used: Floats) -> bool:
        """Whether all free capacity together would be room for one more pod of the shape.

        That of nodes with taints, too: pods that tolerate them may make room by going there.
        """
        everyone, usable = slice(None), self.load.takes_pods
        fitting = float(self._fitting(everyone, used)[self._open].sum())
        together = min(
            (float(share[usable].sum()) for share in self._shares(everyone, used)), default=0.0
        )
        return floor(together + _ROUNDING) > fitting

    def measured(self, used: Floats, movable: Ints, rule_cost: float) -> tuple[float]:
        if self._is_hopeless:
            return (0.0,)
        return (float(self._fitting(slice(None), used)[self._open].sum()),)

    def reason(self, node: int, used: Floats) -> str:
        row, held = np.array([node]), used[:, [node]]
        fitting, fragment = int(self._fitting(row, held)[0]), float(self._fragment(row, held)[0])
        return f"room for {fitting} of the shape and {fragment:.2f} of one that is of no use"

    def idle_reason(self, used: Floats) -> str:
        if self._is_hopeless:
            missing = sorted(set(self._shape) - set(self.load.resources))
            return f"no node has {', '.join(missing)}, which the shape asks for"
        if not (self._fragment(slice(None), used) > _ROUNDING).any():
            return "no free capacity is too small for the shape"
        return "all free capacity that is too small for the shape would not hold one more together"
