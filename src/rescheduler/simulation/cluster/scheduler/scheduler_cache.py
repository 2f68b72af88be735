"""The counts that scheduling needs, updated from the tables.

The scheduler runs thousands of times a day on a cluster that hardly changes in between, and a
snapshot with a new checker costs tens of milliseconds. So the counts are kept. Each time, the rows
of the pod table are compared with what they were: where a row differs, its old pod is subtracted
and its new one added. New templates and taints are added to the checker. Everything is rebuilt only
when nodes are added or removed, or namespaces or volumes change.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rescheduler.model.pod_templates import PodTemplate
from rescheduler.model.resources import CPU, MEMORY
from rescheduler.model.snapshot import FAILED, NO_NODE, SUCCEEDED, UNKNOWN_NODE, Int64s
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.model.tables.pod_table import DELETING, PodRows
from rescheduler.planning.feasibility.checker import FeasibilityChecker
from rescheduler.simulation.cluster.scheduler.cache_invalidation import (
    CacheInvalidation,
    Invalidated,
)
from rescheduler.simulation.cluster.scheduler.cached_templates import (
    CachedTemplates,
    ScoredRequests,
)
from rescheduler.simulation.cluster.scheduler.pods_per_node import PodsPerNode

_MAX_UNUSED_TEMPLATES = 1_000
"""With more templates without pods than these, everything is rebuilt."""

_NOWHERE = -1


class SchedulerCache:
    """Pods by template and node, and the feasibility checker that uses these counts."""

    def __init__(self, tables: ClusterTables) -> None:
        self._tables = tables
        self._invalidation = CacheInvalidation(tables)
        self._known: Int64s = np.empty(0, np.int64)
        self._requests: Mapping[bytes, ScoredRequests] = {}
        self.rebuilds = 0
        """How often everything was rebuilt."""
        self.taint_version = 0
        """Changes when the taints of nodes were read again."""
        self._rebuild()

    def catch_up(self) -> None:
        """Count what has changed in the tables since the last call."""
        invalidated = self._invalidation.since_last_call()
        if invalidated is Invalidated.EVERYTHING or not self._add_templates():
            self._rebuild()
            return
        if invalidated is Invalidated.TAINTS:
            self._update_taints()
        places = self._places(self._tables.pods.rows())
        known = np.full(len(places), _NOWHERE, np.int64)
        known[: len(self._known)] = self._known
        for row in np.flatnonzero(places != known).tolist():
            self._count(int(known[row]), -1)
            self._count(int(places[row]), 1)
        self._known = places

    def place(self, row: int, template: int, node: int) -> None:
        """Count a pod on its node before the tables show it there."""
        place = (template * self._nodes + node) * 2
        self._count(place, 1)
        self._known[row] = place

    def count_in_filters(self, template: int, node: int, count: int) -> None:
        """Let filters count pods of a template on a node, or no longer if `count` is negative.

        Scores do not count them. The caller takes back what it added.
        """
        self.counts.add(template, node, count, terminating=False)
        self.checker.count_pods(template, node, count, terminating=False)

    def is_pending(self, row: int) -> bool:
        """Whether the pod in this row is not counted on a node."""
        return bool(self._known[row] == _NOWHERE)

    def template_of(self, row: int) -> int:
        """The number of the template of the pod in this row."""
        return int(self.cached_templates.number_in_pool[self._tables.pods.template_number(row)])

    @property
    def templates(self) -> tuple[PodTemplate, ...]:
        """All templates, in the order of their numbers."""
        return self.checker.snapshot.templates

    def used(self) -> Int64s:
        """CPU and memory that pods request: a row for each, a column per node."""
        return np.asarray(self.allocatable - self.checker.resources.free[self._columns])

    # ------------------------------------------------------------ rebuild

    def _rebuild(self) -> None:
        snapshot = self._tables.snapshot()
        self._nodes = max(len(snapshot.nodes), 1)
        self._columns = [snapshot.column(CPU), snapshot.column(MEMORY)]
        self.allocatable: Int64s = snapshot.nodes.allocatable.T[self._columns]
        """CPU and memory of nodes: a row for each, a column per node."""
        self.counts = PodsPerNode(self._nodes, len(snapshot.templates))
        self.checker = FeasibilityChecker(snapshot, self.counts)
        pool = self._tables.pods.pool
        self.cached_templates = CachedTemplates(pool, snapshot.templates, self._requests)
        self._requests = self.cached_templates.requests_by_digest
        self._names_added = -1
        self._known = self._places(self._tables.pods.rows())
        self._count_all()
        self.rebuilds += 1
        self.taint_version += 1

    def _count_all(self) -> None:
        places, counts = np.unique(self._known[self._known >= 0], return_counts=True)
        for place, count in zip(places.tolist(), counts.tolist(), strict=True):
            of_template, on_node, terminating = self._meaning_of(place)
            self.counts.add(of_template, on_node, count, terminating)
        held = np.array(
            [requests.held for requests in self.cached_templates.requests], np.int64
        ).reshape(-1, 2)
        template, node = np.divmod(places // 2, self._nodes)
        total = np.zeros((self._nodes, 2), np.int64)
        np.add.at(total, node, held[template] * counts[:, None])
        self.nonzero_used: Int64s = np.ascontiguousarray(total.T)
        """CPU and memory that pods count for in scores: a row for each, a column per node."""

    # ------------------------------------------------------------ update

    def _update_taints(self) -> None:
        objects = tuple(self._tables.nodes.by_key().values())
        cordoned = np.array([node.spec.unschedulable for node in objects], bool)
        known = self.checker.snapshot.nodes
        self.checker.update_taints(replace(known, objects=objects, unschedulable=cordoned))
        self.taint_version += 1

    def _add_templates(self) -> bool:
        """Add new templates; False if that needs a new checker."""
        known = self.cached_templates
        new = known.new_templates()
        resources = set(self.checker.snapshot.resources)
        most = 2 * len(self._tables.pods.pool) + _MAX_UNUSED_TEMPLATES
        if len(known.requests) + len(new) > most:
            return False
        if not all(resources.issuperset(pooled.asked) for pooled in new.values()):
            return False
        known.add(new)
        for _ in new:
            self.counts.add_template()
        if new:
            self.checker.add_templates(list(new.values()))
        return True

    def _places(self, rows: PodRows) -> Int64s:
        """What each row of the table counts as: template, node and state in one number."""
        if not len(rows.node):
            return np.empty(0, np.int64)
        node = self._indices_of_nodes()[rows.node]
        finished = (rows.phase == SUCCEEDED) | (rows.phase == FAILED)
        template = self.cached_templates.number_in_pool[rows.template]
        places = (template * self._nodes + node) * 2 + ((rows.flags & DELETING) != 0)
        return np.where((rows.template >= 0) & (node >= 0) & ~finished, places, _NOWHERE)

    def _indices_of_nodes(self) -> "np.ndarray[Any, Any]":
        """By the numbers that pods give for their nodes."""
        numbers = self._tables.pods.node_numbers
        if numbers.added != self._names_added:
            self._names_added = numbers.added
            index = self.checker.snapshot.nodes.index
            self._node_index = np.array(
                [index.get(name, UNKNOWN_NODE) if name else NO_NODE for name in numbers.values],
                np.int64,
            )
        return self._node_index

    def _meaning_of(self, place: int) -> tuple[int, int, bool]:
        pair, terminating = divmod(place, 2)
        template, node = divmod(pair, self._nodes)
        return template, node, bool(terminating)

    def _count(self, place: int, count: int) -> None:
        if place == _NOWHERE:
            return
        template, node, terminating = self._meaning_of(place)
        self.counts.add(template, node, count, terminating)
        self.nonzero_used[:, node] += self.cached_templates.requests[template].held * count
        self.checker.count_pods(template, node, count, terminating)
