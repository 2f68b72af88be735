"""What pods would like of their nodes: preferred node affinity, and no taints that prefer none."""

import numpy as np

from rescheduler.model.objects import Taint
from rescheduler.model.pod_templates import PodTemplate
from rescheduler.model.snapshot import Bools, Floats, Ints, Snapshot
from rescheduler.planning.feasibility.filter_plugin import tolerates
from rescheduler.planning.feasibility.label_columns import NodeLabels

# What it is worth, in nodes, that a wish of weight 1 comes true; weights go up to 100.
_WORTH = 5e-4
# A taint that only prefers no pods weighs like the strongest wish.
_TAINT_WEIGHT = 100


class Preferences:
    """How far each node is from what pods would like best."""

    strategy = "ConstraintRepair"

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        nodes = snapshot.nodes
        self._labels = NodeLabels(nodes.names, [node.metadata.labels for node in nodes.objects])
        self._soft_taints = [
            [taint for taint in node.spec.taints if taint.effect == "PreferNoSchedule"]
            for node in nodes.objects
        ]
        self._rows: dict[int, Floats | None] = {}

    def total(self) -> float:
        """What it costs that all pods are where they are."""
        pods = self._snapshot.pods
        rows = np.flatnonzero(pods.placed)
        return float(self.promise(pods.template[rows], pods.node[rows]).sum())

    def is_wanting(self) -> bool:
        """Whether some pod would like to be elsewhere."""
        return self.total() > 0

    def promise(self, templates: Ints, nodes: Ints) -> Floats:
        """What is gained if a pod of each of these templates leaves its node."""
        promise = np.zeros(len(templates))
        for template in np.unique(templates).tolist():
            row = self._row(template)
            if row is not None:
                chosen = templates == template
                promise[chosen] = row[nodes[chosen]]
        return promise

    def relief(self, template: int, node: int) -> float:
        """What is gained if such a pod leaves the node."""
        row = self._row(template)
        return 0.0 if row is None else float(row[node])

    def arrival(self, template: int, source: int) -> Floats | None:
        """What it costs if such a pod goes to each node."""
        return self._row(template)

    def follow(self, template: int, source: int, target: int) -> set[int]:
        """What a pod would like does not depend on others."""
        return set()

    def reason(self, template: int, node: int) -> str:
        """Why such a pod should leave the node."""
        name = self._snapshot.nodes.names[node]
        if self._unwelcome(self._snapshot.templates[template])[node]:
            return f"{name} has a taint that prefers not to have it"
        return f"{name} is not what its preferred node affinity asks for"

    def _row(self, template: int) -> Floats | None:
        if template not in self._rows:
            self._rows[template] = self._make_row(self._snapshot.templates[template])
        return self._rows[template]

    def _make_row(self, pod: PodTemplate) -> Floats | None:
        missed = _TAINT_WEIGHT * self._unwelcome(pod).astype(np.float64)
        affinity = pod.affinity.node_affinity if pod.affinity is not None else None
        for term in affinity.preferred if affinity is not None else ():
            missed += term.weight * ~self._labels.matching_any((term.preference,))
        return _WORTH * missed if missed.any() else None

    def _unwelcome(self, pod: PodTemplate) -> Bools:
        """Nodes with a taint that prefers not to have the pod."""
        return np.array(
            [
                any(not _is_tolerated(pod, taint) for taint in taints)
                for taints in self._soft_taints
            ],
            bool,
        )


def _is_tolerated(pod: PodTemplate, taint: Taint) -> bool:
    return any(tolerates(each, taint.key, taint.value, taint.effect) for each in pod.tolerations)
