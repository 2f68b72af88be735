"""Strategies: what is worth changing. One file per strategy, with all of it.

A strategy states what it wants as a cost. The planner adds up the costs of all enabled strategies
and looks for moves that lower the sum, so strategies never undo each other's work. Whatever else
the planner wants to know of a strategy, it asks through the class `Strategy`. No other package
names a strategy, so strategies of other people can do all that those built in can.
"""

from collections.abc import Iterator, Mapping

from rescheduler.planning.strategies.constraint_repair import ConstraintRepair
from rescheduler.planning.strategies.cost_optimization import CostOptimization
from rescheduler.planning.strategies.defragmentation import Defragmentation
from rescheduler.planning.strategies.load_balancing import LoadBalancing
from rescheduler.planning.strategies.node_maintenance import NodeMaintenance
from rescheduler.planning.strategies.resource_optimization import ResourceOptimization
from rescheduler.planning.strategies.strategy import Strategy
from rescheduler.planning.strategies.topology_spread import TopologySpread
from rescheduler.planning.strategies.urgency import Urgency
from rescheduler.settings import Policy

_BUILT_IN: tuple[type[Strategy], ...] = (
    NodeMaintenance,
    ConstraintRepair,
    TopologySpread,
    ResourceOptimization,
    CostOptimization,
    Defragmentation,
    LoadBalancing,
)

STRATEGIES: dict[str, type[Strategy]] = {strategy.name: strategy for strategy in _BUILT_IN}
"""Those that are built in, by name. Of equally urgent ones, the first comes first."""


def enabled_strategies(
    policy: Policy, plugins: Mapping[str, type[Strategy]]
) -> Iterator[type[Strategy]]:
    """The strategies that a policy enables and those that they require, the most urgent first."""
    known = {**STRATEGIES, **plugins}
    enabled = [known[name] for name in policy.enabled_strategies if name in known]
    names = {strategy.name for strategy in enabled}
    names.update(required.name for strategy in enabled for required in strategy.requires)
    by_urgency = sorted(known.values(), key=lambda strategy: strategy.urgency)
    return (strategy for strategy in by_urgency if strategy.name in names)


def requested_strategies() -> tuple[str, ...]:
    """The strategies that are built in and carry out what a person asked for, by name."""
    kinds = STRATEGIES.values()
    return tuple(kind.name for kind in kinds if kind.urgency == Urgency.REQUESTED)


def is_requested(strategy: str, plugins: Mapping[str, type[Strategy]]) -> bool:
    """Whether moves of the strategy of this name were asked for by a person."""
    known = {**STRATEGIES, **plugins}
    return strategy in known and known[strategy].urgency == Urgency.REQUESTED


def cordons_nodes(policy: Policy, plugins: Mapping[str, type[Strategy]]) -> bool:
    """Whether nodes with the maintenance label are to be cordoned."""
    enabled = enabled_strategies(policy, plugins)
    return any(strategy.cordons_nodes(policy) for strategy in enabled)
