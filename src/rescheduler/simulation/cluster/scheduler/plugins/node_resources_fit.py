"""NodeResourcesFit: the emptier a node would be with the pod, the better (LeastAllocated).

The share of CPU that would be free and that of memory count the same. Pods that ask for nothing
count as if they asked for a little.
"""

import numpy as np

from rescheduler.model.snapshot import Amounts
from rescheduler.simulation.cluster.scheduler.plugins.score_plugin import MAX_SCORE, Nodes
from rescheduler.simulation.cluster.scheduler.scheduler_cache import SchedulerCache


class NodeResourcesFit:
    """Prefers nodes with more left over."""

    name = "NodeResourcesFit"
    weight = 1

    def __init__(self, cluster: SchedulerCache) -> None:
        self._cluster = cluster

    def points(self, template: int, nodes: Nodes) -> Amounts:
        capacity = self._cluster.allocatable[:, nodes]
        asked = self._cluster.known_templates.uses[template].asked[:, None]
        used = self._cluster.nonzero_used[:, nodes] + asked
        free = np.maximum(capacity - used, 0) * MAX_SCORE // np.maximum(capacity, 1)
        # What a node does not have at all is not part of the average.
        resources = np.maximum((capacity > 0).sum(axis=0), 1)
        return np.asarray(free.sum(axis=0) // resources)
