"""From shares of columns to one whole column per node, so that the numbers of pods still add up.

If every node took its best column, nodes that are alike would all take the same one, and many pods
would have no node while others had two. So nodes choose one after another, each the column that
brings all numbers so far nearest to what shares add up to.
"""

import numpy as np

from rescheduler.model.snapshot import Floats, Ints
from rescheduler.planning.search.columns.column_pool import ColumnPool
from rescheduler.planning.search.columns.pod_classes import Contents

# Columns with smaller shares are not chosen, except for the largest share of a node.
_LEAST_SHARE = 0.02


def rounded_shares(pool: ColumnPool, shares: Floats, totals: Ints, worth: Floats) -> Contents:
    """Contents for every node.

    There are `totals` pods of each class, and a pod of each is worth so much.
    """
    order = np.lexsort((-shares, pool.node))
    nodes = int(pool.node.max()) + 1
    first = np.searchsorted(pool.node[order], np.arange(nodes))
    largest = order[first]
    contents = pool.contents[largest]
    expected = np.zeros(contents.shape)
    np.add.at(expected, pool.node, pool.contents * shares[:, None])
    # Shares may add up to a few pods too many or too few. Every node makes up for its part.
    expected += (totals - expected.sum(axis=0)) / nodes
    is_open = np.bincount(pool.node, shares > _LEAST_SHARE) > 1
    off = (contents - expected)[~is_open].sum(axis=0)
    likely = order[shares[order] > _LEAST_SHARE]
    likely = likely[is_open[pool.node[likely]]]
    starts = np.flatnonzero(np.diff(pool.node[likely], prepend=-1))
    for columns in np.split(likely, starts[1:]) if len(likely) else []:
        node = pool.node[columns[0]]
        then = off - expected[node] + pool.contents[columns]
        best = int(((then * worth) ** 2).sum(axis=1).argmin())
        contents[node], off = pool.contents[columns[best]], then[best]
    return contents
