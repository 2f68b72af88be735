"""Make the counts come out even: place exactly as many pods of each class as there are."""

from collections.abc import Callable

import numpy as np

from rescheduler.model.snapshot import Bools, Floats
from rescheduler.planning.search.columns.linking_rows import LinkingRows
from rescheduler.planning.search.columns.node_contents import NodeContents
from rescheduler.planning.search.columns.pod_classes import Contents, Numbers

# Of the pods of a class that are missing: so large a part is placed at once, on different nodes.
_PART = 32
# Of the nodes: on so large a part pods are placed at once, even if few are missing.
_PART_OF_NODES = 500
# Without time, all of them are, on nodes about as good as the best: by this part of the range.
_ABOUT_AS_GOOD = 0.1


class PlacementRepair:
    """Changes the contents of nodes, one pod after another, where it costs least."""

    def __init__(
        self,
        judge: NodeContents,
        linking: LinkingRows,
        out_of_time: Callable[[], bool] = lambda: False,
    ) -> None:
        """Once there is no time left, as many pods of a class as possible are placed at once."""
        self._out_of_time = out_of_time
        self._judge = judge
        self._linking = linking
        self._everywhere = np.arange(len(judge.start), dtype=np.int32)

    def repair(self, contents: Contents) -> Contents:
        """The same contents without pods that are placed twice, and with those that are missing."""
        contents = contents.copy()
        surplus = contents.sum(axis=0, dtype=np.int64) - self._judge.classes.totals
        for number in np.flatnonzero(surplus > 0).tolist():
            self._change(contents, number, -1, int(surplus[number]))
        demand = self._judge.classes.demand
        share = (demand / np.maximum(demand.max(axis=0), 1e-9)).max(axis=1)
        for number in sorted(np.flatnonzero(surplus < 0).tolist(), key=lambda row: -share[row]):
            self._change(contents, number, 1, int(-surplus[number]))
        return contents

    def _change(self, contents: Contents, number: int, count: int, times: int) -> None:
        """One pod more or fewer of a class, so many times, on the node where that is best."""
        options = _Options(self._judge, self._linking, contents, number, count)
        options.look_at(self._everywhere)
        at_once = max(len(contents) // _PART_OF_NODES, 1)
        while times:
            if self._out_of_time():
                nodes = options.about_as_good(times)
            else:
                nodes = options.best(min(times, max(times // _PART, at_once)))
            if not len(nodes):
                return
            contents[nodes, number] += count
            options.take(nodes)
            times -= len(nodes)


class _Options:
    """For every node, what it costs and changes if it holds one pod more or fewer of a class."""

    def __init__(
        self,
        judge: NodeContents,
        linking: LinkingRows,
        contents: Contents,
        number: int,
        count: int,
    ) -> None:
        """The contents may be changed: whoever does so says it."""
        self._judge = judge
        self._linking = linking
        self._contents = contents
        self._number, self._count = number, count
        nodes = len(contents)
        self._allowed: Bools = np.zeros(nodes, bool)
        self._rise: Floats = np.zeros(nodes)
        # What it adds to each of the rows that link nodes, and what they all add.
        self._change: Floats = np.zeros((nodes, len(linking.most)))
        everywhere = np.arange(nodes, dtype=np.int32)
        self._total: Floats = linking.entries(everywhere, contents).sum(axis=0)
        self._most_change: Floats = np.zeros(len(linking.most))

    def look_at(self, nodes: Numbers) -> None:
        """Find out about these nodes with the contents as they are now."""
        now = self._contents[nodes]
        then = now.copy()
        then[:, self._number] += self._count
        allowed = then[:, self._number] >= 0
        allowed[allowed] = self._judge.are_allowed(nodes[allowed], then[allowed])
        self._allowed[nodes] = allowed
        nodes, now, then = nodes[allowed], now[allowed], then[allowed]
        self._rise[nodes] = self._costs(nodes, then) - self._costs(nodes, now)
        entries = self._linking.entries
        self._change[nodes] = entries(nodes, then) - entries(nodes, now)
        most_change = self._change[nodes].max(axis=0, initial=-np.inf)
        self._most_change = np.maximum(self._most_change, most_change)

    def _costs(self, nodes: Numbers, contents: Contents) -> Floats:
        arrivals = self._judge.arrivals(nodes, contents)
        moves = arrivals @ self._judge.classes.move_prices
        return np.asarray(self._judge.costs(nodes, contents) + moves)

    def best(self, most: int) -> Numbers:
        """The nodes where limits are exceeded least, and of these the cheapest, up to so many."""
        return self._cheapest(self._within_limits(), most)

    def about_as_good(self, most: int) -> Numbers:
        """Like `best`, without those that cost much more than the cheapest."""
        nodes = self._within_limits()
        if len(nodes):
            rise = self._rise[nodes]
            nodes = nodes[rise <= rise.min() + _ABOUT_AS_GOOD * np.ptp(rise)]
        return self._cheapest(nodes, most)

    def _cheapest(self, nodes: Numbers, most: int) -> Numbers:
        if most < len(nodes):
            nodes = nodes[np.argpartition(self._rise[nodes], most - 1)[:most]]
        return nodes

    def _within_limits(self) -> Numbers:
        """The nodes where limits are exceeded least."""
        nodes = np.flatnonzero(self._allowed).astype(np.int32)
        if not len(nodes) or (self._total + self._most_change <= self._linking.most).all():
            return nodes
        beyond = self._total + self._change[nodes] - self._linking.most
        excess = np.maximum(beyond, 0.0).sum(axis=1)
        return np.asarray(nodes[excess == excess.min()])

    def take(self, nodes: Numbers) -> None:
        """The contents of these nodes have been changed."""
        self._total += self._change[nodes].sum(axis=0)
        self.look_at(nodes)
