"""LoadBalancing: even load over the nodes.

Load is a weighted mean of CPU and memory utilisation. It acts when the fullest and the emptiest
node of a pool are further apart than `imbalanceThreshold`, and then wants every node as close to
the mean of its pool as possible. Nodes with taints are left out: they are kept for certain pods,
and may well be empty.
"""

import numpy as np

from rescheduler.model.snapshot import Bools, Floats, Ints
from rescheduler.planning.node_load import CPU_ROW, MEMORY_ROW, NodeLoad
from rescheduler.planning.strategies.strategy import Rows, Strategy
from rescheduler.settings import Policy


class LoadBalancing(Strategy):
    """The squared distance of each node's load from the mean of its pool."""

    name = "LoadBalancing"
    shapes_load = True
    acts_on_overload = True

    def __init__(self, load: NodeLoad, policy: Policy) -> None:
        super().__init__(load, policy)
        weights = policy.load_balancing.weights
        total = weights.cpu + weights.memory
        self._cpu = weights.cpu / total / load.capacity[CPU_ROW]
        self._memory = weights.memory / total / load.capacity[MEMORY_ROW]
        self._threshold = policy.imbalance_threshold / 100
        self._balanced = load.takes_pods & ~load.tainted
        self._pool = self._pools(policy.load_balancing.node_pool_label)
        self._mean = np.zeros(len(self._balanced))
        self._weight = np.zeros(len(self._balanced))
        self.update(load.used)
        self._weight = self._uneven(load.used).astype(np.float64)

    def _pools(self, label: str) -> Ints:
        values = [node.metadata.labels.get(label, "") for node in self.load.snapshot.nodes.objects]
        _, codes = np.unique(np.array(values, dtype=object), return_inverse=True)
        return codes.astype(np.int32)

    def _load(self, rows: Rows, used: Floats) -> Floats:
        return np.asarray(used[CPU_ROW] * self._cpu[rows] + used[MEMORY_ROW] * self._memory[rows])

    def _uneven(self, used: Floats) -> Bools:
        """Nodes of pools that are further from even than the threshold."""
        loads = self._load(slice(None), used)
        uneven = np.zeros(len(loads), bool)
        for pool in np.unique(self._pool[self._balanced]):
            members = self._balanced & (self._pool == pool)
            uneven |= members & (np.ptp(loads[members]) > self._threshold)
        return uneven

    def update(self, used: Floats) -> None:
        loads = self._load(slice(None), used)
        for pool in np.unique(self._pool[self._balanced]):
            members = self._balanced & (self._pool == pool)
            self._mean[members] = loads[members].mean()

    def nodes_to_relieve(self, used: Floats, movable: Ints) -> Bools:
        loads = self._load(slice(None), used)
        return np.asarray(self._uneven(used) & (loads > self._mean))

    def cost(self, rows: Rows, used: Floats, movable: Ints) -> Floats:
        distance = self._load(rows, used) - self._mean[rows]
        return np.asarray(distance * distance * self._weight[rows])

    def reason(self, node: int, used: Floats) -> str:
        load = float(self._load(slice(None), used)[node])
        return f"load {load:.1%}, the mean is {self._mean[node]:.1%}"

    def idle_reason(self, used: Floats) -> str:
        loads = self._load(slice(None), used)[self._balanced]
        if not len(loads):
            return "no node is open to users' pods"
        return (
            f"load lies between {loads.min():.0%} and {loads.max():.0%}, "
            f"not further apart than imbalanceThreshold ({self._threshold:.0%})"
        )
