"""What every filter plugin can do, and what plugins look up in the cluster."""

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from rescheduler.model.objects import Part, Requirement, Toleration
from rescheduler.model.pod_templates import PooledTemplate
from rescheduler.model.snapshot import NO_NODE, Bools, Ints, Snapshot
from rescheduler.model.tables.cluster_tables import with_templates
from rescheduler.planning.feasibility.label_columns import LabelColumns, NodeLabels


class FilterPlugin(Protocol):
    """A plugin of the scheduler: refuses nodes for the pods of a template."""

    name: str
    """The plugin's name, as the scheduler reports it."""

    def refused(self, template: int) -> Bools | None:
        """Nodes that a new pod of this template may not run on; None if it refuses none.

        The answer counts the pods placed at the moment. It is not to be written to.
        """

    def reason(self, template: int, node: int) -> str:
        """A sentence for people: why the plugin refuses that node."""


class PodCountingPlugin(FilterPlugin, Protocol):
    """A plugin whose answer depends on which pods are where."""

    def count_pods(self, template: int, node: int, count: int, terminating: bool) -> None:
        """Pods of this template came to the node, or left it if `count` is negative."""


class NearbyPodsPlugin(PodCountingPlugin, Protocol):
    """A plugin whose answer depends on pods near a node, not only on those that are on it."""

    def refuses(self, template: int, node: int) -> bool:
        """Whether `refused` has this node, without asking about all others."""


class TemplateAwarePlugin(FilterPlugin, Protocol):
    """A plugin that prepares something for every template."""

    def add_template(self, template: int) -> None:
        """Prepare for a template that was not there before; all before it have been added."""


class SharedLister:
    """What plugins look up in a snapshot, prepared once for all of them."""

    def __init__(self, snapshot: Snapshot, pod_lister: "PodLister | None" = None) -> None:
        self.snapshot = snapshot
        nodes = snapshot.nodes.objects
        self.node_labels = NodeLabels(
            snapshot.nodes.names, [node.metadata.labels for node in nodes]
        )
        self.placed_pods = PlacedPods(snapshot)
        self.pod_lister = self.placed_pods if pod_lister is None else pod_lister

    def add_templates(self, added: Sequence[PooledTemplate]) -> None:
        """Add templates that no pod of the snapshot has; their numbers follow the others'."""
        self.snapshot = with_templates(self.snapshot, added)
        for prepared in ("template_labels", "_template_namespaces"):
            self.__dict__.pop(prepared, None)

    @cached_property
    def template_labels(self) -> LabelColumns:
        """Labels of the pods of each template."""
        return LabelColumns([template.labels for template in self.snapshot.templates])

    @cached_property
    def _template_namespaces(self) -> LabelColumns:
        templates = self.snapshot.templates
        return LabelColumns([{"namespace": template.namespace} for template in templates])

    def templates_in(self, namespaces: frozenset[str]) -> Bools:
        """Templates whose pods are in one of these namespaces."""
        requirement = Requirement("namespace", "In", tuple(namespaces))
        return self._template_namespaces.satisfying(requirement)


class PodLister(Protocol):
    """Says where pods are at the moment; plugins count from it when first asked."""

    def nodes_of(self, templates: Bools, with_terminating: bool) -> Ints:
        """The nodes of the pods of these templates, a node as often as it has such pods."""


class PlacedPods:
    """Which pods are where at the moment, sorted by template.

    Plugins count pods when they are first asked, perhaps after some planned moves, so this follows
    the moves, too.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        pods = snapshot.pods
        placed = np.flatnonzero(pods.placed)
        order = placed[np.argsort(pods.template[placed], kind="stable")]
        self.node = pods.node[order]
        self._terminating = pods.deleting[order]
        self._template = pods.template[order]
        self._start = np.searchsorted(self._template, np.arange(len(snapshot.templates) + 1))
        self._row = np.full(len(pods), -1, np.int64)
        self._row[order] = np.arange(len(order))

    def node_of(self, pod: int) -> int:
        """The node a pod is on, or NO_NODE."""
        row = self._row[pod]
        return int(self.node[row]) if row >= 0 else NO_NODE

    def put(self, pod: int, node: int) -> None:
        """The pod is on this node now, or nowhere."""
        self.node[self._row[pod]] = node

    def nodes_of(self, templates: Bools, with_terminating: bool) -> Ints:
        """The nodes of the pods of these templates, a node as often as it has such pods."""
        rows = self._rows_of(templates)
        if not with_terminating:
            rows = rows[~self._terminating[rows]]
        return self.node[rows]

    def _rows_of(self, templates: Bools) -> npt.NDArray[np.int64]:
        """Rows of the pods of these templates that are on a node."""
        chosen = np.flatnonzero(templates)
        if len(chosen) > 64:
            rows = np.flatnonzero(templates[self._template])
        elif len(chosen):
            ranges = [np.arange(self._start[row], self._start[row + 1]) for row in chosen]
            rows = np.concatenate(ranges)
        else:
            rows = np.empty(0, np.int64)
        return rows[self.node[rows] >= 0]


def key_of(*parts: Part | object) -> bytes:
    """Equal parts give equal keys: structs with labels in them cannot be hashed themselves."""
    return msgspec.json.encode(parts, order="deterministic")


def tolerates(toleration: Toleration, key: str, value: str, effect: str) -> bool:
    """Whether one toleration covers one taint."""
    if toleration.effect and toleration.effect != effect:
        return False
    if toleration.key and toleration.key != key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == value
    return toleration.operator == "Exists"
