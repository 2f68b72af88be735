"""How many pods of each template are on each node."""

from collections.abc import Iterable

import numpy as np

from rescheduler.model.snapshot import Bools, Int64s, Ints

_ByNode = dict[int, int]


class PodsPerNode:
    """Counts of pods by template and node; pods that are being deleted are counted separately.

    Sparse, because most templates have few pods, and a StatefulSet's pod has one of its own.
    """

    def __init__(self, nodes: int, templates: int) -> None:
        self._nodes = nodes
        self._staying: list[_ByNode] = [{} for _ in range(templates)]
        self._terminating: list[_ByNode] = [{} for _ in range(templates)]

    def add_template(self) -> None:
        """The next number is a template too."""
        self._staying.append({})
        self._terminating.append({})

    def add(self, template: int, node: int, count: int, terminating: bool) -> None:
        """Count pods of a template on a node, or no longer if `count` is negative."""
        by_node = (self._terminating if terminating else self._staying)[template]
        by_node[node] = by_node.get(node, 0) + count
        if by_node[node] == 0:
            del by_node[node]

    def nodes_of(self, templates: Bools, with_terminating: bool) -> Ints:
        """The nodes of all pods of these templates; a node occurs once per pod."""
        nodes = [
            node
            for by_node in self._of(np.flatnonzero(templates).tolist(), with_terminating)
            for node, count in by_node.items()
            for _ in range(count)
        ]
        return np.array(nodes, np.int32)

    def per_node(self, templates: Iterable[int], with_terminating: bool) -> Int64s:
        """How many pods of these templates each node has."""
        total = np.zeros(self._nodes, np.int64)
        for by_node in self._of(templates, with_terminating):
            for node, count in by_node.items():
                total[node] += count
        return total

    def _of(self, templates: Iterable[int], with_terminating: bool) -> Iterable[_ByNode]:
        for template in templates:
            yield self._staying[template]
            if with_terminating:
                yield self._terminating[template]
