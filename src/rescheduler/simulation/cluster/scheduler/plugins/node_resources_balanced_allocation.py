"""NodeResourcesBalancedAllocation: CPU and memory of a node are used up evenly.

What counts is what the pod changes: 75 points are "as even as before", 100 the greatest
improvement. A pod that asks for neither changes nothing and gets no points anywhere.
"""

import numpy as np

from rescheduler.model.resources import CPU, MEMORY
from rescheduler.model.snapshot import Amounts
from rescheduler.simulation.cluster.scheduler.plugins.score_plugin import MAX_SCORE, Nodes
from rescheduler.simulation.cluster.scheduler.scheduler_cache import SchedulerCache


class NodeResourcesBalancedAllocation:
    """Prefers nodes that the pod makes more evenly used."""

    name = "NodeResourcesBalancedAllocation"
    weight = 1

    def __init__(self, cluster: SchedulerCache) -> None:
        self._cluster = cluster

    def points(self, template: int, nodes: Nodes) -> Amounts | None:
        snapshot = self._cluster.checker.snapshot
        asked = snapshot.asked[template, [snapshot.column(CPU), snapshot.column(MEMORY)]]
        if not asked.any():
            return None
        capacity = self._cluster.allocatable[:, nodes]
        used = self._cluster.used()[:, nodes]
        improvement = evenness(used + asked[:, None], capacity) - evenness(used, capacity)
        return np.asarray(MAX_SCORE // 2 + (MAX_SCORE // 2 + improvement) // 2)


def evenness(used: Amounts, capacity: Amounts) -> Amounts:
    """100 if the same share of both resources is used, 50 if all of one and none of the other.

    A node that has only one of them is even.
    """
    shares = np.minimum(used / np.maximum(capacity, 1), 1)
    deviation = np.abs((shares[0] - shares[1]) / 2)
    deviation[(capacity == 0).any(axis=0)] = 0
    return np.asarray(((1 - deviation) * MAX_SCORE).astype(np.int64))
