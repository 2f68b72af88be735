"""TaintToleration: the fewer PreferNoSchedule taints a pod does not tolerate, the better."""

import numpy as np

from rescheduler.model.objects import Taint, Toleration
from rescheduler.model.snapshot import Amounts
from rescheduler.planning.feasibility.filter_plugin import key_of, tolerates
from rescheduler.simulation.cluster.scheduler.plugins.score_plugin import (
    Nodes,
    default_normalize_score,
)
from rescheduler.simulation.cluster.scheduler.scheduler_cache import SchedulerCache

_WISH = "PreferNoSchedule"


class TaintToleration:
    """Prefers nodes whose taints the pod tolerates."""

    name = "TaintToleration"
    weight = 3

    def __init__(self, cluster: SchedulerCache) -> None:
        self._cluster = cluster
        self._look()

    def _look(self) -> None:
        self._looks = self._cluster.looks
        nodes = self._cluster.checker.snapshot.nodes.objects
        self._taints = [
            tuple(taint for taint in node.spec.taints if taint.effect == _WISH) for node in nodes
        ]
        self._untolerated: dict[bytes, Amounts] = {}

    def points(self, template: int, nodes: Nodes) -> Amounts:
        if self._cluster.looks != self._looks:
            self._look()
        tolerations = self._cluster.templates[template].tolerations
        key = key_of(*tolerations)
        counts = self._untolerated.get(key)
        if counts is None:
            counts = np.array([_untolerated(tolerations, each) for each in self._taints], np.int64)
            self._untolerated[key] = counts
        return default_normalize_score(counts[nodes], reverse=True)


def _untolerated(tolerations: tuple[Toleration, ...], taints: tuple[Taint, ...]) -> int:
    return sum(
        not any(tolerates(each, taint.key, taint.value, taint.effect) for each in tolerations)
        for taint in taints
    )
