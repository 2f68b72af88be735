"""TaintToleration: prefers nodes with fewer PreferNoSchedule taints that are not tolerated."""

import numpy as np

from rescheduler.model.objects import Taint, Toleration
from rescheduler.model.snapshot import Int64s
from rescheduler.planning.feasibility.filter_plugin import key_of, tolerates
from rescheduler.simulation.cluster.scheduler.plugins.score_plugin import (
    Nodes,
    default_normalize_score,
)
from rescheduler.simulation.cluster.scheduler.scheduler_cache import SchedulerCache

_SOFT = "PreferNoSchedule"


class TaintToleration:
    """Scores the taints that are not tolerated, fewer being better."""

    name = "TaintToleration"
    weight = 3

    def __init__(self, cache: SchedulerCache) -> None:
        self._cache = cache
        self._read_taints()

    def _read_taints(self) -> None:
        self._taint_version = self._cache.taint_version
        nodes = self._cache.checker.snapshot.nodes.objects
        self._taints = [
            tuple(taint for taint in node.spec.taints if taint.effect == _SOFT) for node in nodes
        ]
        self._untolerated: dict[bytes, Int64s] = {}

    def score(self, template: int, nodes: Nodes) -> Int64s:
        if self._cache.taint_version != self._taint_version:
            self._read_taints()
        tolerations = self._cache.templates[template].tolerations
        key = key_of(*tolerations)
        counts = self._untolerated.get(key)
        if counts is None:
            counts = np.array(
                [_untolerated(tolerations, taints) for taints in self._taints], np.int64
            )
            self._untolerated[key] = counts
        return default_normalize_score(counts[nodes], reverse=True)


def _untolerated(tolerations: tuple[Toleration, ...], taints: tuple[Taint, ...]) -> int:
    return sum(
        not any(
            tolerates(toleration, taint.key, taint.value, taint.effect)
            for toleration in tolerations
        )
        for taint in taints
    )
