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
        self._cpu, self._memory = policy.cpu_threshold / 100, policy.memory_threshold / 100

    def pressed(self, utilization: Floats) -> Bools:
        too_much_cpu = utilization[..., 0] > self._cpu
        return np.asarray(too_much_cpu | (utilization[..., 1] > self._memory))

    def cost(self, utilization: Floats, nodes: int | slice) -> Floats:
        cpu = np.maximum(utilization[..., 0] - self._cpu, 0.0)
        memory = np.maximum(utilization[..., 1] - self._memory, 0.0)
        return np.asarray(_WEIGHT * (cpu + cpu**2 + memory + memory**2))

    def reason(self, node: int, utilization: Floats) -> str:
        cpu, memory, _ = utilization[node]
        if cpu > self._cpu:
            return f"CPU {cpu:.1%}, the threshold is {self._cpu:.1%}"
        return f"memory {memory:.1%}, the threshold is {self._memory:.1%}"

    def avoids(self, utilization: Floats) -> Bools:
        return self.pressed(utilization)
