"""Divide the pods of two nodes anew between them, in the best way there is.

What is listed of one node says what the other would have to hold. Keys of contents can be
subtracted from each other, so all ways for two nodes are found by looking up as many numbers.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np

from rescheduler.planning.search.columns.column_pool import ContentKeys
from rescheduler.planning.search.columns.linking_rows import LinkingRows
from rescheduler.planning.search.columns.pod_classes import Contents, Numbers
from rescheduler.planning.search.exact.complete_columns import CompleteColumns

# For each pair of nodes.
_MOST_WAYS = 4


class Exchange(NamedTuple):
    """Other contents of two nodes."""

    change: float
    """Of what all nodes and moves cost; negative is better."""
    contents: Contents
    """Of all nodes."""


class PairExchange:
    """Looks for exchanges among the columns of a list."""

    def __init__(self, listed: CompleteColumns, linking: LinkingRows) -> None:
        self._listed = listed
        self._linking = linking
        keys = ContentKeys(listed.contents.shape[1])
        self._keys = [keys.of_contents(listed.contents[each]) for each in listed.of_node]
        self._key_of = keys.of_contents
        self._sorted = [np.argsort(each, kind="stable") for each in self._keys]

    def improving(self, contents: Contents, least_gain: float) -> list[Exchange]:
        """Exchanges that gain more than that without exceeding a limit, the best first."""
        found = [
            exchange
            for first, second in combinations(range(len(contents)), 2)
            for exchange in self._between(contents, first, second, least_gain)
        ]
        return sorted(found, key=lambda each: each.change)

    def _between(
        self, contents: Contents, first: int, second: int, least_gain: float
    ) -> Iterator[Exchange]:
        ours, theirs = self._ways(contents, first, second)
        at_first, at_second = self._listed.of_node[first], self._listed.of_node[second]
        prices = self._listed.prices
        costs = prices[at_first][ours] + prices[at_second][theirs]
        key = self._key_of(contents[[first, second]])
        now = np.flatnonzero(self._keys[first][ours] == key[0])
        if not len(now):
            return
        change = costs - costs[now[0]]
        better = np.flatnonzero(change < -least_gain)
        for way in better[np.argsort(change[better], kind="stable")[:_MOST_WAYS]].tolist():
            then = contents.copy()
            then[first] = self._listed.contents[at_first][ours[way]]
            then[second] = self._listed.contents[at_second][theirs[way]]
            if self._linking.excess(then) <= 0:
                yield Exchange(float(change[way]), then)

    def _ways(self, contents: Contents, first: int, second: int) -> tuple[Numbers, Numbers]:
        """Columns of two nodes that hold together what the nodes hold now."""
        wanted = self._key_of(contents[[first, second]]).sum() - self._keys[first]
        order = self._sorted[second]
        place = np.searchsorted(self._keys[second], wanted, sorter=order)
        ours = np.flatnonzero(place < len(order))
        theirs = order[place[ours]]
        match = self._keys[second][theirs] == wanted[ours]
        return ours[match], theirs[match]
