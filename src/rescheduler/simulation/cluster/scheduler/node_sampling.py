"""Which nodes the scheduler looks at: of a large cluster, only as many as it needs.

Above 100 nodes it stops once a certain share of them would do, half of 125 nodes and less of more,
and begins the next search where this one ended. Its order takes a node from each zone in turn.
The original searches in parallel, so that now and then a few other nodes are found; here the order
is kept strictly.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain, zip_longest

import numpy as np

from rescheduler.model.objects import Node
from rescheduler.model.snapshot import Bools
from rescheduler.planning.feasibility.volume_claims import BETA_REGION, BETA_ZONE, REGION, ZONE
from rescheduler.simulation.cluster.scheduler.plugins.score_plugin import Nodes

_FEWEST_NODES = 100
_FEWEST_PERCENT = 5


def feasible_nodes_to_find(nodes: int) -> int:
    """How many nodes that would do are enough to choose from."""
    if nodes < _FEWEST_NODES:
        return nodes
    percent = max(50 - nodes // 125, _FEWEST_PERCENT)
    return max(nodes * percent // 100, _FEWEST_NODES)


def zone_interleaved(nodes: Sequence[Node]) -> Nodes:
    """The rows of the nodes in the order of the search: the first of each zone, the second …"""
    rows_in: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for row, node in enumerate(nodes):
        labels = node.metadata.labels
        region = labels.get(BETA_REGION, labels.get(REGION, ""))
        rows_in[region, labels.get(BETA_ZONE, labels.get(ZONE, ""))].append(row)
    rounds = chain.from_iterable(zip_longest(*rows_in.values()))
    return np.array([row for row in rounds if row is not None], np.int64)


class NodeSearch:
    """Finds nodes that would do, going around the cluster."""

    def __init__(self) -> None:
        self._start = 0

    def nodes(self, accepted: Bools, order: Nodes) -> Nodes:
        """Rows of enough nodes that would do, or of all there are."""
        enough = feasible_nodes_to_find(len(order))
        start = self._start % max(len(order), 1)
        ahead = np.concatenate([order[start:], order[:start]])
        found = np.flatnonzero(accepted[ahead])
        looked_at = len(order) if len(found) <= enough else int(found[enough - 1]) + 1
        self._start = start + looked_at
        return ahead[found[:enough]]
