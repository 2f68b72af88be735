"""What the enabled strategies add up to: one number to bring down.

Most of it is a sum over nodes, so the effect of a move is known from the two nodes it changes.
"""

from collections.abc import Callable, Iterable

import numpy as np

from rescheduler.model.snapshot import Bools, Floats, Ints
from rescheduler.planning.node_load import NodeLoad
from rescheduler.planning.strategies.strategy import NodePrices, Rows, Strategy
from rescheduler.settings import Policy

# Below the price of any move: it only decides between targets that are equally good.
_EVENNESS = 1e-6


class Objective:
    """The costs of all enabled strategies together."""

    def __init__(
        self,
        load: NodeLoad,
        policy: Policy,
        movable: Ints,
        enabled: Iterable[type[Strategy]],
        is_due: Callable[[Bools], bool],
    ) -> None:
        """`enabled` are sorted by urgency. `is_due` is asked about nodes that are overloaded."""
        self._load = load
        self._weight_of = policy.strategy_weights
        self._rank: dict[Strategy, int] = {}
        self.strategies: list[Strategy] = []
        """Those that want something, the most urgent first."""
        self.idle: list[Strategy] = []
        self._weights: list[float] = []
        self._is_shaped = False
        self.move_price = 0.0
        """What a move that disrupts nobody much must gain at least."""
        for kind in enabled:
            strategy = kind(load, policy)
            self._rank[strategy] = len(self._rank)
            strategy.start_movable = movable
            to_relieve = strategy.nodes_to_relieve(load.used, movable)
            if not to_relieve.any() or (strategy.acts_on_overload and not is_due(to_relieve)):
                self.idle.append(strategy)
            else:
                self._enlist(strategy)

    @property
    def enabled(self) -> list[Strategy]:
        """All strategies, whether or not they want anything, the most urgent first."""
        return list(self._rank)

    def activate(self, strategy: Strategy) -> None:
        """The strategy wants something after all: of pods."""
        if strategy in self.idle:
            self.idle.remove(strategy)
            self._enlist(strategy)

    def _enlist(self, strategy: Strategy) -> None:
        self.strategies = sorted([*self.strategies, strategy], key=self._rank.__getitem__)
        self._weights = [self._weight_of.get(active.name, 1.0) for active in self.strategies]
        self._is_shaped = any(active.shapes_load for active in self.strategies)
        self.move_price = max((active.move_price for active in self.strategies), default=0.0)

    # ------------------------------------------------------------ what nodes cost

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

    def costs(self, used: Floats, movable: Ints) -> Floats:
        """What each node costs."""
        return self.cost(slice(None), used, movable)

    def guidance(self, rows: Rows, used: Floats, movable: Ints) -> Floats | float:
        """A nudge for searches, where the cost by itself shows no direction."""
        total: Floats | float = 0.0
        for strategy in self.strategies:
            nudge = strategy.guidance(rows, used, movable)
            if nudge is not None:
                total = total + nudge
        return total

    def update(self, used: Floats) -> None:
        """Let strategies look at all nodes again."""
        for strategy in self.strategies:
            strategy.update(used)

    # ------------------------------------------------------------ which nodes

    def avoids(self, rows: Rows, used: Floats) -> Bools | None:
        """Nodes that some strategy does not want to hold so much."""
        avoided: Bools | None = None
        for strategy in self.strategies + self.idle:
            found = strategy.avoids(rows, used)
            if found is not None:
                avoided = found if avoided is None else avoided | found
        return None if avoided is None else np.broadcast_to(avoided, used.shape[1:])

    def nodes_to_relieve(self, used: Floats, movable: Ints) -> Bools:
        """Nodes that some strategy wants pods to leave."""
        to_relieve = np.zeros(used.shape[1], bool)
        for strategy in self.strategies:
            to_relieve |= strategy.nodes_to_relieve(used, movable)
        return to_relieve

    def nodes_to_empty(self) -> Bools:
        """Nodes that every movable pod must leave."""
        to_empty = np.zeros(self._load.used.shape[1], bool)
        for strategy in self.enabled:
            nodes = strategy.nodes_to_empty()
            if nodes is not None:
                to_empty |= nodes
        return to_empty

    def overloaded(self) -> Bools:
        """Nodes that are overloaded at the start, whether or not it is time to act on it."""
        overloaded = np.zeros(self._load.used.shape[1], bool)
        for strategy in self.enabled:
            if strategy.acts_on_overload:
                overloaded |= strategy.nodes_to_relieve(self._load.used, strategy.start_movable)
        return overloaded

    # ------------------------------------------------------------ what else strategies say

    @property
    def needs_combined_moves(self) -> bool:
        """Whether several moves together may gain what none of them gains alone."""
        return any(strategy.needs_combined_moves for strategy in self.strategies)

    def node_prices(self) -> NodePrices | None:
        """What emptying nodes saves, if some strategy wants nodes emptied."""
        found = (strategy.node_prices() for strategy in self.strategies)
        return next((prices for prices in found if prices is not None), None)

    def not_worth_it(self, movable: Ints, moves: int) -> Strategy | None:
        """A strategy for which a plan of so many moves gains too little."""
        return next(
            (active for active in self.strategies if not active.is_worth_it(movable, moves)), None
        )

    def idle_reasons(self) -> str:
        """Why no strategy wants anything, with the numbers."""
        if not self.idle:
            return "no strategy is enabled"
        return "; ".join(self._idle_reason(strategy) for strategy in self.idle)

    def _idle_reason(self, strategy: Strategy) -> str:
        if strategy.nodes_to_relieve(self._load.used, strategy.start_movable).any():
            return f"{strategy.name} waits until load is too high for consecutiveRounds rounds"
        return strategy.idle_reason(self._load.used)
