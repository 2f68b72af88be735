"""The columns that are known: each a node with one possible content."""

import numpy as np
import numpy.typing as npt

from rescheduler.model.snapshot import Bools, Floats
from rescheduler.planning.search.columns.node_contents import NodeContents
from rescheduler.planning.search.columns.pod_classes import Contents, Numbers

Keys = npt.NDArray[np.int64]

# The same for everybody, so that the same columns have the same keys.
_SEED = 20


class ContentKeys:
    """Numbers that tell contents of nodes apart, and take less memory than the contents.

    They are sums of one large random number per pod, so that two contents have the same key about
    never.
    """

    def __init__(self, classes: int) -> None:
        whole_range = np.iinfo(np.int64)
        random = np.random.default_rng(_SEED)
        numbers = random.integers(whole_range.min, whole_range.max, classes + 1, np.int64)
        self._of_node, self._of_pod = numbers[0], numbers[1:]

    def of(self, nodes: Numbers, contents: Contents) -> Keys:
        """A key for each row."""
        return np.asarray(nodes.astype(np.int64) * self._of_node + self.of_contents(contents))

    def of_contents(self, contents: Contents) -> Keys:
        """A key for each row, whatever the node: that of two contents together is the sum."""
        return np.asarray(contents @ self._of_pod)


class ColumnPool:
    """Columns in the order in which they were added, none of them twice."""

    def __init__(self, contents: NodeContents) -> None:
        self._judge = contents
        classes = len(contents.classes)
        self.node: Numbers = np.empty(0, np.int32)
        self.contents: Contents = np.empty((0, classes), np.int16)
        self.costs: Floats = np.empty(0)
        """What the node costs and the moves of the pods that come to it."""
        self._keys = ContentKeys(classes)
        self._known: Keys = np.empty(0, np.int64)
        """The keys of all columns, sorted."""

    def __len__(self) -> int:
        return len(self.node)

    def add(self, nodes: Numbers, contents: Contents) -> int:
        """Add those that are allowed and not known yet; returns how many that are."""
        keys = self._keys.of(nodes, contents)
        _, first = np.unique(keys, return_index=True)
        first = np.sort(first)
        new = first[~self._are_known(keys[first])]
        new = new[self._judge.are_allowed(nodes[new], contents[new])]
        nodes, contents = nodes[new], contents[new]
        self._known = np.sort(np.concatenate([self._known, keys[new]]), kind="stable")
        arrivals = self._judge.arrivals(nodes, contents)
        costs = self._judge.costs(nodes, contents) + arrivals @ self._judge.classes.move_prices
        self.node = np.concatenate([self.node, nodes.astype(np.int32)])
        self.contents = np.concatenate([self.contents, contents])
        self.costs = np.concatenate([self.costs, costs])
        return len(new)

    def _are_known(self, keys: Keys) -> Bools:
        place = np.searchsorted(self._known, keys)
        is_known = place < len(self._known)
        is_known[is_known] = self._known[place[is_known]] == keys[is_known]
        return np.asarray(is_known)

    def keep(self, columns: Numbers) -> None:
        """Forget all columns but these. One that is forgotten may be added again."""
        self.node, self.contents = self.node[columns], self.contents[columns]
        self.costs = self.costs[columns]
        self._known = np.sort(self._keys.of(self.node, self.contents))
