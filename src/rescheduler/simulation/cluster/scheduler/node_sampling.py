"""Which nodes are scored: in a large cluster, only a share of the feasible ones.

From 100 nodes on, the search stops when it has found a share of them, which is smaller in larger
clusters, and the next search starts where this one ended. Nodes are searched zone by zone,
interleaved. The original searches in parallel and may find a few other nodes; here the order is
strict.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain, zip_longest

import numpy as np

from rescheduler.labels import OLD_REGION, OLD_ZONE, REGION, ZONE
from rescheduler.model.objects import Node
from rescheduler.model.snapshot import Bools
from rescheduler.simulation.cluster.scheduler.plugins.score_plugin import Nodes

_MIN_NODES = 100
_MIN_PERCENT = 5


def feasible_nodes_to_find(nodes: int) -> int:
    """How many feasible nodes are enough, by the size of the cluster."""
    if nodes < _MIN_NODES:
        return nodes
    percent = max(50 - nodes // 125, _MIN_PERCENT)
    return max(nodes * percent // 100, _MIN_NODES)


def zone_interleaved(nodes: Sequence[Node]) -> Nodes:
    """The rows of the nodes in search order: the first of each zone, the second of each, …"""
    rows_in: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for row, node in enumerate(nodes):
        labels = node.metadata.labels
        region = labels.get(OLD_REGION, labels.get(REGION, ""))
        rows_in[region, labels.get(OLD_ZONE, labels.get(ZONE, ""))].append(row)
    interleaved = chain.from_iterable(zip_longest(*rows_in.values()))
    return np.array([row for row in interleaved if row is not None], np.int64)


class NodeSearch:
    """Finds feasible nodes; each search starts where the last one ended."""

    def __init__(self) -> None:
        self._start = 0

    def nodes(self, accepted: Bools, order: Nodes) -> Nodes:
        """The rows of as many feasible nodes as are enough, or of all."""
        enough = feasible_nodes_to_find(len(order))
        start = self._start % max(len(order), 1)
        ahead = np.concatenate([order[start:], order[:start]])
        found = np.flatnonzero(accepted[ahead])
        examined = len(order) if len(found) <= enough else int(found[enough - 1]) + 1
        self._start = start + examined
        return ahead[found[:enough]]
