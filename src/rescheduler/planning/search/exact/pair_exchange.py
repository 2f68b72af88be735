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

_Way = tuple[float, int, int]
"""The change of costs, and which of the columns of each of two nodes."""


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
        self._order = [np.argsort(each, kind="stable") for each in self._keys]
        self._sorted = [each[order] for each, order in zip(self._keys, self._order, strict=True)]
        # By two nodes and the keys of what they hold: most nodes are as they were when asked last.
        self._known: dict[tuple[int, ...], list[_Way]] = {}

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
        at_first, at_second = self._listed.of_node[first], self._listed.of_node[second]
        key = (first, second, *self._key_of(contents[[first, second]]).tolist())
        if key not in self._known:
            self._known[key] = self._best_ways(contents, first, second, least_gain)
        for change, ours, theirs in self._known[key]:
            then = contents.copy()
            then[first] = self._listed.contents[at_first][ours]
            then[second] = self._listed.contents[at_second][theirs]
            if self._linking.excess(then) <= 0:
                yield Exchange(change, then)

    def _best_ways(
        self, contents: Contents, first: int, second: int, least_gain: float
    ) -> list[_Way]:
        ours, theirs = self._ways(contents, first, second)
        prices = self._listed.prices
        costs = prices[self._listed.of_node[first]][ours]
        costs += prices[self._listed.of_node[second]][theirs]
        now = np.flatnonzero(self._keys[first][ours] == self._key_of(contents[[first]])[0])
        if not len(now):
            return []
        change = costs - costs[now[0]]
        better = np.flatnonzero(change < -least_gain)
        best = better[np.argsort(change[better], kind="stable")[:_MOST_WAYS]]
        return list(
            zip(change[best].tolist(), ours[best].tolist(), theirs[best].tolist(), strict=True)
        )

    def _ways(self, contents: Contents, first: int, second: int) -> tuple[Numbers, Numbers]:
        """Columns of two nodes that hold together what the nodes hold now."""
        wanted = self._key_of(contents[[first, second]]).sum() - self._keys[first]
        # Numbers that are looked up in order are found much faster.
        order = self._order[first][::-1]
        place = np.searchsorted(self._sorted[second], wanted[order])
        is_there = place < len(self._sorted[second])
        ours, place = order[is_there], place[is_there]
        match = self._sorted[second][place] == wanted[ours]
        ours, theirs = ours[match], self._order[second][place[match]]
        by_column = np.argsort(ours, kind="stable")
        return ours[by_column], theirs[by_column]
