"""All score plugins of kube-scheduler's default profile together."""

from collections.abc import Iterator

import numpy as np

from rescheduler.model.snapshot import Amounts
from rescheduler.simulation.cluster.scheduler.default_selectors import DefaultSelectors
from rescheduler.simulation.cluster.scheduler.plugins.inter_pod_affinity import (
    InterPodAffinity,
)
from rescheduler.simulation.cluster.scheduler.plugins.node_affinity import NodeAffinity
from rescheduler.simulation.cluster.scheduler.plugins.node_resources_balanced_allocation import (
    NodeResourcesBalancedAllocation,
)
from rescheduler.simulation.cluster.scheduler.plugins.node_resources_fit import (
    NodeResourcesFit,
)
from rescheduler.simulation.cluster.scheduler.plugins.pod_topology_spread import (
    PodTopologySpread,
)
from rescheduler.simulation.cluster.scheduler.plugins.score_plugin import Nodes, ScorePlugin
from rescheduler.simulation.cluster.scheduler.plugins.taint_toleration import TaintToleration
from rescheduler.simulation.cluster.scheduler.scheduler_cache import SchedulerCache


class Scoring:
    """What the plugins say of nodes, for as long as the cluster does not start over."""

    def __init__(self, cluster: SchedulerCache, groups: DefaultSelectors) -> None:
        self._plugins: tuple[ScorePlugin, ...] = (
            TaintToleration(cluster),
            NodeAffinity(cluster),
            NodeResourcesFit(cluster),
            PodTopologySpread(cluster, groups),
            InterPodAffinity(cluster),
            NodeResourcesBalancedAllocation(cluster),
        )

    def points(self, template: int, nodes: Nodes) -> Iterator[tuple[ScorePlugin, Amounts]]:
        """The points of each plugin that has something to say of these nodes, one at least."""
        for plugin in self._plugins:
            points = plugin.points(template, nodes)
            if points is not None:
                yield plugin, points

    def total(self, template: int, nodes: Nodes) -> Amounts:
        """The score of each of the nodes."""
        total = np.zeros(len(nodes), np.int64)
        for plugin, points in self.points(template, nodes):
            total += plugin.weight * points
        return total
