"""NodeAffinity: prefers nodes that match preferred terms, by weight."""

import numpy as np

from rescheduler.model.objects import PreferredNodeTerm
from rescheduler.model.pod_templates import PodTemplate
from rescheduler.model.snapshot import Int64s
from rescheduler.planning.feasibility.filter_plugin import key_of
from rescheduler.simulation.cluster.scheduler.plugins.score_plugin import (
    Nodes,
    default_normalize_score,
)
from rescheduler.simulation.cluster.scheduler.scheduler_cache import SchedulerCache


class NodeAffinity:
    """Scores the weights of the terms that a node matches."""

    name = "NodeAffinity"
    weight = 2

    def __init__(self, cache: SchedulerCache) -> None:
        self._cache = cache
        self._weights: dict[bytes, Int64s] = {}

    def score(self, template: int, nodes: Nodes) -> Int64s | None:
        preferred = preferred_nodes(self._cache.templates[template])
        if not preferred:
            return None
        key = key_of(*preferred)
        weights = self._weights.get(key)
        if weights is None:
            labels = self._cache.checker.lister.node_labels
            weights = self._weights[key] = np.zeros(len(labels), np.int64)
            for term in preferred:
                weights += term.weight * labels.matching_any([term.preference])
        return default_normalize_score(weights[nodes])


def preferred_nodes(template: PodTemplate) -> tuple[PreferredNodeTerm, ...]:
    """The preferred node affinity terms of a template."""
    if template.affinity is None or template.affinity.node_affinity is None:
        return ()
    return template.affinity.node_affinity.preferred
