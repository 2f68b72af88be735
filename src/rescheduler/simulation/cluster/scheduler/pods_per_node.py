"""How many pods of each template are on each node."""

from collections.abc import Iterable

import numpy as np

from rescheduler.model.snapshot import Amounts, Bools, Ints

_ByNode = dict[int, int]


class PodsPerNode:
    """Counts of pods by template and node, those that are being deleted apart.

    Sparse, because most templates have a few pods, and a stateful pod has one of its own.
    """

    def __init__(self, nodes: int, templates: int) -> None:
        self._nodes = nodes
        self._staying: list[_ByNode] = [{} for _ in range(templates)]
        self._terminating: list[_ByNode] = [{} for _ in range(templates)]

    def add_template(self) -> None:
        """Make room for one more template."""
        self._staying.append({})
        self._terminating.append({})

    def add(self, template: int, node: int, count: int, terminating: bool) -> None:
        """Pods of this template came to the node, or left it if `count` is negative."""
        by_node = (self._terminating if terminating else self._staying)[template]
        by_node[node] = by_node.get(node, 0) + count
        if by_node[node] == 0:
            del by_node[node]

    def nodes_of(self, templates: Bools, with_terminating: bool) -> Ints:
        """The nodes of the pods of these templates, a node as often as it has such pods."""
        nodes = [
            node
            for by_node in self._of(np.flatnonzero(templates).tolist(), with_terminating)
            for node, count in by_node.items()
            for _ in range(count)
        ]
        return np.array(nodes, np.int32)

    def per_node(self, templates: Iterable[int], with_terminating: bool) -> Amounts:
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
