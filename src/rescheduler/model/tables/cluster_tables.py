"""The cluster as it is known right now: a table for each kind, and snapshots of them all."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from rescheduler.model import kinds
from rescheduler.model.kinds import KINDS, Kind
from rescheduler.model.pod_templates import PooledTemplate
from rescheduler.model.resources import BASIC
from rescheduler.model.rules.node_availability import is_ready
from rescheduler.model.snapshot import Int64s, NodeColumns, Snapshot
from rescheduler.model.tables.object_table import NodeTable, ObjectTable, SelectorTable
from rescheduler.model.tables.pod_table import PodTable
from rescheduler.model.tables.table import Table

T = TypeVar("T")

_WITH_SELECTOR = (
    kinds.BUDGET,
    kinds.REPLICA_SET,
    kinds.REPLICATION_CONTROLLER,
    kinds.DEPLOYMENT,
    kinds.STATEFUL_SET,
)
"""Kinds whose objects select pods by labels, as far as we read it."""


class ClusterTables:
    """One table per kind. Files and watches fill them; `snapshot` freezes what they hold."""

    def __init__(self) -> None:
        self.nodes = NodeTable()
        self.pods = PodTable(self.nodes.numbers)
        self._others: dict[str, ObjectTable[Any]] = {
            kind.name: self.selector_table(kind) if kind in _WITH_SELECTOR else ObjectTable(kind)
            for kind in KINDS
            if kind not in (kinds.NODE, kinds.POD)
        }

    def selector_table(self, kind: Kind[T]) -> SelectorTable[T]:
        """A new table of objects that select pods, of which templates then have all that counts."""
        pods = self.pods
        return SelectorTable(kind, pods.pool.selected_labels, pods.follow_selected_labels)

    def tables(self) -> Iterable[Table[Any]]:
        """All tables, in the order in which kinds are best read: nodes before their pods."""
        return [self.of(kind) for kind in KINDS]

    def of(self, kind: Kind[Any]) -> Any:
        """The table of one kind."""
        if kind is kinds.NODE:
            return self.nodes
        if kind is kinds.POD:
            return self.pods
        return self._others[kind.name]

    @property
    def changes(self) -> int:
        """How often anything in any table has changed."""
        return sum(self.of(kind).changes for kind in KINDS)

    def snapshot(self) -> Snapshot:
        """The cluster as the tables know it at this moment."""
        nodes = self.nodes.by_key()
        allocatable = self.nodes.allocatable()
        pods, templates = self.pods.columns({name: row for row, name in enumerate(nodes)})
        asked = [template.asked for template in templates]
        held = [template.held for template in templates]
        extended = {resource for amounts in (*allocatable, *held, *asked) for resource in amounts}
        resources = (*BASIC, *sorted(extended.difference(BASIC)))
        return Snapshot(
            resources=resources,
            nodes=NodeColumns(
                names=tuple(nodes),
                objects=tuple(nodes.values()),
                allocatable=_matrix(allocatable, resources),
                unschedulable=np.array([node.spec.unschedulable for node in nodes.values()], bool),
                ready=np.array([is_ready(node) for node in nodes.values()], bool),
            ),
            pods=pods,
            templates=tuple(pooled.template for pooled in templates),
            asked=_matrix(asked, resources),
            held=_matrix(held, resources),
            namespaces=self.of(kinds.NAMESPACE).by_key(),
            budgets=self.of(kinds.BUDGET).by_key(),
            replica_sets=self.of(kinds.REPLICA_SET).by_key(),
            replication_controllers=self.of(kinds.REPLICATION_CONTROLLER).by_key(),
            deployments=self.of(kinds.DEPLOYMENT).by_key(),
            stateful_sets=self.of(kinds.STATEFUL_SET).by_key(),
            jobs=self.of(kinds.JOB).by_key(),
            volumes=self.of(kinds.VOLUME).by_key(),
            claims=self.of(kinds.CLAIM).by_key(),
            storage_classes=self.of(kinds.STORAGE_CLASS).by_key(),
            csi_nodes=self.of(kinds.CSI_NODE).by_key(),
            csi_drivers=self.of(kinds.CSI_DRIVER).by_key(),
            unreadable=tuple(
                table.unreadable[key]
                for table in map(self.of, KINDS)
                for key in sorted(table.unreadable)
            ),
        )


def with_templates(snapshot: Snapshot, added: Sequence[PooledTemplate]) -> Snapshot:
    """The same cluster with templates that none of its pods has, after those that it knows.

    They must not ask for resources that the snapshot has no column for.
    """
    resources = snapshot.resources
    return replace(
        snapshot,
        templates=(*snapshot.templates, *(pooled.template for pooled in added)),
        asked=np.vstack([snapshot.asked, _matrix([pooled.asked for pooled in added], resources)]),
        held=np.vstack([snapshot.held, _matrix([pooled.held for pooled in added], resources)]),
    )


def _matrix(rows: list[dict[str, int]], resources: tuple[str, ...]) -> Int64s:
    values = [[row.get(resource, 0) for resource in resources] for row in rows]
    return np.array(values, np.int64).reshape(len(rows), len(resources))
