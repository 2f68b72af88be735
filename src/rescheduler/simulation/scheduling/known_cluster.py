"""The cluster as the scheduler counts it, kept in step with the tables.

A scheduler is asked thousands of times a day about a cluster that hardly changes in between, and
a snapshot with a new judge costs tens of milliseconds. So what was counted is kept. Each time,
the rows of the pod table are compared with what they were: where a row differs, its old pod is
taken away and its new one is added. Templates that appear are added. Only when nodes, namespaces
or volumes change does everything start over.
"""

from typing import Any

import numpy as np

from rescheduler.model import kinds
from rescheduler.model.cluster import ClusterTables
from rescheduler.model.resources import CPU, MEMORY
from rescheduler.model.snapshot import FAILED, NO_NODE, SUCCEEDED, UNKNOWN_NODE, Amounts
from rescheduler.model.tables import DELETING, PodRows
from rescheduler.model.templates import PooledTemplate, Template
from rescheduler.planning.feasibility.judge import Judge
from rescheduler.simulation.scheduling.nonzero_requests import nonzero_asked, nonzero_held
from rescheduler.simulation.scheduling.pod_counts import PodCounts
from rescheduler.simulation.scheduling.template_index import TemplateIndex

_STORAGE = (
    kinds.VOLUME,
    kinds.CLAIM,
    kinds.STORAGE_CLASS,
    kinds.CSI_NODE,
    kinds.CSI_DRIVER,
)
_UNUSED_TEMPLATES = 1_000
"""So many templates without pods are carried along before everything starts over."""

_NOWHERE = -1


class KnownCluster:
    """Pods, counted by template and node; and the judge that goes by these counts."""

    def __init__(self, tables: ClusterTables) -> None:
        self._tables = tables
        self._seen_changes: list[int] = []
        self._seen_nodes: list[Any] = []
        self._seen_namespaces: dict[str, Any] = {}
        self._known: Amounts = np.empty(0, np.int64)
        self.starts = 0
        """How often everything was counted from the beginning."""
        self._start_over()

    def catch_up(self) -> None:
        """Count what has changed in the tables since they were last looked at."""
        if self._surroundings_have_changed() or not self._learn_templates():
            self._start_over()
            return
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
        return int(self._number_in_pool[self._tables.pods.template_number(row)])

    @property
    def templates(self) -> tuple[Template, ...]:
        """All templates by number."""
        return self.judge.snapshot.templates

    def used(self) -> Amounts:
        """CPU and memory that pods take up, a row for each, a column per node."""
        columns = self._columns
        allocatable: Amounts = self.judge.snapshot.nodes.allocatable.T[columns]
        return np.asarray(allocatable - self.judge.resources.free[columns])

    # ------------------------------------------------------------ from the beginning

    def _start_over(self) -> None:
        self.starts += 1
        self._note_surroundings()
        snapshot = self._tables.snapshot()
        self._nodes = max(len(snapshot.nodes), 1)
        self._columns = [snapshot.column(CPU), snapshot.column(MEMORY)]
        self.allocatable: Amounts = snapshot.nodes.allocatable.T[self._columns]
        self.counts = PodCounts(self._nodes, len(snapshot.templates))
        self.judge = Judge(snapshot, self.counts)
        self.nonzero_used: Amounts = np.zeros((2, self._nodes), np.int64)
        """CPU and memory that pods are taken to use, a row for each, a column per node."""
        self._know_all_templates()
        self._node_index: list[int] = []
        self._known = self._places(self._tables.pods.rows())
        self._count_all()

    def _know_all_templates(self) -> None:
        pool = self._tables.pods.pool
        number_of = {id(each): number for number, each in enumerate(self.templates)}
        pooled: list[PooledTemplate | None] = [None] * len(self.templates)
        self._number_of: dict[bytes, int] = {}
        for digest, in_pool in pool.numbers():
            number = number_of[id(pool[in_pool].template)]
            self._number_of[digest] = number
            pooled[number] = pool[in_pool]
        self.index = TemplateIndex()
        self.nonzero_asked: list[Amounts] = []
        """CPU and memory that a new pod of each template is taken to use."""
        self._nonzero_held: list[Amounts] = []
        for each in pooled:
            assert each is not None, "a template that no pod uses"
            self._learn(each)
        self._map_pool()

    def _count_all(self) -> None:
        places, counts = np.unique(self._known[self._known >= 0], return_counts=True)
        for place, count in zip(places.tolist(), counts.tolist(), strict=True):
            template, node, terminating = self._meaning_of(place)
            self.counts.add(template, node, count, terminating)
            self.nonzero_used[:, node] += self._nonzero_held[template] * count

    # ------------------------------------------------------------ step by step

    def _surroundings_have_changed(self) -> bool:
        """Whether anything but pods is different in a way that matters for placing them.

        Nodes report in every few seconds, so it takes more than a change of their version.
        """
        changes = self._changes()
        if changes == self._seen_changes:
            return False
        is_other_storage = changes[2:] != self._seen_changes[2:]
        self._seen_changes = changes
        return (
            is_other_storage
            or self._what_matters_of_nodes() != self._seen_nodes
            or self._labels_of_namespaces() != self._seen_namespaces
        )

    def _note_surroundings(self) -> None:
        self._seen_changes = self._changes()
        self._seen_nodes = self._what_matters_of_nodes()
        self._seen_namespaces = self._labels_of_namespaces()

    def _changes(self) -> list[int]:
        watched = (kinds.NODE, kinds.NAMESPACE, *_STORAGE)
        return [self._tables.of(kind).changes for kind in watched]

    def _what_matters_of_nodes(self) -> list[Any]:
        return [
            (
                name,
                node.metadata.labels,
                node.spec,
                node.status.allocatable,
                node.status.declared_features,
            )
            for name, node in self._tables.nodes.by_key().items()
        ]

    def _labels_of_namespaces(self) -> dict[str, Any]:
        namespaces = self._tables.of(kinds.NAMESPACE).by_key()
        return {name: each.metadata.labels for name, each in namespaces.items()}

    def _learn_templates(self) -> bool:
        """Take in new templates; False if that takes a new judge."""
        pool = self._tables.pods.pool
        if pool.added == self._seen_in_pool:
            return True
        resources = set(self.judge.snapshot.resources)
        new = [
            (digest, pool[number])
            for digest, number in pool.numbers()
            if digest not in self._number_of
        ]
        is_crowded = len(self.templates) + len(new) > 2 * len(pool) + _UNUSED_TEMPLATES
        if is_crowded or any(not resources.issuperset(each.asked) for _, each in new):
            return False
        for digest, each in new:
            self._number_of[digest] = len(self._number_of)
            self.counts.add_template()
            self._learn(each)
        if new:
            self.judge.add_templates([each for _, each in new])
        self._map_pool()
        return True

    def _learn(self, pooled: PooledTemplate) -> None:
        self.index.add(pooled.template)
        self.nonzero_asked.append(nonzero_asked(pooled))
        self._nonzero_held.append(nonzero_held(pooled))

    def _map_pool(self) -> None:
        """The pool reuses the numbers of templates that are gone; ours are never reused."""
        pool = self._tables.pods.pool
        self._seen_in_pool = pool.added
        numbers = np.array([number for _, number in pool.numbers()], np.int64)
        self._number_in_pool = np.full(numbers.max(initial=-1) + 2, -1, np.int64)
        self._number_in_pool[numbers] = [self._number_of[digest] for digest, _ in pool.numbers()]

    def _places(self, rows: PodRows) -> Amounts:
        """What each row of the table counts as: template, node and state in one number."""
        node = self._indices_of_nodes()[rows.node] if len(rows.node) else rows.node
        finished = (rows.phase == SUCCEEDED) | (rows.phase == FAILED)
        template = self._number_in_pool[rows.template]
        places = (template * self._nodes + node) * 2 + ((rows.flags & DELETING) != 0)
        return np.where((rows.template >= 0) & (node >= 0) & ~finished, places, _NOWHERE)

    def _indices_of_nodes(self) -> "np.ndarray[Any, Any]":
        names = self._tables.pods.node_names
        index = self.judge.snapshot.nodes.index
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
        self.nonzero_used[:, node] += self._nonzero_held[template] * count
        self.judge.count(template, node, count, terminating)
