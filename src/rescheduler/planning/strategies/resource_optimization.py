"""ResourceOptimization: no node above `cpuThreshold` or `memoryThreshold`.

A node above either is relieved until it is below both, and no node is pushed above one by a pod
that comes from elsewhere.
"""

import numpy as np

from rescheduler.model.snapshot import Bools, Floats
from rescheduler.planning.load import NodeLoad
from rescheduler.settings import Policy

# Overload comes before balance: a point of it outweighs any imbalance that two nodes can have.
_WEIGHT = 1000.0


class ResourceOptimization:
    """The overload of each node, the worst the more so."""

    name = "ResourceOptimization"

    def __init__(self, load: NodeLoad, policy: Policy) -> None:
        self._thresholds = np.array([policy.cpu_threshold, policy.memory_threshold]) / 100

    def pressed(self, utilization: Floats) -> Bools:
        return np.asarray((utilization[..., :2] > self._thresholds).any(axis=-1))

    def cost(self, utilization: Floats, nodes: int | slice) -> Floats:
        overload = np.maximum(utilization[..., :2] - self._thresholds, 0.0)
        return np.asarray(_WEIGHT * (overload + overload**2).sum(axis=-1))

    def reason(self, node: int, utilization: Floats) -> str:
        cpu, memory, _ = utilization[node]
        cpu_limit, memory_limit = self._thresholds
        if cpu > cpu_limit:
            return f"CPU {cpu:.1%}, the threshold is {cpu_limit:.1%}"
        return f"memory {memory:.1%}, the threshold is {memory_limit:.1%}"

    def avoids(self, utilization: Floats) -> Bools:
        return self.pressed(utilization)
