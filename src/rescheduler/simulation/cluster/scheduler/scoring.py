"""The score plugins of kube-scheduler's default profile, with their weights."""

from collections.abc import Iterator

import numpy as np

from rescheduler.model.snapshot import Int64s
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
    """Scores nodes; valid until the cache is rebuilt."""

    def __init__(self, cache: SchedulerCache, selectors: DefaultSelectors) -> None:
        self._plugins: tuple[ScorePlugin, ...] = (
            TaintToleration(cache),
            NodeAffinity(cache),
            NodeResourcesFit(cache),
            PodTopologySpread(cache, selectors),
            InterPodAffinity(cache),
            NodeResourcesBalancedAllocation(cache),
        )

    def by_plugin(self, template: int, nodes: Nodes) -> Iterator[tuple[ScorePlugin, Int64s]]:
        """The scores of each plugin that does not skip this template."""
        for plugin in self._plugins:
            scores = plugin.score(template, nodes)
            if scores is not None:
                yield plugin, scores

    def total(self, template: int, nodes: Nodes) -> Int64s:
        """The weighted sum of all plugins for each node."""
        total = np.zeros(len(nodes), np.int64)
        for plugin, scores in self.by_plugin(template, nodes):
            total += plugin.weight * scores
        return total
