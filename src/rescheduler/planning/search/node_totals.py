"""What every node holds at some point of a search, and what that costs."""

from collections.abc import Callable

import numpy as np

from rescheduler.model.snapshot import Floats, Ints
from rescheduler.planning.node_load import NodeLoad
from rescheduler.planning.problem.objective import Objective
from rescheduler.planning.strategies.strategy import Rows

CostFunction = Callable[[Rows, Floats, Ints], Floats]
"""What it costs that some nodes hold so much, and so many movable pods."""


class NodeTotals:
    """Amounts per node, a row per resource, that follow pods as they come and go."""

    def __init__(
        self,
        load: NodeLoad,
        objective: Objective,
        movable: Ints,
        cost: CostFunction | None = None,
    ) -> None:
        """`cost` is what searches bring down, unless it is stated otherwise."""
        self._cost = cost or objective.cost
        self._demand = load.demand
        self._allocatable = load.allocatable
        self.objective = objective
        self.used: Floats = load.used.copy()
        self.movable: Ints = movable.copy()
        # Never below nothing: a pod that asks nothing of a resource may go where it is overdrawn.
        self.free: Floats = np.maximum(self._allocatable - self.used, 0.0)
        self._costs: Floats = self._cost(slice(None), self.used, self.movable)
        self._outdated: set[int] = set()

    def add(self, template: int, node: int, count: int) -> None:
        """Movable pods of the template came to the node, or left it if `count` is negative."""
        used = self.used[:, node]
        used += self._demand[:, template] * count
        self.free[:, node] = np.maximum(self._allocatable[:, node] - used, 0.0)
        self.movable[node] += count
        self._outdated.add(node)

    @property
    def costs(self) -> Floats:
        """What each node costs."""
        if self._outdated:
            nodes = np.array(sorted(self._outdated))
            used, movable = self.used[:, nodes], self.movable[nodes]
            self._costs[nodes] = self._cost(nodes, used, movable)
            self._outdated.clear()
        return self._costs

    def recomputed_total(self) -> float:
        """What all nodes cost together, without the rounding of many small changes."""
        self._costs = self._cost(slice(None), self.used, self.movable)
        self._outdated.clear()
        return float(self._costs.sum())
