"""TaintToleration: a pod must tolerate every NoSchedule and NoExecute taint of its node.

The comparison operators for tolerations (Gt, Lt) are off by default in Kubernetes 1.37; a
toleration that uses them tolerates nothing.
"""

import numpy as np

from rescheduler.model.objects import Taint, Toleration
from rescheduler.model.snapshot import Bools
from rescheduler.planning.feasibility.filter_plugin import SharedLister, key_of, tolerates


class TaintToleration:
    """Refuses nodes with a taint that the pod does not tolerate."""

    name = "TaintToleration"

    def __init__(self, lister: SharedLister) -> None:
        self._lister = lister
        self.update()

    def update(self) -> None:
        """Go by the taints that nodes have now."""
        # Few sets of taints cover all nodes, so each is checked once.
        number_of: dict[bytes, int] = {}
        self._taint_sets: list[tuple[Taint, ...]] = []
        codes = []
        for node in self._lister.snapshot.nodes.objects:
            taints = hard_taints(node.spec.taints)
            number = number_of.setdefault(key_of(*taints), len(number_of))
            if number == len(self._taint_sets):
                self._taint_sets.append(taints)
            codes.append(number)
        self._set_of_node = np.array(codes, np.int32)
        self._refused_by: dict[bytes, Bools] = {}

    def refused(self, template: int) -> Bools | None:
        return self.refused_for(self._lister.snapshot.templates[template].tolerations)

    def refused_for(self, tolerations: tuple[Toleration, ...]) -> Bools | None:
        """Nodes with a taint that these tolerations do not cover."""
        if not any(self._taint_sets):
            return None
        key = key_of(*tolerations)
        refused = self._refused_by.get(key)
        if refused is None:
            untolerated = [
                untolerated_taint(tolerations, taints) is not None for taints in self._taint_sets
            ]
            refused = self._refused_by[key] = np.array(untolerated, bool)[self._set_of_node]
        return refused

    def reason(self, template: int, node: int) -> str:
        taints = hard_taints(self._lister.snapshot.nodes.objects[node].spec.taints)
        taint = untolerated_taint(self._lister.snapshot.templates[template].tolerations, taints)
        assert taint is not None, "asked why of a node that is not refused"
        value = f"={taint.value}" if taint.value else ""
        return f"the pod does not tolerate the node's taint {taint.key}{value}:{taint.effect}"


def hard_taints(taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
    """Taints that keep pods away. PreferNoSchedule is only a preference, so it never does."""
    return tuple(taint for taint in taints if taint.effect in ("NoSchedule", "NoExecute"))


def _is_tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    return any(
        tolerates(toleration, taint.key, taint.value, taint.effect) for toleration in tolerations
    )


def untolerated_taint(
    tolerations: tuple[Toleration, ...], taints: tuple[Taint, ...]
) -> Taint | None:
    """The first taint that none of the tolerations covers."""
    for taint in taints:
        if not _is_tolerated(taint, tolerations):
            return taint
    return None
