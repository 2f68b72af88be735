"""NodeResourcesBalancedAllocation: prefers nodes whose CPU and memory are used evenly.

The score is about the change by the pod: 75 is as even as before, 100 the greatest improvement.
A pod that requests neither changes nothing and is skipped.
"""

import numpy as np

from rescheduler.model.resources import CPU, MEMORY
from rescheduler.model.snapshot import Int64s
from rescheduler.simulation.cluster.scheduler.plugins.score_plugin import MAX_SCORE, Nodes
from rescheduler.simulation.cluster.scheduler.scheduler_cache import SchedulerCache


class NodeResourcesBalancedAllocation:
    """Scores how much more even a node becomes."""

    name = "NodeResourcesBalancedAllocation"
    weight = 1

    def __init__(self, cache: SchedulerCache) -> None:
        self._cache = cache

    def score(self, template: int, nodes: Nodes) -> Int64s | None:
        snapshot = self._cache.checker.snapshot
        asked = snapshot.asked[template, [snapshot.column(CPU), snapshot.column(MEMORY)]]
        if not asked.any():
            return None
        capacity = self._cache.allocatable[:, nodes]
        used = self._cache.used()[:, nodes]
        improvement = balance(used + asked[:, None], capacity) - balance(used, capacity)
        return np.asarray(MAX_SCORE // 2 + (MAX_SCORE // 2 + improvement) // 2)


def balance(used: Int64s, capacity: Int64s) -> Int64s:
    """100 if the same share of both resources is used, 50 if all of one and none of the other.

    A node that has only one of them is even.
    """
    shares = np.minimum(used / np.maximum(capacity, 1), 1)
    deviation = np.abs((shares[0] - shares[1]) / 2)
    deviation[(capacity == 0).any(axis=0)] = 0
    return np.asarray(((1 - deviation) * MAX_SCORE).astype(np.int64))
