"""ResourceOptimization: no node above `cpuThreshold` or `memoryThreshold`.

A node above either is relieved until it is below both; a node that would rise above one is a bad
target for the same reason.
"""

import numpy as np

from rescheduler.model.snapshot import Bools, Floats
from rescheduler.planning.load import NodeLoad
from rescheduler.settings import Policy

# Overload comes before balance: an overload of one point outweighs ten points of imbalance.
_WEIGHT = 100.0


class ResourceOptimization:
    """The squared overload of each node."""

    name = "ResourceOptimization"

    def __init__(self, load: NodeLoad, policy: Policy) -> None:
        self._thresholds = np.array([policy.cpu_threshold, policy.memory_threshold]) / 100

    def pressed(self, utilization: Floats) -> Bools:
        return np.asarray((utilization[..., :2] > self._thresholds).any(axis=-1))

    def cost(self, utilization: Floats, nodes: int | slice) -> Floats:
        overload = np.maximum(utilization[..., :2] - self._thresholds, 0.0)
        return np.asarray(_WEIGHT * (overload**2).sum(axis=-1))

    def reason(self, node: int, utilization: Floats) -> str:
        cpu, memory, _ = utilization[node]
        cpu_limit, memory_limit = self._thresholds
        if cpu > cpu_limit:
            return f"CPU {cpu:.0%}, the threshold is {cpu_limit:.0%}"
        return f"memory {memory:.0%}, the threshold is {memory_limit:.0%}"
