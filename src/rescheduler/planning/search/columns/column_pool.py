"""The columns that are known: each a node with one possible content."""

import numpy as np

from rescheduler.model.snapshot import Floats
from rescheduler.planning.search.columns.node_contents import NodeContents
from rescheduler.planning.search.columns.pod_classes import Contents, Numbers


class ColumnPool:
    """Columns in the order in which they were added, none of them twice."""

    def __init__(self, contents: NodeContents) -> None:
        self._judge = contents
        classes = len(contents.classes)
        self.node: Numbers = np.empty(0, np.int32)
        self.contents: Contents = np.empty((0, classes), np.int16)
        self.costs: Floats = np.empty(0)
        """What the node costs and the moves of the pods that come to it."""
        self._known: set[tuple[int, bytes]] = set()

    def __len__(self) -> int:
        return len(self.node)

    def add(self, nodes: Numbers, contents: Contents) -> int:
        """Add those that are allowed and not known yet; returns how many that are."""
        new = [
            row
            for row, (node, content) in enumerate(zip(nodes.tolist(), contents, strict=True))
            if (node, content.tobytes()) not in self._known
        ]
        nodes, contents = nodes[new], contents[new]
        allowed = self._judge.are_allowed(nodes, contents)
        nodes, contents = nodes[allowed], contents[allowed]
        keys = [(node, each.tobytes()) for node, each in zip(nodes.tolist(), contents, strict=True)]
        first = sorted({key: row for row, key in reversed(list(enumerate(keys)))}.values())
        nodes, contents = nodes[first], contents[first]
        self._known.update(keys)
        arrivals = self._judge.arrivals(nodes, contents)
        costs = self._judge.costs(nodes, contents) + arrivals @ self._judge.classes.move_prices
        self.node = np.concatenate([self.node, nodes.astype(np.int32)])
        self.contents = np.concatenate([self.contents, contents])
        self.costs = np.concatenate([self.costs, costs])
        return len(first)

    def keep(self, columns: Numbers) -> None:
        """Forget all columns but these. One that is forgotten may be added again."""
        forgotten = np.ones(len(self), bool)
        forgotten[columns] = False
        for column in np.flatnonzero(forgotten).tolist():
            self._known.discard((int(self.node[column]), self.contents[column].tobytes()))
        self.node, self.contents = self.node[columns], self.contents[columns]
        self.costs = self.costs[columns]
