"""What the enabled strategies add up to: one number to bring down.

It is a sum over nodes, so the effect of a move is known from the two nodes it touches.
"""

import numpy as np

from rescheduler.model.snapshot import Bools, Floats
from rescheduler.planning.load import NodeLoad, load_of
from rescheduler.planning.strategies import STRATEGIES, Strategy
from rescheduler.settings import Policy


class Objective:
    """The costs of all enabled strategies together."""

    def __init__(self, load: NodeLoad, policy: Policy) -> None:
        self._strategies: list[Strategy] = [
            make(load, policy)
            for name, make in STRATEGIES.items()
            if name in policy.enabled_strategies
        ]
        self._load = load

    def costs(self, utilization: Floats) -> Floats:
        """What each node costs at this utilisation."""
        everyone = slice(None)
        total = np.zeros(utilization.shape[:-1])
        for strategy in self._strategies:
            total += strategy.cost(utilization, everyone)
        return total

    def cost(self, utilization: Floats, node: int) -> float:
        """What one node would cost at this utilisation of it."""
        return float(sum(strategy.cost(utilization, node) for strategy in self._strategies))

    def value(self, utilization: Floats) -> float:
        """The objective."""
        return float(self.costs(utilization).sum())

    def pressed(self, utilization: Floats) -> Bools:
        """Nodes that some strategy wants pods to leave."""
        pressed = np.zeros(len(utilization), bool)
        for strategy in self._strategies:
            pressed |= strategy.pressed(utilization)
        return pressed

    def avoids(self, utilization: Floats) -> Bools:
        """Nodes that some strategy does not want to come to this utilisation."""
        avoided = np.zeros(len(utilization), bool)
        for strategy in self._strategies:
            avoided |= strategy.avoids(utilization)
        return avoided

    def strategy_behind(self, node: int, utilization: Floats) -> Strategy:
        """The most urgent strategy that wants pods to leave this node."""
        return next(each for each in self._strategies if each.pressed(utilization)[node])

    def why_at_rest(self, utilization: Floats) -> str:
        """Why no strategy wants anything, with the numbers."""
        if not self._strategies:
            return "no strategy is enabled"
        loads = load_of(utilization)[self._load.takes_pods]
        if not len(loads):
            return "no node is open to users' pods"
        low, high = float(loads.min()), float(loads.max())
        names = ", ".join(each.name for each in self._strategies)
        return f"{names} found the nodes in order, loaded between {low:.0%} and {high:.0%}"
