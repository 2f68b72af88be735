"""NodeResourcesFit: prefers nodes that would be emptier with the pod (LeastAllocated).

The free shares of CPU and memory count the same. Pods without requests count with small defaults.
"""

import numpy as np

from rescheduler.model.snapshot import Int64s
from rescheduler.simulation.cluster.scheduler.plugins.score_plugin import MAX_SCORE, Nodes
from rescheduler.simulation.cluster.scheduler.scheduler_cache import SchedulerCache


class NodeResourcesFit:
    """Scores the free share of a node."""

    name = "NodeResourcesFit"
    weight = 1

    def __init__(self, cache: SchedulerCache) -> None:
        self._cache = cache

    def score(self, template: int, nodes: Nodes) -> Int64s:
        capacity = self._cache.allocatable[:, nodes]
        asked = self._cache.cached_templates.requests[template].asked[:, None]
        used = self._cache.nonzero_used[:, nodes] + asked
        free = np.maximum(capacity - used, 0) * MAX_SCORE // np.maximum(capacity, 1)
        # What a node does not have at all is not part of the average.
        resources = np.maximum((capacity > 0).sum(axis=0), 1)
        return np.asarray(free.sum(axis=0) // resources)
