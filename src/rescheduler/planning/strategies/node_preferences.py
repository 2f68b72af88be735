"""What pods prefer of nodes, wherever other pods are: preferred node affinity, and soft taints."""

import numpy as np

from rescheduler.model.objects import Taint
from rescheduler.model.pod_templates import PodTemplate
from rescheduler.model.snapshot import Bools, Floats, Snapshot
from rescheduler.planning.feasibility.filter_plugin import tolerates
from rescheduler.planning.feasibility.label_columns import NodeLabels
from rescheduler.planning.strategies.pod_term import NodePreferenceTerm

PREFERENCE_WORTH = 5e-4
"""What it is worth, in nodes, that a preference of weight 1 is met; weights go up to 100."""
# A taint that only prefers no pods weighs like the strongest preference.
_TAINT_WEIGHT = 100


class MissedPreferences(NodePreferenceTerm):
    """How far each node is from what pods prefer: their node affinity, and no soft taints."""

    def __init__(self, snapshot: Snapshot, weight: float = 1.0) -> None:
        super().__init__(snapshot)
        self._worth = weight * PREFERENCE_WORTH
        nodes = snapshot.nodes
        self._labels = NodeLabels(nodes.names, [node.metadata.labels for node in nodes.objects])
        self._nodes_with: dict[Taint, list[int]] = {}
        for row, node in enumerate(nodes.objects):
            for taint in node.spec.taints:
                if taint.effect == "PreferNoSchedule":
                    self._nodes_with.setdefault(taint, []).append(row)

    def node_costs(self, template: int) -> Floats | None:
        pod = self.snapshot.templates[template]
        missed = _TAINT_WEIGHT * self._softly_tainted(pod).astype(np.float64)
        affinity = pod.affinity.node_affinity if pod.affinity is not None else None
        for term in affinity.preferred if affinity is not None else ():
            missed += term.weight * ~self._labels.matching_any((term.preference,))
        return self._worth * missed if missed.any() else None

    def reason(self, template: int, node: int) -> str:
        name = self.snapshot.nodes.names[node]
        if self._softly_tainted(self.snapshot.templates[template])[node]:
            return f"{name} has a taint that prefers not to have it"
        return f"{name} is not what its preferred node affinity asks for"

    def _softly_tainted(self, pod: PodTemplate) -> Bools:
        """Nodes with a PreferNoSchedule taint that the pod does not tolerate."""
        tainted = np.zeros(len(self.snapshot.nodes), bool)
        for taint, rows in self._nodes_with.items():
            if not _is_tolerated(pod, taint):
                tainted[rows] = True
        return tainted


def _is_tolerated(pod: PodTemplate, taint: Taint) -> bool:
    return any(
        tolerates(toleration, taint.key, taint.value, taint.effect)
        for toleration in pod.tolerations
    )
