"""ResourceOptimization: no node above `cpuThreshold` or `memoryThreshold`.

A node above either is relieved until it is below both, and no node is pushed above one by a pod
that comes from elsewhere, unless that pod has to leave a node under maintenance.
"""

import numpy as np

from rescheduler.model.snapshot import Bools, Floats, Ints
from rescheduler.planning.node_load import CPU_ROW, MEMORY_ROW, NodeLoad
from rescheduler.planning.strategies.strategy import Measure, Rows, Strategy
from rescheduler.planning.strategies.urgency import Urgency
from rescheduler.settings import Policy

# Overload comes before balance: a point of it outweighs any imbalance that two nodes can have.
_WEIGHT = 1000.0


class ResourceOptimization(Strategy):
    """The overload of each node, the worst the more so."""

    name = "ResourceOptimization"
    urgency = Urgency.AT_RISK
    acts_on_overload = True
    measures = (Measure("overloaded_nodes", "Nodes above cpuThreshold or memoryThreshold."),)

    def __init__(self, load: NodeLoad, policy: Policy) -> None:
        super().__init__(load, policy)
        self._thresholds = (policy.cpu_threshold / 100, policy.memory_threshold / 100)
        self._capacities = (load.capacity[CPU_ROW], load.capacity[MEMORY_ROW])

    def _utilization(self, rows: Rows, used: Floats) -> tuple[Floats, Floats]:
        cpu, memory = self._capacities
        return used[CPU_ROW] / cpu[rows], used[MEMORY_ROW] / memory[rows]

    def nodes_to_relieve(self, used: Floats, movable: Ints) -> Bools:
        return self.avoids(slice(None), used)

    def cost(self, rows: Rows, used: Floats, movable: Ints) -> Floats:
        total = np.zeros(np.shape(movable))
        for share, threshold in zip(self._utilization(rows, used), self._thresholds, strict=True):
            excess = np.maximum(share - threshold, 0.0)
            total = total + excess + excess * excess
        return np.asarray(_WEIGHT * total)

    def avoids(self, rows: Rows, used: Floats) -> Bools:
        cpu, memory = self._utilization(rows, used)
        return np.asarray((cpu > self._thresholds[0]) | (memory > self._thresholds[1]))

    def measured(self, used: Floats, movable: Ints, rule_cost: float) -> tuple[float]:
        return (float(self.avoids(slice(None), used).sum()),)

    def reason(self, node: int, used: Floats) -> str:
        shares = self._utilization(np.array([node]), used[:, [node]])
        cpu, memory = (float(share[0]) for share in shares)
        cpu_threshold, memory_threshold = self._thresholds
        if cpu > cpu_threshold:
            return f"CPU {cpu:.1%}, the threshold is {cpu_threshold:.1%}"
        return f"memory {memory:.1%}, the threshold is {memory_threshold:.1%}"

    def idle_reason(self, used: Floats) -> str:
        cpu, memory = self._thresholds
        return f"no node is above {cpu:.0%} of its CPU or {memory:.0%} of its memory"
