"""Chooses nodes for pods as kube-scheduler's default profile does."""

from collections.abc import Iterable
from math import isnan
from random import Random

from rescheduler.model.kinds import SERVICE
from rescheduler.model.objects import Service
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.model.tables.object_table import ObjectTable
from rescheduler.simulation.cluster.scheduler.default_selectors import DefaultSelectors
from rescheduler.simulation.cluster.scheduler.node_filter import NodeFilter
from rescheduler.simulation.cluster.scheduler.node_sampling import NodeSearch, zone_interleaved
from rescheduler.simulation.cluster.scheduler.nominator import Nomination, Nominator
from rescheduler.simulation.cluster.scheduler.plugins.score_plugin import Nodes
from rescheduler.simulation.cluster.scheduler.scheduler_cache import SchedulerCache
from rescheduler.simulation.cluster.scheduler.scheduling_result import SchedulingResult
from rescheduler.simulation.cluster.scheduler.scoring import Scoring


class SimulatedScheduler:
    """Chooses nodes for pending pods. The caller keeps the tables up to date and binds."""

    def __init__(self, tables: ClusterTables, seed: int) -> None:
        self._tables = tables
        self.services: ObjectTable[Service] = tables.selector_table(SERVICE)
        """Filled by the caller: the cluster's tables have no Services."""
        self._random = Random(seed)
        self._search = NodeSearch()
        self._cache = SchedulerCache(tables)
        self.nominator = Nominator()
        """Filled by the caller."""
        self._filter = NodeFilter(tables, self._cache, self.nominator)
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
        nomination = self.nominator.of(key)
        if nomination is None and template in self._unschedulable:
            return SchedulingResult(key, reason=self._unschedulable[template])
        node = self._find_node(key, template, nomination)
        if node is None:
            return self._refuse(key, template, nomination)
        self._cache.place(row, template, node)
        # Pod affinity of other templates may be satisfied now.
        self._unschedulable.clear()
        return SchedulingResult(key, self._cache.checker.snapshot.nodes.names[node])

    def _find_node(self, key: str, template: int, nomination: Nomination | None) -> int | None:
        """The nominated node if it accepts the pod, else the best of all nodes."""
        accepted = self._filter.refusals(key, template) == 0
        if nomination is not None:
            nominated = self._cache.checker.snapshot.nodes.index.get(nomination.node)
            if nominated is not None and accepted[nominated]:
                return nominated
        nodes = self._search.nodes(accepted, self._order)
        return self._choose(template, nodes) if len(nodes) else None

    def _refuse(self, key: str, template: int, nomination: Nomination | None) -> SchedulingResult:
        reason = self._filter.message(key, template)
        if nomination is None:
            self._unschedulable[template] = reason
            return SchedulingResult(key, reason=reason)
        if nomination.outlasts_refusals and len(self._order):
            return SchedulingResult(key, reason=reason)
        self.nominator.remove(key)
        # Its room is free for others now.
        self._unschedulable.clear()
        return SchedulingResult(key, reason=reason, loses_nomination=True)

    def _choose(self, template: int, nodes: Nodes) -> int:
        if len(nodes) == 1:
            return int(nodes[0])
        scores = self._scoring.total(template, nodes)
        best: list[int] = nodes[scores == scores.max()].tolist()
        return self._random.choice(best)
