"""What nodes cost: as their annotation says, or else the table of instance types of a policy."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from rescheduler.labels import INSTANCE_TYPE
from rescheduler.model.objects import Node
from rescheduler.model.snapshot import Floats


def node_prices(nodes: Sequence[Node], by_instance_type: Mapping[str, float]) -> Floats:
    """What each node costs; one whose price is not stated costs the mean of the others."""
    prices = np.array([_price_of(node, by_instance_type) for node in nodes], np.float64)
    known = np.isfinite(prices)
    return np.where(known, prices, prices[known].mean() if known.any() else 1.0)


def _price_of(node: Node, by_instance_type: Mapping[str, float]) -> float:
    """NaN if it is not stated."""
    try:
        price = float(node.metadata.annotations.node_cost)
    except ValueError:
        price = by_instance_type.get(node.metadata.labels.get(INSTANCE_TYPE, ""), math.nan)
    return price if price >= 0 else math.nan
