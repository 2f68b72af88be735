"""Running sums: what the pods of each node hold together, kept while pods come and go.

Adding up 150,000 pods takes too long for someone who waits for an answer. Here every pod that is
placed, goes or ends changes one number per resource, and whoever asks reads whole columns.
"""

from collections.abc import Mapping

import numpy as np

from rescheduler.model.snapshot import Int64s

_FIRST_SIZE = 64
_RANGE, _SMALLEST = 2**64, -(2**63)


class NodeSums:
    """Sums by resource and by the number of a node; a node that was never added to has zero."""

    def __init__(self) -> None:
        self._size = _FIRST_SIZE
        self._columns: dict[str, Int64s] = {}
        # The same memory: reading and writing single numbers is three times as fast there.
        self._cells: dict[str, memoryview] = {}

    def column(self, resource: str) -> Int64s:
        """The sums of one resource by node number, and zeros beyond. Read it, and at once."""
        return self._columns[resource] if resource in self._columns else self._new(resource)

    def make_room(self, nodes: int) -> None:
        """Let there be so many nodes."""
        if nodes <= self._size:
            return
        self._size = max(nodes, 2 * self._size)
        for resource, old in self._columns.items():
            self._new(resource)[: len(old)] = old

    def add(self, node: int, amounts: Mapping[str, int]) -> None:
        """A pod that holds so much is on this node now."""
        cells_of = self._cells
        for resource, amount in amounts.items():
            try:
                cells_of[resource][node] += amount
            except KeyError:
                self._new(resource)[node] = amount
            except ValueError:
                self._wrap(resource, node, amount)

    def subtract(self, node: int, amounts: Mapping[str, int]) -> None:
        """A pod that holds so much has left this node, or has ended there."""
        self.add(node, {resource: -amount for resource, amount in amounts.items()})

    def _new(self, resource: str) -> Int64s:
        column = np.zeros(self._size, np.int64)
        self._columns[resource], self._cells[resource] = column, column.data
        return column

    def _wrap(self, resource: str, node: int, amount: int) -> None:
        """Go round the end of 64 bits as numpy does: once the excess has gone, sums are right."""
        cells = self._cells[resource]
        cells[node] = (cells[node] + amount - _SMALLEST) % _RANGE + _SMALLEST
