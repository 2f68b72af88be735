"""Snapshot: the cluster at one moment, in columns, and the questions planning asks of it.

A snapshot never changes. Nodes and pods are rows, ordered by name, so equal clusters give equal
snapshots whether they were read from a file or watched for days. What replicas share is in their
template, once. `docs/designs/snapshot.md` says why.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from rescheduler.model.move_labels import MoveLabels
from rescheduler.model.objects import (
    CsiDriver,
    CsiNode,
    Deployment,
    Job,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    StorageClass,
)
from rescheduler.model.pod_templates import PodTemplate
from rescheduler.model.uids import Uids
from rescheduler.model.unreadable_objects import UnreadableObject

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

NO_NODE = -1
"""The pod waits to be scheduled."""
UNKNOWN_NODE = -2
"""The pod is bound to a node that is not there: it was just deleted, or is not known yet."""

PHASES = ("", "Pending", "Running", "Succeeded", "Failed", "Unknown")
RUNNING, SUCCEEDED, FAILED, UNKNOWN = (
    PHASES.index(name) for name in ("Running", "Succeeded", "Failed", "Unknown")
)


@dataclass(frozen=True, eq=False)
class PodColumns:
    """Pods ordered by key, a row each."""

    keys: tuple[str, ...]
    uids: Uids
    template: Ints
    node: Ints
    phase: npt.NDArray[np.int8]
    ready: Bools
    deleting: Bools
    gated: Bools
    """Pods that the scheduler leaves alone until all their scheduling gates are gone."""
    nominated: Ints
    """The node that the scheduler keeps room on for a pod that waits; NO_NODE if there is none."""
    created: Floats
    move_labels: MoveLabels
    """Labels that migrations have written on pods. Templates have only those that some selector in
    the cluster names."""

    def __post_init__(self) -> None:
        _freeze(self)

    def __len__(self) -> int:
        return len(self.keys)

    def find(self, key: str) -> int | None:
        """The row of a pod, or None if there is no such pod.

        By bisection, for a dict of all keys would be as large as everything else together.
        """
        row = bisect_left(self.keys, key)
        return row if row < len(self.keys) and self.keys[row] == key else None

    @cached_property
    def finished(self) -> Bools:
        """Pods that ran to their end; they take up nothing."""
        return np.isin(self.phase, (SUCCEEDED, FAILED))

    @cached_property
    def placed(self) -> Bools:
        """Pods that take up room on a node we know."""
        return np.logical_and(self.node >= 0, ~self.finished)

    @cached_property
    def pending(self) -> Bools:
        """Pods that wait for a node."""
        waiting: Bools = (self.node == NO_NODE) & ~self.finished & ~self.deleting
        return waiting

    @cached_property
    def promised(self) -> Bools:
        """Pods without a node for which room is kept on one that we know."""
        found: Bools = (self.node == NO_NODE) & (self.nominated >= 0) & ~self.finished
        return found


@dataclass(frozen=True, eq=False)
class NodeColumns:
    """Nodes ordered by name, a row each; one column of `allocatable` per resource."""

    names: tuple[str, ...]
    objects: tuple[Node, ...]
    allocatable: Int64s
    unschedulable: Bools
    ready: Bools

    def __post_init__(self) -> None:
        _freeze(self)

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def index(self) -> dict[str, int]:
        """The row of each node."""
        return {name: row for row, name in enumerate(self.names)}


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The cluster at one moment."""

    resources: tuple[str, ...]
    """Names of the columns of all amounts: CPU (millicores), memory (bytes), and so on."""
    nodes: NodeColumns
    pods: PodColumns
    templates: tuple[PodTemplate, ...]
    asked: Int64s
    """What a new pod of each template asks for."""
    held: Int64s
    """What a running pod of each template takes up; differs from `asked` during a resize."""
    namespaces: Mapping[str, Namespace] = field(default_factory=dict)
    budgets: Mapping[str, PodDisruptionBudget] = field(default_factory=dict)
    replica_sets: Mapping[str, ReplicaSet] = field(default_factory=dict)
    replication_controllers: Mapping[str, ReplicationController] = field(default_factory=dict)
    deployments: Mapping[str, Deployment] = field(default_factory=dict)
    stateful_sets: Mapping[str, StatefulSet] = field(default_factory=dict)
    jobs: Mapping[str, Job] = field(default_factory=dict)
    volumes: Mapping[str, PersistentVolume] = field(default_factory=dict)
    claims: Mapping[str, PersistentVolumeClaim] = field(default_factory=dict)
    storage_classes: Mapping[str, StorageClass] = field(default_factory=dict)
    csi_nodes: Mapping[str, CsiNode] = field(default_factory=dict)
    csi_drivers: Mapping[str, CsiDriver] = field(default_factory=dict)
    unreadable: tuple[UnreadableObject, ...] = ()
    """Objects that the server has and we cannot decode. Plans do nothing that these may forbid."""

    def __post_init__(self) -> None:
        _freeze(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Snapshot) and _same(self, other)

    __hash__ = None  # type: ignore[assignment]

    def column(self, resource: str) -> int:
        """The column of a resource."""
        return self.resources.index(resource)

    @cached_property
    def requested(self) -> Int64s:
        """What the placed pods of each node take up together, per node and resource."""
        total = np.zeros(self.nodes.allocatable.shape, np.int64)
        placed = np.flatnonzero(self.pods.placed)
        # Pods of one template on one node are counted first: the sum is then over far fewer rows.
        pair = self.pods.node[placed].astype(np.int64) * max(len(self.templates), 1)
        pairs, counts = np.unique(pair + self.pods.template[placed], return_counts=True)
        node, template = np.divmod(pairs, max(len(self.templates), 1))
        np.add.at(total, node, self.held[template] * counts[:, None])
        total.flags.writeable = False
        return total

    def template_of(self, pod: int) -> PodTemplate:
        """The template of the pod in row `pod`."""
        return self.templates[int(self.pods.template[pod])]


def _freeze(columns: Any) -> None:
    for name in columns.__dataclass_fields__:
        value = getattr(columns, name)
        if isinstance(value, np.ndarray):
            value.flags.writeable = False


def _same(one: Any, other: Any) -> bool:
    for column in fields(one):
        left, right = getattr(one, column.name), getattr(other, column.name)
        if isinstance(left, PodColumns | NodeColumns):
            if not _same(left, right):
                return False
        elif isinstance(left, np.ndarray):
            if not np.array_equal(left, right, equal_nan=left.dtype.kind == "f"):
                return False
        elif left != right:
            return False
    return True
