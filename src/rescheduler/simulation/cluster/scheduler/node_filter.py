"""On which nodes a pod may run while other pods are nominated to them.

A nominated pod of the same or a higher priority counts on its node as if it ran there. But it does
not run yet, and it may end up elsewhere: a node must accept the pod with the nominated pods, and
also without them.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from rescheduler.model.snapshot import Bools
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.planning.feasibility.checker import Refusals
from rescheduler.planning.feasibility.filter_plugin import FilterPlugin
from rescheduler.simulation.cluster.scheduler.fit_error import count_reasons, fit_error_message
from rescheduler.simulation.cluster.scheduler.nominator import Nominator
from rescheduler.simulation.cluster.scheduler.scheduler_cache import SchedulerCache


class ReservedRoom(NamedTuple):
    """Room that is kept for a nominated pod: its template, and the row of its node."""

    template: int
    node: int


class NodeFilter:
    """Runs the filter plugins with and without nominated pods."""

    def __init__(self, tables: ClusterTables, cache: SchedulerCache, nominator: Nominator) -> None:
        self._tables = tables
        self._cache = cache
        self._nominator = nominator

    def refusals(self, pod: str, template: int) -> Refusals:
        """Which plugin refuses each node to a pending pod."""
        refusals = self._cache.checker.refusals(template)
        for reservations in self._groups(pod, template):
            with self._counted(reservations, template) as with_them:
                np.copyto(refusals, with_them, where=with_them > 0)
        return refusals

    def message(self, pod: str, template: int) -> str:
        """Why no node accepts a pending pod."""
        checker = self._cache.checker
        reasons: Counter[str] = Counter()
        remaining = checker.refusals(template)
        for reservations in self._groups(pod, template):
            with self._counted(reservations, template) as with_them:
                reasons += count_reasons(checker, template, with_them)
            remaining[with_them > 0] = 0
        reasons += count_reasons(checker, template, remaining)
        return fit_error_message(len(remaining), reasons)

    def _groups(self, pod: str, template: int) -> list[list[ReservedRoom]]:
        """The room that a pod must leave to others, in groups that are counted together.

        On each node, only the pods that are nominated to it count. For most pods it makes no
        difference what is on other nodes, and all are counted at once.
        """
        reservations = list(self._reservations(pod, template))
        if not reservations:
            return []
        if not self._cache.checker.depends_beyond_node[template]:
            return [reservations]
        nodes = dict.fromkeys(reservation.node for reservation in reservations)
        return [[kept for kept in reservations if kept.node == node] for node in nodes]

    def _reservations(self, pod: str, template: int) -> Iterator[ReservedRoom]:
        cache = self._cache
        index = cache.checker.snapshot.nodes.index
        priority = cache.templates[template].priority
        for key, name in self._nominator.others(pod):
            row, node = self._tables.pods.row_of(key), index.get(name)
            if row is None or node is None or not cache.is_pending(row):
                continue
            other = cache.template_of(row)
            if cache.templates[other].priority >= priority:
                yield ReservedRoom(other, node)

    @contextmanager
    def _counted(self, reservations: list[ReservedRoom], template: int) -> Iterator[Refusals]:
        """Count nominated pods as if they ran; yields the refusals of their nodes."""
        affinity = self._cache.checker.inter_pod_affinity
        # It depends on running pods whether the scheduler asks this plugin at all.
        skipped = affinity if affinity.is_skipped(template) else None
        for kept in reservations:
            self._cache.count_in_filters(kept.template, kept.node, 1)
        try:
            yield self._refusals_of(reservations, template, skipped)
        finally:
            for kept in reservations:
                self._cache.count_in_filters(kept.template, kept.node, -1)

    def _refusals_of(
        self, reservations: list[ReservedRoom], template: int, skipped: FilterPlugin | None
    ) -> Refusals:
        checker = self._cache.checker
        refusals = checker.refusals(template)
        counts: Bools = np.zeros(len(refusals), bool)
        counts[[kept.node for kept in reservations]] = True
        if skipped is not None:
            counts &= refusals != checker.plugins.index(skipped) + 1
        return np.where(counts, refusals, np.int8(0))
