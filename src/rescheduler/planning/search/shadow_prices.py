"""What room is worth: the shadow prices of resources when nodes are bought to cover a demand."""

import numpy as np

from rescheduler.model.snapshot import Floats

_ITERATIONS = 400
# Of the price of room for everything: resources that are not scarce still have to fit.
_LEAST_SHARE = 0.05


def shadow_prices(room: Floats, prices: Floats, demand: Floats) -> Floats:
    """The price of a unit of each resource, in the unit of node prices.

    The dual of "pay for as much of each node as needed so that all demand is covered", climbed by
    subgradients: a resource gets dearer while what is worth buying at these prices does not cover
    it. Rows are resources, columns nodes.
    """
    total = room.sum(axis=1)
    wanted = np.where(total > 0, demand / np.where(total > 0, total, 1.0), 0.0)
    share = np.divide(room, total[:, None], out=np.zeros_like(room), where=total[:, None] > 0)
    everything = float(prices.sum())
    dual = wanted * everything / max(len(room), 1)
    best, best_value = dual, -np.inf
    for iteration in range(_ITERATIONS):
        profit = dual @ share - prices
        bought = profit > 0
        value = float(dual @ wanted - profit[bought].sum())
        if value > best_value:
            best, best_value = dual, value
        slope = wanted - share[:, bought].sum(axis=1)
        dual = np.maximum(dual + everything * slope / (1 + iteration), 0.0)
    best = np.maximum(best, _LEAST_SHARE * everything * wanted / len(room))
    return np.asarray(np.divide(best, total, out=np.zeros_like(best), where=total > 0))
