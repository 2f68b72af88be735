"""What the enabled strategies add up to: one number to bring down.

Most of it is a sum over nodes, so the effect of a move is known from the two nodes it touches.
"""

from collections.abc import Callable, Mapping

import numpy as np

from rescheduler.model.snapshot import Bools, Floats, Ints
from rescheduler.planning.node_load import NodeLoad
from rescheduler.planning.strategies import STRATEGIES
from rescheduler.planning.strategies.strategy import Rows, Strategy
from rescheduler.settings import Policy

# Below the price of any move: it only decides between targets that are equally good.
_EVENNESS = 1e-6
# Strategies that have an opinion on every node that is neither too full nor to be emptied.
_SHAPING = ("LoadBalancing", "CostOptimization", "Defragmentation")


class Objective:
    """The costs of all enabled strategies together."""

    def __init__(
        self,
        load: NodeLoad,
        policy: Policy,
        movable: Ints,
        others: Mapping[str, type[Strategy]],
        is_due: Callable[[Bools], bool],
    ) -> None:
        self._load = load
        self._known = {**STRATEGIES, **others}
        self._weight_of = policy.strategy_weights
        names = set(policy.enabled_strategies)
        if "CostOptimization" in names:
            # What is packed must also be right.
            names.add("ConstraintRepair")
        self.strategies: list[Strategy] = []
        """Those that want something, the most urgent first."""
        self.resting: list[Strategy] = []
        self._weights: list[float] = []
        self._is_shaped = False
        self.move_price = 0.0
        """What a move that disturbs nobody much must gain at least."""
        for name in (name for name in self._known if name in names):
            strategy = self._known[name](load, policy)
            strategy.start_movable = movable
            pressed = strategy.pressed(load.used, movable)
            if not pressed.any() or (strategy.is_about_load and not is_due(pressed)):
                self.resting.append(strategy)
            else:
                self._enlist(strategy)

    def rests(self, name: str) -> bool:
        """Whether the strategy is enabled and, as far as nodes are concerned, wants nothing."""
        return any(each.name == name for each in self.resting)

    def wake(self, name: str) -> None:
        """The strategy wants something after all: of pods."""
        for strategy in [each for each in self.resting if each.name == name]:
            self.resting.remove(strategy)
            self._enlist(strategy)

    def _enlist(self, strategy: Strategy) -> None:
        urgency = list(self._known).index
        self.strategies = sorted([*self.strategies, strategy], key=lambda each: urgency(each.name))
        self._weights = [self._weight_of.get(each.name, 1.0) for each in self.strategies]
        self._is_shaped = any(each.name in _SHAPING for each in self.strategies)
        self.move_price = max((each.move_price for each in self.strategies), default=0.0)

    def find(self, name: str) -> Strategy | None:
        """An enabled strategy that wants something."""
        return next((each for each in self.strategies if each.name == name), None)

    def cost(self, rows: Rows, used: Floats, movable: Ints) -> Floats:
        """What it costs that these nodes hold so much."""
        total: Floats | None = None
        for strategy, weight in zip(self.strategies, self._weights, strict=True):
            cost = strategy.cost(rows, used, movable)
            if weight != 1.0:
                cost = cost * weight
            total = cost if total is None else total + cost
        if not self._is_shaped:
            evenness = self._evenness(rows, used)
            total = evenness if total is None else total + evenness
        assert total is not None
        return total

    def _evenness(self, rows: Rows, used: Floats) -> Floats:
        cpu, memory = self._load.capacity[0][rows], self._load.capacity[1][rows]
        load = used[0] / cpu + used[1] / memory
        return np.asarray(_EVENNESS * load * load)

    def guidance(self, rows: Rows, used: Floats, movable: Ints) -> Floats | float:
        """A nudge for searches, where the cost by itself tells no direction."""
        total: Floats | float = 0.0
        for strategy in self.strategies:
            nudge = strategy.guidance(rows, used, movable)
            if nudge is not None:
                total = total + nudge
        return total

    def costs(self, used: Floats, movable: Ints) -> Floats:
        """What each node costs."""
        return self.cost(slice(None), used, movable)

    def avoids(self, rows: Rows, used: Floats) -> Bools | None:
        """Nodes that some strategy does not want to hold so much."""
        avoided: Bools | None = None
        for strategy in self.strategies + self.resting:
            found = strategy.avoids(rows, used)
            if found is not None:
                avoided = found if avoided is None else avoided | found
        return None if avoided is None else np.broadcast_to(avoided, used.shape[1:])

    def follow(self, used: Floats) -> None:
        """Let strategies look at all nodes anew."""
        for strategy in self.strategies:
            strategy.follow(used)

    def pressed(self, used: Floats, movable: Ints) -> Bools:
        """Nodes that some strategy wants pods to leave."""
        pressed = np.zeros(used.shape[1], bool)
        for strategy in self.strategies:
            pressed |= strategy.pressed(used, movable)
        return pressed

    def why_at_rest(self) -> str:
        """Why no strategy wants anything, with the numbers."""
        if not self.resting:
            return "no strategy is enabled"
        return "; ".join(self._why_resting(each) for each in self.resting)

    def _why_resting(self, strategy: Strategy) -> str:
        if strategy.pressed(self._load.used, strategy.start_movable).any():
            return f"{strategy.name} waits until load is too high for consecutiveRounds rounds"
        return strategy.at_rest(self._load.used)

    def overloaded(self) -> Bools:
        """Nodes whose load is too high at the start, whether or not it is time to act on it."""
        overloaded = np.zeros(self._load.used.shape[1], bool)
        for strategy in self.strategies + self.resting:
            if strategy.is_about_load:
                overloaded |= strategy.pressed(self._load.used, strategy.start_movable)
        return overloaded
