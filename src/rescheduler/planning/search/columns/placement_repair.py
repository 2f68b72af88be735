"""Make the counts come out even: place exactly as many pods of each class as there are."""

import numpy as np

from rescheduler.planning.search.columns.linking_rows import LinkingRows
from rescheduler.planning.search.columns.node_contents import NodeContents
from rescheduler.planning.search.columns.pod_classes import Contents


class PlacementRepair:
    """Changes the contents of nodes, one pod at a time, where it costs least."""

    def __init__(self, judge: NodeContents, linking: LinkingRows) -> None:
        self._judge = judge
        self._linking = linking
        self._everywhere = np.arange(len(judge.start), dtype=np.int32)

    def repair(self, contents: Contents) -> Contents:
        """The same contents without pods that are placed twice, and with those that are missing."""
        contents = contents.copy()
        surplus = contents.sum(axis=0, dtype=np.int64) - self._judge.classes.totals
        for number in np.flatnonzero(surplus > 0).tolist():
            for _ in range(int(surplus[number])):
                self._change(contents, number, -1)
        demand = self._judge.classes.demand
        share = (demand / np.maximum(demand.max(axis=0), 1e-9)).max(axis=1)
        for number in sorted(np.flatnonzero(surplus < 0).tolist(), key=lambda row: -share[row]):
            for _ in range(int(-surplus[number])):
                if not self._change(contents, number, 1):
                    break
        return contents

    def _change(self, contents: Contents, number: int, count: int) -> bool:
        """One pod more or fewer of a class, on the node where that is best."""
        nodes = self._everywhere if count > 0 else np.flatnonzero(contents[:, number] > 0)
        nodes = nodes.astype(np.int32)
        then = contents[nodes]
        then[:, number] += count
        allowed = self._judge.are_allowed(nodes, then)
        nodes, then = nodes[allowed], then[allowed]
        if not len(nodes):
            return False
        rise = self._costs(nodes, then) - self._costs(nodes, contents[nodes])
        excess = self._linking.excess_after(contents, nodes, then)
        best = int(np.lexsort((rise, excess))[0])
        contents[nodes[best]] = then[best]
        return True

    def _costs(
        self, nodes: "np.typing.NDArray[np.int32]", contents: Contents
    ) -> "np.typing.NDArray[np.float64]":
        arrivals = self._judge.arrivals(nodes, contents)
        moves = arrivals @ self._judge.classes.move_prices
        return np.asarray(self._judge.costs(nodes, contents) + moves)
