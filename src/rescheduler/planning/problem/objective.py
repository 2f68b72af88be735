"""What the enabled strategies add up to: one number to bring down.

Most of it is a sum over nodes, so the effect of a move is known from the two nodes it changes.

A strategy *acts* if it wants something changed, and is at rest otherwise. One that is at rest is
still heard: what makes a node worse for it than it is now costs, and what makes it better gains
nothing. So it is no reason for a move, but no other strategy undoes what it has reached. Every plan
lowers the sum of all enabled strategies, and so plans come to rest.
"""

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from rescheduler.model.snapshot import Bools, Floats, Ints
from rescheduler.planning.node_load import PODS_ROW
from rescheduler.planning.strategies.strategy import Rows, Strategy
from rescheduler.planning.strategies.strategy_context import StrategyContext
from rescheduler.planning.strategies.urgency import Urgency
from rescheduler.settings import Policy

# Below the price of any move: it only decides between targets that are equally good.
_EVENNESS = 1e-6


class Objective:
    """The costs of all enabled strategies together."""

    def __init__(
        self,
        context: StrategyContext,
        policy: Policy,
        movable: Ints,
        enabled: Iterable[type[Strategy]],
        is_due: Callable[[Bools], bool],
        at_rest: frozenset[str] = frozenset(),
    ) -> None:
        """`enabled` are sorted by urgency. `is_due` is asked about nodes that are overloaded.

        Those of `at_rest`, by name, do not act whatever they find.
        """
        self._told_to_rest = at_rest
        self._load = context.load
        self._movable = movable
        self._stated_weights = policy.strategy_weights
        self._rank: dict[Strategy, int] = {}
        self._weight: dict[Strategy, float] = {}
        self.strategies: list[Strategy] = []
        """Those that act, the most urgent first."""
        self.resting: list[Strategy] = []
        """Those that are only heard."""
        self._stuck: list[Strategy] = []
        """Those of them that would act if moves could change anything."""
        self._is_shaped = False
        self.move_price = 0.0
        """What a move that disrupts nobody much must gain at least."""
        self._start_costs: dict[Strategy, Floats] = {}
        for kind in enabled:
            strategy = kind(self._load, policy)
            self._rank[strategy] = len(self._rank)
            self._weight[strategy] = self._weight_of(strategy)
            strategy.start_movable = movable
            strategy.prepare(context)
            to_relieve = strategy.nodes_to_relieve(self._load.used, movable)
            is_waiting = strategy.acts_on_overload and not is_due(to_relieve)
            if not to_relieve.any() or is_waiting or strategy.name in at_rest:
                self.resting.append(strategy)
            elif strategy.is_at_rest():
                self.resting.append(strategy)
                self._stuck.append(strategy)
            else:
                self._enlist(strategy)

    def _weight_of(self, strategy: Strategy) -> float:
        """What is required comes first, whatever its weight."""
        if strategy.urgency < Urgency.IMPROVEMENT:
            return 1.0
        return self._stated_weights.get(strategy.name, 1.0)

    @property
    def enabled(self) -> list[Strategy]:
        """All strategies, whether or not they act, the most urgent first."""
        return list(self._rank)

    def activate(self, strategy: Strategy) -> None:
        """The strategy acts after all: it wants something of pods."""
        if strategy in self.resting and strategy.name not in self._told_to_rest:
            self.resting.remove(strategy)
            self._enlist(strategy)

    def _enlist(self, strategy: Strategy) -> None:
        self.strategies = sorted([*self.strategies, strategy], key=self._rank.__getitem__)
        self._is_shaped = any(active.shapes_load for active in self.strategies)
        self.move_price = max((active.move_price for active in self.strategies), default=0.0)

    # ------------------------------------------------------------ what nodes cost

    def cost(self, rows: Rows, used: Floats, movable: Ints) -> Floats:
        """What searches bring down: what it costs that these nodes hold so much."""
        total = self._tie_breaker(rows, used)
        for strategy in self.strategies:
            cost = strategy.cost(rows, used, movable)
            resting = strategy.resting_nodes()
            if resting is not None:
                worse = np.maximum(cost - self._start_cost(strategy)[rows], 0.0)
                cost = np.where(resting[rows], worse, cost)
            total = total + self._weighted(strategy, cost)
        for strategy in self.resting:
            worse = strategy.cost(rows, used, movable) - self._start_cost(strategy)[rows]
            total = total + self._weighted(strategy, np.maximum(worse, 0.0))
        return np.asarray(total)

    def _weighted(self, strategy: Strategy, cost: Floats) -> Floats:
        weight = self._weight[strategy]
        return cost if weight == 1.0 else weight * cost

    def stated_cost(self, rows: Rows, used: Floats, movable: Ints) -> Floats:
        """What plans report: the sum of all enabled strategies, and nothing else."""
        total = np.zeros(np.shape(movable))
        for strategy in self.enabled:
            total = total + self._weight[strategy] * strategy.cost(rows, used, movable)
        return np.asarray(total)

    def _start_cost(self, strategy: Strategy) -> Floats:
        if strategy not in self._start_costs:
            cost = strategy.cost(slice(None), self._load.used, self._movable)
            self._start_costs[strategy] = cost
        return self._start_costs[strategy]

    def _tie_breaker(self, rows: Rows, used: Floats) -> Floats:
        """Even numbers of pods and, where no strategy has an opinion on it, even load."""
        slots = used[PODS_ROW] / self._load.capacity[PODS_ROW][rows]
        total = slots * slots
        if not self._is_shaped:
            cpu, memory = self._load.capacity[0][rows], self._load.capacity[1][rows]
            load = used[0] / cpu + used[1] / memory
            total = total + load * load
        return np.asarray(_EVENNESS * total)

    def costs(self, used: Floats, movable: Ints) -> Floats:
        """What each node costs."""
        return self.cost(slice(None), used, movable)

    def measures(
        self, used: Floats, movable: Ints, rule_costs: Mapping[str, float]
    ) -> dict[str, dict[str, float]]:
        """By strategy: what it measures if all nodes hold so much, and broken rules cost so much.

        What a strategy wants of pods is as far as the plan was followed.
        """
        found = {}
        for strategy in self.enabled:
            names = [measure.name for measure in strategy.measures]
            values = strategy.measured(used, movable, rule_costs.get(strategy.name, 0.0))
            found[strategy.name] = dict(zip(names, map(float, values), strict=True))
        return {name: measured for name, measured in found.items() if measured}

    # ------------------------------------------------------------ which nodes

    def avoids(self, rows: Rows, used: Floats, *, is_requested: bool = False) -> Bools | None:
        """Nodes that some strategy does not want to hold so much.

        For a pod that a person wants to leave its node, only what else people asked for counts.
        """
        avoided: Bools | None = None
        for strategy in self.enabled:
            if is_requested and strategy.urgency > Urgency.REQUESTED:
                continue
            found = strategy.avoids(rows, used)
            if found is not None:
                avoided = found if avoided is None else avoided | found
        return None if avoided is None else np.broadcast_to(avoided, used.shape[1:])

    def nodes_to_relieve(
        self, used: Floats, movable: Ints, at_most: Urgency = Urgency.IMPROVEMENT
    ) -> Bools:
        """Nodes that some strategy of at least this urgency wants pods to leave."""
        to_relieve = np.zeros(used.shape[1], bool)
        for strategy in self.strategies + self._stuck:
            if strategy.urgency <= at_most:
                to_relieve |= strategy.nodes_to_relieve(used, movable)
        return to_relieve

    def nodes_to_relieve_by_strategy(self, used: Floats, movable: Ints) -> dict[str, Bools]:
        """Nodes that pods should leave by strategy, the most urgent of those that act first."""
        return {
            strategy.name: strategy.nodes_to_relieve(used, movable)
            for strategy in self.strategies + self._stuck
        }

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
                overloaded |= strategy.nodes_to_relieve(self._load.used, self._movable)
        return overloaded

    # ------------------------------------------------------------ what else strategies say

    @property
    def needs_combined_moves(self) -> bool:
        """Whether several moves together may gain what none of them gains alone."""
        return any(strategy.needs_combined_moves for strategy in self.strategies)

    def demanding(self, movable: Ints) -> list[Strategy]:
        """Strategies for which not every plan is worth its moves."""
        return [active for active in self.strategies if not active.is_worth_it(movable, 0)]

    def not_worth_it(self, movable: Ints, moves: int) -> Strategy | None:
        """A strategy for which a plan of so many moves gains too little."""
        return next(
            (active for active in self.strategies if not active.is_worth_it(movable, moves)), None
        )

    def idle_reasons(self) -> str:
        """Why no strategy wants anything, with the numbers."""
        if not self.resting:
            return "no strategy is enabled"
        return "; ".join(self._idle_reason(strategy) for strategy in self.resting)

    def _idle_reason(self, strategy: Strategy) -> str:
        if strategy.name in self._told_to_rest:
            return f"{strategy.name} found nothing that is worth its moves"
        to_relieve = strategy.nodes_to_relieve(self._load.used, self._movable)
        if to_relieve.any() and strategy not in self._stuck:
            return f"{strategy.name} waits until load is too high for consecutiveRounds rounds"
        return strategy.idle_reason(self._load.used)
