"""The table of pods, in columns: there are far more of them than of anything else."""

from array import array
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from rescheduler.model.kinds import POD
from rescheduler.model.move_labels import MoveLabels
from rescheduler.model.numbering import Numbering
from rescheduler.model.objects import Pod
from rescheduler.model.pod_templates import PooledTemplate, TemplatePool
from rescheduler.model.snapshot import (
    FAILED,
    NO_NODE,
    PHASES,
    SUCCEEDED,
    UNKNOWN_NODE,
    Int64s,
    PodColumns,
)
from rescheduler.model.tables.node_sums import NodeSums
from rescheduler.model.tables.table import TableBase

READY, DELETING, GATED = 1, 2, 4
FINISHED = (SUCCEEDED, FAILED)
_NEVER = float("nan")
_UNUSED = -1
_PHASE_NUMBER = {phase: number for number, phase in enumerate(PHASES)}


class PodRows(NamedTuple):
    """Pods in the table's own rows and numbers, which stay the same while a pod changes."""

    template: "np.ndarray[Any, Any]"
    """The template's number in the pool; negative where there is no pod."""
    node: "np.ndarray[Any, Any]"
    """The node's number; that of the empty name if there is none yet."""
    nominated: "np.ndarray[Any, Any]"
    """The number of the node that a pod without one is nominated to, in the same way."""
    phase: "np.ndarray[Any, Any]"
    flags: "np.ndarray[Any, Any]"


class PodTable(TableBase[Pod]):
    """Pods as rows of numbers: about 300 bytes each, most of it their names."""

    kind = POD

    def __init__(self, node_numbers: Numbering[str] | None = None) -> None:
        """`node_numbers`, if given, are also kept for nodes without pods."""
        super().__init__()
        self._pool = TemplatePool()
        self._selected = self._pool.selected_labels.keys
        self._move_labels = MoveLabels()
        self._nodes: Numbering[str] = Numbering() if node_numbers is None else node_numbers
        self._no_node = self._nodes.acquire("")
        self._template = array("i")
        self._node = array("i")
        self._nominated = array("i")
        self._phase = array("b")
        self._flags = array("B")
        self._created = array("d")
        self._sums = NodeSums()
        self._added_since_sorted = 0

    def columns(self, node_index: Mapping[str, int]) -> tuple[PodColumns, list[PooledTemplate]]:
        """The pods by key, and the templates in the order in which these pods first use them.

        That order makes equal clusters give equal columns, however they came to be.
        """
        row_of = self._sorted_rows()
        rows = np.fromiter(row_of.values(), np.int64, len(row_of))
        numbers = np.frombuffer(self._template, np.int32)[rows] if len(rows) else rows
        used, first, dense = np.unique(numbers, return_index=True, return_inverse=True)
        by_first_use = np.argsort(first, kind="stable")
        rank = np.empty(len(used), np.int32)
        rank[by_first_use] = np.arange(len(used), dtype=np.int32)
        flags = _taken(self._flags, np.uint8, rows)
        node_indices = self._node_indices(node_index)
        columns = PodColumns(
            keys=tuple(row_of),
            uids=self._identity.uids.taken(rows),
            template=rank[dense.reshape(-1)],
            node=node_indices[_taken(self._node, np.int32, rows)],
            phase=_taken(self._phase, np.int8, rows),
            ready=(flags & READY) != 0,
            deleting=(flags & DELETING) != 0,
            gated=(flags & GATED) != 0,
            nominated=node_indices[_taken(self._nominated, np.int32, rows)],
            created=_taken(self._created, np.float64, rows),
            move_labels=self._move_labels.taken(rows),
        )
        return columns, [self._pool[int(number)] for number in used[by_first_use]]

    def held_by(self, key: str) -> Mapping[str, int] | None:
        """What one pod takes up, or would once it is placed; None if there is no such pod."""
        row = self._identity.row_of.get(key)
        return None if row is None else self._pool[self._template[row]].held

    def owner_uid_of(self, key: str) -> str:
        """The uid of a pod's controller; empty if it has none, or there is no such pod."""
        row = self._identity.row_of.get(key)
        owner = None if row is None else self._pool[self._template[row]].template.owner
        return "" if owner is None else owner.uid

    def is_placed(self, key: str) -> bool:
        """Whether a pod is known to be bound to any node."""
        row = self._identity.row_of.get(key)
        return row is not None and self._node[row] != self._no_node

    def node_of(self, key: str) -> str:
        """The node that a pod is known to be bound to; nothing if there is none, or no such pod."""
        row = self._identity.row_of.get(key)
        return "" if row is None else self._nodes[self._node[row]]

    def nominated_node_of(self, key: str) -> str:
        """The node that a pod without one is nominated to; nothing if there is none."""
        row = self._identity.row_of.get(key)
        return "" if row is None else self._nodes[self._nominated[row]]

    def nominations(self) -> dict[str, str]:
        """By key: pods without a node for which room is kept on one, and that node."""
        nominated = np.array(self._nominated, np.int32)
        is_finished = np.isin(np.array(self._phase, np.int8), FINISHED)
        rows = set(np.flatnonzero((nominated != self._no_node) & ~is_finished).tolist())
        if not rows:
            return {}
        row_of = self._identity.row_of
        return {
            key: self._nodes[self._nominated[row]] for key, row in row_of.items() if row in rows
        }

    def is_on(self, key: str, node: str) -> bool:
        """Whether a pod is known to be bound to a node."""
        row = self._identity.row_of.get(key)
        return row is not None and self._node[row] == self._nodes.find(node)

    def held_on(self, resource: str) -> Int64s:
        """What placed pods hold of a resource together, by the number of their node.

        Always what a snapshot would add up, but kept rather than computed. It changes with the
        table: read it, and at once.
        """
        self._sums.make_room(len(self._nodes.values))
        return self._sums.column(resource)

    def number_of_node(self, name: str) -> int:
        """The number under which the pods of a node are counted, as long as the node is there."""
        number = self._nodes.find(name)
        assert number is not None, f"node {name} is not in the table"
        return number

    def rows(self) -> PodRows:
        """All rows as they are now, for someone who follows pods without taking snapshots."""
        return PodRows(
            np.array(self._template, np.int32),
            np.array(self._node, np.int32),
            np.array(self._nominated, np.int32),
            np.array(self._phase, np.int8),
            np.array(self._flags, np.uint8),
        )

    def row_of(self, key: str) -> int | None:
        """The row of a pod, if there is such a pod."""
        return self._identity.row_of.get(key)

    def template_number(self, row: int) -> int:
        """The number in the pool of the template of the pod in this row."""
        return self._template[row]

    def created(self, row: int) -> float:
        """When the pod in this row was created, in seconds; NaN if that is not known."""
        return self._created[row]

    @property
    def pool(self) -> TemplatePool:
        """The templates of all pods."""
        return self._pool

    @property
    def node_numbers(self) -> Numbering[str]:
        """The numbers of nodes by name. The empty name has one too: pods without a node have it."""
        return self._nodes

    def follow_selected_labels(self) -> None:
        """Give templates the labels of migrations that selectors name now, and no others."""
        if self._pool.selected_labels.keys is self._selected:
            return
        self._selected = self._pool.selected_labels.keys
        for row in self._move_labels.rows():
            old = self._template[row]
            self._template[row] = self._pool.acquire_with(old, self._move_labels[row])
            self._pool.release(old)

    def _sorted_rows(self) -> dict[str, int]:
        """Rows by key, in order. Lists arrive in order, so there is seldom much to sort."""
        row_of = self._identity.row_of
        if self._added_since_sorted:
            row_of = {key: row_of[key] for key in sorted(row_of)}
            self._identity.row_of = row_of
            self._added_since_sorted = 0
        return row_of

    def _node_indices(self, node_index: Mapping[str, int]) -> "np.ndarray[Any, Any]":
        """Our node numbers as indices into the snapshot's nodes."""
        return np.array(
            [
                node_index.get(name, UNKNOWN_NODE) if name else NO_NODE
                for name in self._nodes.values
            ],
            np.int32,
        )

    def _prepare(self, obj: Pod) -> int:
        return self._pool.acquire(obj)

    def _store(self, row: int, obj: Pod, prepared: int) -> None:
        metadata, status = obj.metadata, obj.status
        node = nominated = self._no_node
        if obj.spec.node_name:
            node = self._nodes.acquire(obj.spec.node_name)
        elif status.nominated_node_name:
            nominated = self._nodes.acquire(status.nominated_node_name)
        phase = _PHASE_NUMBER.get(status.phase, 0)
        created = metadata.creation_timestamp
        seconds = created.timestamp() if created is not None else _NEVER
        if row == len(self._template):
            self._added_since_sorted += 1
            self._template.append(prepared)
            self._node.append(node)
            self._nominated.append(nominated)
            self._phase.append(phase)
            self._flags.append(_flags(obj))
            self._created.append(seconds)
        else:
            if self._template[row] == _UNUSED:
                self._added_since_sorted += 1
            else:
                self._let_go(row)
            self._template[row] = prepared
            self._node[row] = node
            self._nominated[row] = nominated
            self._phase[row] = phase
            self._flags[row] = _flags(obj)
            self._created[row] = seconds
        self._move_labels[row] = metadata.labels
        if phase not in FINISHED:
            self._sums.make_room(node + 1)
            self._sums.add(node, self._pool[prepared].held)
        self.follow_selected_labels()

    def _discard(self, row: int) -> None:
        self._let_go(row)
        self._template[row] = _UNUSED
        self._node[row] = self._nominated[row] = self._no_node
        self._move_labels[row] = {}
        self.follow_selected_labels()

    def _let_go(self, row: int) -> None:
        """Take back what the row's pod added to its node, and its use of template and names."""
        template = self._template[row]
        if self._phase[row] not in FINISHED:
            self._sums.subtract(self._node[row], self._pool[template].held)
        self._pool.release(template)
        for number in (self._node[row], self._nominated[row]):
            if number != self._no_node:
                self._nodes.release(number)


def _flags(pod: Pod) -> int:
    flags = DELETING if pod.metadata.deletion_timestamp is not None else 0
    if pod.spec.scheduling_gates:
        flags |= GATED
    for condition in pod.status.conditions:
        if condition.type == "Ready":
            return flags | READY if condition.status == "True" else flags
    return flags


def _taken(column: Any, dtype: Any, rows: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    return np.frombuffer(column, dtype)[rows] if len(rows) else np.empty(0, dtype)
