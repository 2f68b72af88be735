"""Places pods as kube-scheduler's default profile would."""

from collections.abc import Iterable
from math import isnan
from random import Random

from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.model.tables.object_table import ObjectTable
from rescheduler.simulation.cluster.scheduler.default_selectors import (
    SERVICE,
    DefaultSelectors,
    Service,
)
from rescheduler.simulation.cluster.scheduler.fit_error import fit_error_message
from rescheduler.simulation.cluster.scheduler.node_sampling import NodeSearch, zone_interleaved
from rescheduler.simulation.cluster.scheduler.plugins.score_plugin import Nodes
from rescheduler.simulation.cluster.scheduler.scheduler_cache import SchedulerCache
from rescheduler.simulation.cluster.scheduler.scheduling_result import SchedulingResult
from rescheduler.simulation.cluster.scheduler.scoring import Scoring


class SimulatedScheduler:
    """Chooses nodes for pods that wait. The tables are the caller's, and so is binding."""

    def __init__(self, tables: ClusterTables, seed: int) -> None:
        self._tables = tables
        self.services: ObjectTable[Service] = ObjectTable(SERVICE)
        """The caller puts Services here; the cluster's tables have no place for them."""
        self._random = Random(seed)
        self._search = NodeSearch()
        self._cluster = SchedulerCache(tables)
        self._refused: dict[int, str] = {}
        """Why templates have no node, until something changes: many of their pods may wait."""
        self._prepare()

    def schedule(self, pending: list[str]) -> list[SchedulingResult]:
        """Where each of these pods goes, in the order in which they are decided.

        The caller binds them; until the tables show it, they are counted where they were put.
        Pods that are not in the tables, or have a node there, are left out.
        """
        starts = self._cluster.starts
        self._cluster.catch_up()
        if self._cluster.starts != starts:
            self._prepare()
        self._refused.clear()
        return [self._place(row, key) for row, key in self._in_order(pending)]

    def _prepare(self) -> None:
        """What is known of nodes is known for as long as they stay the same."""
        self._order = zone_interleaved(self._cluster.checker.snapshot.nodes.objects)
        self._scoring = Scoring(self._cluster, DefaultSelectors(self._tables, self.services))

    def _in_order(self, pending: Iterable[str]) -> list[tuple[int, str]]:
        """Rows and keys by priority, then by age; of the same age, in the order given."""
        waiting = [
            (row, key)
            for key in pending
            if (row := self._tables.pods.row_of(key)) is not None and self._cluster.is_waiting(row)
        ]
        return sorted(waiting, key=lambda pod: self._turn(pod[0]))

    def _turn(self, row: int) -> tuple[int, float]:
        priority = self._cluster.templates[self._cluster.template_of(row)].priority
        created = self._tables.pods.created(row)
        return -priority, 0 if isnan(created) else created

    def _place(self, row: int, key: str) -> SchedulingResult:
        template = self._cluster.template_of(row)
        if template in self._refused:
            return SchedulingResult(key, reason=self._refused[template])
        checker = self._cluster.checker
        nodes = self._search.nodes(checker.accepted(template), self._order)
        if not len(nodes):
            self._refused[template] = fit_error_message(checker, template)
            return SchedulingResult(key, reason=self._refused[template])
        node = self._choose(template, nodes)
        self._cluster.place(row, template, node)
        # Others may have got the company that they need.
        self._refused.clear()
        return SchedulingResult(key, checker.snapshot.nodes.names[node])

    def _choose(self, template: int, nodes: Nodes) -> int:
        if len(nodes) == 1:
            return int(nodes[0])
        scores = self._scoring.total(template, nodes)
        best: list[int] = nodes[scores == scores.max()].tolist()
        return self._random.choice(best)
