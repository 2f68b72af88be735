"""NodeAffinity: nodes that match preferred terms of greater weight are better."""

import numpy as np

from rescheduler.model.objects import PreferredNodeTerm
from rescheduler.model.pod_templates import PodTemplate
from rescheduler.model.snapshot import Amounts
from rescheduler.planning.feasibility.filter_plugin import key_of
from rescheduler.simulation.cluster.scheduler.plugins.score_plugin import (
    Nodes,
    default_normalize_score,
)
from rescheduler.simulation.cluster.scheduler.scheduler_cache import SchedulerCache


class NodeAffinity:
    """Prefers nodes that the pod says it would like."""

    name = "NodeAffinity"
    weight = 2

    def __init__(self, cluster: SchedulerCache) -> None:
        self._cluster = cluster
        self._liked: dict[bytes, Amounts] = {}

    def points(self, template: int, nodes: Nodes) -> Amounts | None:
        preferred = preferred_nodes(self._cluster.templates[template])
        if not preferred:
            return None
        key = key_of(*preferred)
        liked = self._liked.get(key)
        if liked is None:
            labels = self._cluster.checker.view.node_labels
            liked = self._liked[key] = np.zeros(len(labels), np.int64)
            for term in preferred:
                liked += term.weight * labels.matching_any([term.preference])
        return default_normalize_score(liked[nodes])


def preferred_nodes(template: PodTemplate) -> tuple[PreferredNodeTerm, ...]:
    """What the template's pods say about nodes they would like."""
    if template.affinity is None or template.affinity.node_affinity is None:
        return ()
    return template.affinity.node_affinity.preferred
