"""Strategies: what is worth changing. One file per strategy, with all of it.

A strategy states what it wants as a cost. The planner adds up the costs of all enabled strategies
and looks for moves that lower the sum, so within a plan they are weighed against each other.
Whatever else the planner wants to know of a strategy, it asks through the class `Strategy`. No
other package names a strategy, so strategies of other people can do all that those built in can.
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
    names = set[str]().union(
        *(_with_required(known[name]) for name in policy.enabled_strategies if name in known)
    )
    by_urgency = sorted(known.values(), key=lambda strategy: strategy.urgency)
    return (strategy for strategy in by_urgency if strategy.name in names)


def depending_on(name: str, plugins: Mapping[str, type[Strategy]]) -> frozenset[str]:
    """The names of a strategy and of those that require it."""
    known = {**STRATEGIES, **plugins}
    return frozenset(other for other in known if name in _with_required(known[other]))


def _with_required(strategy: type[Strategy]) -> set[str]:
    """The names of a strategy, of those that it requires, and so on."""
    found: set[str] = set()
    waiting = [strategy]
    while waiting:
        current = waiting.pop()
        if current.name not in found:
            found.add(current.name)
            waiting.extend(current.requires)
    return found


def requested_strategies(plugins: Mapping[str, type[Strategy]] = {}) -> frozenset[str]:
    """By name, the strategies that carry out what a person asked for."""
    known = {**STRATEGIES, **plugins}
    return frozenset(name for name, kind in known.items() if kind.urgency == Urgency.REQUESTED)


def is_requested(strategy: str, plugins: Mapping[str, type[Strategy]]) -> bool:
    """Whether moves of the strategy of this name were asked for by a person."""
    known = {**STRATEGIES, **plugins}
    return strategy in known and known[strategy].urgency == Urgency.REQUESTED


def cordons_nodes(policy: Policy, plugins: Mapping[str, type[Strategy]]) -> bool:
    """Whether nodes with the maintenance label are to be cordoned."""
    enabled = enabled_strategies(policy, plugins)
    return any(strategy.cordons_nodes(policy) for strategy in enabled)


def empties_maintenance_nodes(policy: Policy, plugins: Mapping[str, type[Strategy]]) -> bool:
    """Whether pods leave nodes with the maintenance label, cordoned or not."""
    enabled = enabled_strategies(policy, plugins)
    return any(strategy.empties_maintenance_nodes for strategy in enabled)
