"""LoadBalancing: even load over the nodes.

Load is a weighted mean of CPU and memory utilisation. Every node should be as loaded as its pool as
a whole: the mean of its nodes, each weighted by its capacity. No other number is nearer to all of
them. So when pods have come to the pool or left it, or are on nodes of another shape, the new mean
is never further from its nodes than the old one: what a plan was worth is not lost in the next.

It acts on a pool when the fullest node that a pod could leave and the emptiest that a pod could
come to are further apart than `imbalanceThreshold`: what no move can change is no reason for one.
Nodes with taints are in no pool: they are kept for certain pods, or are about to be removed, and
may well be empty.
"""

from collections.abc import Iterator

import numpy as np

from rescheduler.model.snapshot import Bools, Floats, Ints
from rescheduler.planning.node_load import CPU_ROW, MEMORY_ROW, NodeLoad
from rescheduler.planning.strategies.pod_term import PodTerm
from rescheduler.planning.strategies.strategy import Measure, Rows, Strategy
from rescheduler.planning.strategies.strategy_context import StrategyContext
from rescheduler.settings import Policy

_NO_POOL = -1


class LoadBalancing(Strategy):
    """The squared distance of each node's load from that of its pool, weighted by its capacity.

    With these weights a move gains what it evens out: twice the pod's share of a mean node, times
    how much fuller its node is than the target will be.
    """

    name = "LoadBalancing"
    shapes_load = True
    acts_on_overload = True
    measures = (
        Measure(
            "load_difference_ratio",
            "Load of the fullest node of a pool minus that of its emptiest, in the pool where "
            "they are furthest apart; compare with imbalanceThreshold.",
        ),
    )

    def __init__(self, load: NodeLoad, policy: Policy) -> None:
        super().__init__(load, policy)
        weights = policy.load_balancing.weights
        total = weights.cpu + weights.memory
        self._shares = (weights.cpu / total, weights.memory / total)
        self._threshold = policy.imbalance_threshold / 100
        self._pool = self._pools(policy.load_balancing.node_pool_label)
        self._balanced: Bools = self._pool != _NO_POOL
        self._weight = self._capacity_weights()
        self._target: Floats = np.zeros(len(self._pool))
        for pool in self._pool_numbers():
            self._target[self._pool == pool] = self._load_of_pool(pool)
        self._uneven: Bools = np.zeros(len(self._pool), bool)

    def _pools(self, label: str) -> Ints:
        values = [node.metadata.labels.get(label, "") for node in self.load.snapshot.nodes.objects]
        _, codes = np.unique(np.array(values, dtype=object), return_inverse=True)
        is_member = self.load.takes_pods & ~self.load.tainted & ~self.load.softly_tainted
        return np.where(is_member, codes, _NO_POOL).astype(np.int32)

    def _pool_numbers(self) -> list[int]:
        return [int(pool) for pool in np.unique(self._pool[self._balanced])]

    def _capacity_weights(self) -> Floats:
        """How large nodes are beside the mean of all that are balanced; others count nothing."""
        weight = np.zeros(len(self._pool))
        for share, row in zip(self._shares, (CPU_ROW, MEMORY_ROW), strict=True):
            capacity = self.load.allocatable[row][self._balanced]
            if len(capacity):
                weight[self._balanced] += share * capacity / capacity.mean()
        return weight

    def _load_of_pool(self, pool: int) -> float:
        members = np.flatnonzero(self._pool == pool)
        loads = self._load(members, self.load.used[:, members])
        return float(np.average(loads, weights=self._weight[members]))

    def prepare(self, context: StrategyContext) -> None:
        """Find the pools that are uneven, as far as pods could change it."""
        if not self.nodes_to_relieve(self.load.used, self.start_movable).any():
            # What follows is costly, and most clusters are even.
            return
        loads = self._load(slice(None), self.load.used)
        leaving = self._balanced & (self.start_movable > 0)
        usable = self._balanced & context.usable_by_some(self._balanced)
        for pool in self._pool_numbers():
            members = self._pool == pool
            if self._are_apart(loads[members & leaving], loads[members & usable]):
                self._uneven |= members

    def _are_apart(self, full: Floats, empty: Floats) -> bool:
        """Whether the fullest node is too far from the emptiest."""
        return bool(len(full) and len(empty) and full.max() - empty.min() > self._threshold)

    def _load(self, rows: Rows, used: Floats) -> Floats:
        cpu, memory = self.load.capacity[CPU_ROW][rows], self.load.capacity[MEMORY_ROW][rows]
        of_cpu, of_memory = self._shares
        return np.asarray(of_cpu * (used[CPU_ROW] / cpu) + of_memory * (used[MEMORY_ROW] / memory))

    def nodes_to_relieve(self, used: Floats, movable: Ints) -> Bools:
        loads = self._load(slice(None), used)
        to_relieve = np.zeros(len(loads), bool)
        for pool in self._pool_numbers():
            members = self._pool == pool
            if self._are_apart(loads[members], loads[members]):
                to_relieve |= members & (loads > self._target)
        return to_relieve

    def is_at_rest(self) -> bool:
        return not self._uneven.any()

    def resting_nodes(self) -> Bools | None:
        resting = self._balanced & ~self._uneven
        return resting if resting.any() else None

    def cost(self, rows: Rows, used: Floats, movable: Ints) -> Floats:
        distance = self._load(rows, used) - self._target[rows]
        return np.asarray(self._weight[rows] * distance * distance)

    def placement_terms(self, context: StrategyContext) -> Iterator[PodTerm]:
        if len(np.unique(self._pool[self.load.takes_pods])) > 1:
            yield OtherPool(self.load, self._pool, self._size_of_pods())

    def _size_of_pods(self) -> Floats:
        """How much of a mean node a pod of each template takes."""
        size = np.zeros(self.load.demand.shape[1])
        for share, row in zip(self._shares, (CPU_ROW, MEMORY_ROW), strict=True):
            capacity = self.load.allocatable[row][self._balanced]
            if len(capacity):
                size += share * self.load.demand[row] / capacity.mean()
        return size

    def measured(self, used: Floats, movable: Ints, rule_cost: float) -> tuple[float]:
        loads = self._load(slice(None), used)
        pools = (loads[self._pool == pool] for pool in self._pool_numbers())
        return (max((float(np.ptp(members)) for members in pools), default=0.0),)

    def reason(self, node: int, used: Floats) -> str:
        load = float(self._load(np.array([node]), used[:, [node]])[0])
        return f"load {load:.1%}, its pool {self._target[node]:.1%}"

    def idle_reason(self, used: Floats) -> str:
        loads = self._load(slice(None), used)[self._balanced]
        if not len(loads):
            return "no node is open to users' pods"
        return (
            f"load lies between {loads.min():.0%} and {loads.max():.0%}, not further apart than "
            f"imbalanceThreshold ({self._threshold:.0%}) where pods could be moved"
        )


class OtherPool(PodTerm):
    """Keeps pods in their pool: load is not evened out by putting it on nodes of another one."""

    def __init__(self, load: NodeLoad, pool: Ints, size: Floats) -> None:
        self._pool = pool
        # What a pod's size can gain at most, from a full node to an empty one.
        self._cost = 2.0 * size
        self._takes_pods = load.takes_pods

    def total(self) -> float:
        return 0.0

    def gain_bounds(self, templates: Ints, nodes: Ints) -> Floats:
        return np.zeros(len(templates))

    def gain_of_leaving(self, template: int, node: int) -> float:
        return 0.0

    def arrival_costs(self, template: int, source: int) -> Floats | None:
        # A node that takes no pods any more is in no pool, and leaving it is fine.
        if not self._takes_pods[source]:
            return None
        return np.asarray(self._cost[template] * (self._pool != self._pool[source]))

    def reason(self, template: int, node: int) -> str:
        return "it is in its pool"
