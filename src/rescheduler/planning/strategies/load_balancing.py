"""LoadBalancing: even load over the nodes.

Load is the mean of CPU and memory utilisation. It acts when the fullest and the emptiest node
are further apart than `imbalanceThreshold`, and then wants every node as close to the mean as
possible. Nodes with taints are left out: they are kept for certain pods, and may well be empty.
"""

import numpy as np

from rescheduler.model.snapshot import Bools, Floats
from rescheduler.planning.load import NodeLoad, load_of
from rescheduler.settings import Policy


class LoadBalancing:
    """The squared distance of each node's load from the mean."""

    name = "LoadBalancing"

    def __init__(self, load: NodeLoad, policy: Policy) -> None:
        self._balanced = load.takes_pods & ~load.tainted
        self._threshold = policy.imbalance_threshold / 100
        loads = load_of(load.utilization)[self._balanced]
        self._mean = float(loads.mean()) if len(loads) else 0.0

    def pressed(self, utilization: Floats) -> Bools:
        loads = load_of(utilization)
        if not self._balanced.any():
            return np.zeros(len(loads), bool)
        balanced = loads[self._balanced]
        if balanced.max() - balanced.min() <= self._threshold:
            return np.zeros(len(loads), bool)
        return np.asarray(self._balanced & (loads > self._mean))

    def cost(self, utilization: Floats, nodes: int | slice) -> Floats:
        distance = load_of(utilization) - self._mean
        return np.asarray(np.where(self._balanced[nodes], distance**2, 0.0))

    def reason(self, node: int, utilization: Floats) -> str:
        load = float(load_of(utilization[node]))
        return f"load {load:.1%}, the mean is {self._mean:.1%}"

    def avoids(self, utilization: Floats) -> Bools:
        return np.zeros(len(utilization), bool)
