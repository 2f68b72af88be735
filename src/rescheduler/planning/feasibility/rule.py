"""What every rule can do, and the view of the cluster that rules share."""

from functools import cached_property
from typing import Protocol

import msgspec
import numpy as np

from rescheduler.model.objects import Part, Toleration
from rescheduler.model.snapshot import Bools, Snapshot
from rescheduler.planning.feasibility.label_columns import LabelColumns, NodeLabels


class Rule(Protocol):
    """A plugin of the scheduler: refuses nodes for the pods of a template."""

    name: str
    """The plugin's name, as the scheduler reports it."""

    def refused(self, template: int) -> Bools | None:
        """Nodes that a new pod of this template may not run on; None if it refuses none.

        The answer counts the pods placed at the moment. It is not to be written to.
        """

    def reason(self, template: int, node: int) -> str:
        """A sentence for people: why the rule refuses that node."""


class CountingRule(Rule, Protocol):
    """A rule whose answer depends on which pods are where."""

    def placed(self, template: int, node: int, count: int, terminating: bool) -> None:
        """Pods of this template came to the node, or left it if `count` is negative."""


class ClusterView:
    """What rules look up in a snapshot, prepared once for all of them."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        nodes = snapshot.nodes.objects
        self.node_labels = NodeLabels(
            snapshot.nodes.names, [node.metadata.labels for node in nodes]
        )
        self.template_labels = LabelColumns([each.labels for each in snapshot.templates])
        self.template_namespaces = LabelColumns(
            [{"namespace": each.namespace} for each in snapshot.templates]
        )

    @cached_property
    def placed_pods(self) -> "PlacedPods":
        """Which pods of which template are where, as the snapshot has it."""
        return PlacedPods(self.snapshot)

    def templates_in(self, namespaces: frozenset[str]) -> Bools:
        """Templates whose pods are in one of these namespaces."""
        codes, code_of = self.template_namespaces.column("namespace")
        wanted = [code_of[each] for each in namespaces if each in code_of]
        return np.isin(codes, wanted)


class PlacedPods:
    """Nodes of all placed pods, sorted by template, to count matching pods by where they are."""

    def __init__(self, snapshot: Snapshot) -> None:
        placed = np.flatnonzero(snapshot.pods.placed)
        order = placed[np.argsort(snapshot.pods.template[placed], kind="stable")]
        self.template = snapshot.pods.template[order]
        self.node = snapshot.pods.node[order]
        self.terminating = snapshot.pods.deleting[order]
        self._start = np.searchsorted(self.template, np.arange(len(snapshot.templates) + 1))

    def rows_of(self, templates: Bools) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        """Rows of the pods of these templates."""
        chosen = np.flatnonzero(templates)
        if len(chosen) == 1:
            return np.arange(self._start[chosen[0]], self._start[chosen[0] + 1])
        if len(chosen) * 4 > len(templates):
            return np.flatnonzero(templates[self.template])
        return np.concatenate(
            [np.arange(self._start[each], self._start[each + 1]) for each in chosen]
            or [np.empty(0, np.int64)]
        )


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
