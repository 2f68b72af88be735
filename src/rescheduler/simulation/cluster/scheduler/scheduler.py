"""Chooses nodes for pods as kube-scheduler's default profile does."""

from collections.abc import Iterable
from math import isnan
from random import Random

from rescheduler.model.kinds import SERVICE
from rescheduler.model.objects import Service
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.model.tables.object_table import ObjectTable
from rescheduler.simulation.cluster.scheduler.default_selectors import DefaultSelectors
from rescheduler.simulation.cluster.scheduler.fit_error import fit_error_message
from rescheduler.simulation.cluster.scheduler.node_sampling import NodeSearch, zone_interleaved
from rescheduler.simulation.cluster.scheduler.plugins.score_plugin import Nodes
from rescheduler.simulation.cluster.scheduler.scheduler_cache import SchedulerCache
from rescheduler.simulation.cluster.scheduler.scheduling_result import SchedulingResult
from rescheduler.simulation.cluster.scheduler.scoring import Scoring


class SimulatedScheduler:
    """Chooses nodes for pending pods. The caller keeps the tables up to date and binds."""

    def __init__(self, tables: ClusterTables, seed: int) -> None:
        self._tables = tables
        self.services: ObjectTable[Service] = ObjectTable(SERVICE)
        """Filled by the caller: the cluster's tables have no Services."""
        self._random = Random(seed)
        self._search = NodeSearch()
        self._cache = SchedulerCache(tables)
        self._unschedulable: dict[int, str] = {}
        """By template: why no node accepts it, for other pending pods of the same template."""
        self._prepare()

    def schedule(self, pending: list[str]) -> list[SchedulingResult]:
        """A result for each of these pods, in the order in which they were scheduled.

        Until the tables show a binding, the pod is counted on its node. Pods that are not in the
        tables, or have a node there, are left out.
        """
        rebuilds = self._cache.rebuilds
        self._cache.catch_up()
        if self._cache.rebuilds != rebuilds:
            self._prepare()
        self._unschedulable.clear()
        return [self._schedule(row, key) for row, key in self._in_order(pending)]

    def _prepare(self) -> None:
        """Rebuild what depends on the nodes of the cache."""
        self._order = zone_interleaved(self._cache.checker.snapshot.nodes.objects)
        self._scoring = Scoring(self._cache, DefaultSelectors(self._tables, self.services))

    def _in_order(self, pending: Iterable[str]) -> list[tuple[int, str]]:
        """Rows and keys by priority, then by age; of the same age, in the order given."""
        pending_rows = [
            (row, key)
            for key in pending
            if (row := self._tables.pods.row_of(key)) is not None and self._cache.is_pending(row)
        ]
        return sorted(pending_rows, key=lambda pod: self._queue_order(pod[0]))

    def _queue_order(self, row: int) -> tuple[int, float]:
        priority = self._cache.templates[self._cache.template_of(row)].priority
        created = self._tables.pods.created(row)
        return -priority, 0 if isnan(created) else created

    def _schedule(self, row: int, key: str) -> SchedulingResult:
        template = self._cache.template_of(row)
        if template in self._unschedulable:
            return SchedulingResult(key, reason=self._unschedulable[template])
        checker = self._cache.checker
        nodes = self._search.nodes(checker.accepted(template), self._order)
        if not len(nodes):
            self._unschedulable[template] = fit_error_message(checker, template)
            return SchedulingResult(key, reason=self._unschedulable[template])
        node = self._choose(template, nodes)
        self._cache.place(row, template, node)
        # Pod affinity of other templates may be satisfied now.
        self._unschedulable.clear()
        return SchedulingResult(key, checker.snapshot.nodes.names[node])

    def _choose(self, template: int, nodes: Nodes) -> int:
        if len(nodes) == 1:
            return int(nodes[0])
        scores = self._scoring.total(template, nodes)
        best: list[int] = nodes[scores == scores.max()].tolist()
        return self._random.choice(best)
