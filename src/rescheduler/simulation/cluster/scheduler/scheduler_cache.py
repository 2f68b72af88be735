"""The cluster as the scheduler counts it, kept in step with the tables.

A scheduler is asked thousands of times a day about a cluster that hardly changes in between, and
a snapshot with a new checker costs tens of milliseconds. So what was counted is kept. Each time,
the rows of the pod table are compared with what they were: where a row differs, its old pod is
taken away and its new one is added. Templates that appear are added, and the checker is told of new
taints. Only when nodes come and go, or namespaces and volumes change, does everything start over.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rescheduler.model.pod_templates import PodTemplate
from rescheduler.model.resources import CPU, MEMORY
from rescheduler.model.snapshot import FAILED, NO_NODE, SUCCEEDED, UNKNOWN_NODE, Amounts
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

_UNUSED_TEMPLATES = 1_000
"""So many templates without pods are carried along before everything starts over."""

_NOWHERE = -1


class SchedulerCache:
    """Pods, counted by template and node; and the checker that goes by these counts."""

    def __init__(self, tables: ClusterTables) -> None:
        self._tables = tables
        self._surroundings = CacheInvalidation(tables)
        self._known: Amounts = np.empty(0, np.int64)
        self._uses: Mapping[bytes, ScoredRequests] = {}
        self.starts = 0
        """How often everything was counted from the beginning."""
        self.looks = 0
        """How often the taints of nodes were looked at."""
        self._start_over()

    def catch_up(self) -> None:
        """Count what has changed in the tables since they were last looked at."""
        news = self._surroundings.news()
        if news is Invalidated.MORE or not self._learn_templates():
            self._start_over()
            return
        if news is Invalidated.TAINTS:
            self._see_taints()
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

    def is_waiting(self, row: int) -> bool:
        """Whether the pod in this row counts on no node yet."""
        return bool(self._known[row] == _NOWHERE)

    def template_of(self, row: int) -> int:
        """The number of the template of the pod in this row."""
        return int(self.known_templates.number_in_pool[self._tables.pods.template_number(row)])

    @property
    def templates(self) -> tuple[PodTemplate, ...]:
        """All templates by number."""
        return self.checker.snapshot.templates

    def used(self) -> Amounts:
        """CPU and memory that pods take up, a row for each, a column per node."""
        return np.asarray(self.allocatable - self.checker.resources.free[self._columns])

    # ------------------------------------------------------------ from the beginning

    def _start_over(self) -> None:
        snapshot = self._tables.snapshot()
        self._nodes = max(len(snapshot.nodes), 1)
        self._columns = [snapshot.column(CPU), snapshot.column(MEMORY)]
        self.allocatable: Amounts = snapshot.nodes.allocatable.T[self._columns]
        """CPU and memory that nodes have, a row for each, a column per node."""
        self.counts = PodsPerNode(self._nodes, len(snapshot.templates))
        self.checker = FeasibilityChecker(snapshot, self.counts)
        pool = self._tables.pods.pool
        self.known_templates = CachedTemplates(pool, snapshot.templates, self._uses)
        self._uses = self.known_templates.uses_by_digest
        self._node_index: list[int] = []
        self._known = self._places(self._tables.pods.rows())
        self._count_all()
        self.starts += 1
        self.looks += 1

    def _count_all(self) -> None:
        places, counts = np.unique(self._known[self._known >= 0], return_counts=True)
        for place, count in zip(places.tolist(), counts.tolist(), strict=True):
            of_template, on_node, terminating = self._meaning_of(place)
            self.counts.add(of_template, on_node, count, terminating)
        held = np.array([use.held for use in self.known_templates.uses], np.int64).reshape(-1, 2)
        template, node = np.divmod(places // 2, self._nodes)
        total = np.zeros((self._nodes, 2), np.int64)
        np.add.at(total, node, held[template] * counts[:, None])
        self.nonzero_used: Amounts = np.ascontiguousarray(total.T)
        """CPU and memory that pods are taken to use, a row for each, a column per node."""

    # ------------------------------------------------------------ step by step

    def _see_taints(self) -> None:
        objects = tuple(self._tables.nodes.by_key().values())
        cordoned = np.array([node.spec.unschedulable for node in objects], bool)
        known = self.checker.snapshot.nodes
        self.checker.see_taints(replace(known, objects=objects, unschedulable=cordoned))
        self.looks += 1

    def _learn_templates(self) -> bool:
        """Take in new templates; False if that takes a new checker."""
        known = self.known_templates
        newcomers = known.newcomers()
        resources = set(self.checker.snapshot.resources)
        most = 2 * len(self._tables.pods.pool) + _UNUSED_TEMPLATES
        if len(known.uses) + len(newcomers) > most:
            return False
        if not all(resources.issuperset(each.asked) for each in newcomers.values()):
            return False
        known.add(newcomers)
        for _ in newcomers:
            self.counts.add_template()
        if newcomers:
            self.checker.add_templates(list(newcomers.values()))
        return True

    def _places(self, rows: PodRows) -> Amounts:
        """What each row of the table counts as: template, node and state in one number."""
        if not len(rows.node):
            return np.empty(0, np.int64)
        node = self._indices_of_nodes()[rows.node]
        finished = (rows.phase == SUCCEEDED) | (rows.phase == FAILED)
        template = self.known_templates.number_in_pool[rows.template]
        places = (template * self._nodes + node) * 2 + ((rows.flags & DELETING) != 0)
        return np.where((rows.template >= 0) & (node >= 0) & ~finished, places, _NOWHERE)

    def _indices_of_nodes(self) -> "np.ndarray[Any, Any]":
        names = self._tables.pods.node_names
        index = self.checker.snapshot.nodes.index
        for name in names[len(self._node_index) :]:
            self._node_index.append(index.get(name, UNKNOWN_NODE) if name else NO_NODE)
        return np.array(self._node_index, np.int64)

    def _meaning_of(self, place: int) -> tuple[int, int, bool]:
        pair, terminating = divmod(place, 2)
        template, node = divmod(pair, self._nodes)
        return template, node, bool(terminating)

    def _count(self, place: int, count: int) -> None:
        if place == _NOWHERE:
            return
        template, node, terminating = self._meaning_of(place)
        self.counts.add(template, node, count, terminating)
        self.nonzero_used[:, node] += self.known_templates.uses[template].held * count
        self.checker.count(template, node, count, terminating)
