"""The problem that searches work on: who could move, where to, and at what price."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from copy import copy
from functools import cached_property

import numpy as np

from rescheduler.model.moves import Mode
from rescheduler.model.snapshot import Bools, Floats, Ints, Snapshot
from rescheduler.planning.context import PlanningContext
from rescheduler.planning.feasibility.checker import FeasibilityChecker
from rescheduler.planning.feasibility.node_conflicts import NodeConflicts
from rescheduler.planning.movability.equivalence_groups import equivalence_groups
from rescheduler.planning.movability.group_parts import GroupPart
from rescheduler.planning.movability.movability import Movability
from rescheduler.planning.node_load import NodeLoad
from rescheduler.planning.problem.in_flight import with_arrivals
from rescheduler.planning.problem.move_costs import age_order, disruption_costs
from rescheduler.planning.problem.move_limits import MoveLimits
from rescheduler.planning.problem.objective import Objective
from rescheduler.planning.problem.placement_preferences import placement_preferences
from rescheduler.planning.strategies import (
    STRATEGIES,
    enabled_strategies,
    is_requested,
    requested_strategies,
)
from rescheduler.planning.strategies.pod_term import PodTerm
from rescheduler.planning.strategies.strategy import Strategy
from rescheduler.planning.strategies.strategy_context import StrategyContext
from rescheduler.planning.strategies.urgency import Urgency
from rescheduler.planning.strategies.violation_term import ViolationTerm
from rescheduler.settings import Policy

# How much a disruption adds to the price of a move if the policy states that price.
_SLIGHTLY = 0.02


class Problem:
    """A snapshot and a policy, prepared for searching."""

    def __init__(
        self,
        snapshot: Snapshot,
        policy: Policy,
        context: PlanningContext,
        plugins: Mapping[str, type[Strategy]],
        held_parts: Mapping[GroupPart, str] = {},
        at_rest: frozenset[str] = frozenset(),
    ) -> None:
        """`held_parts`: parts of pod groups that stay, and why. `at_rest`: strategies, by name,
        that do not act whatever they find."""
        self.at_rest = at_rest
        self.held_parts = held_parts
        self.torn_parts: set[GroupPart] = set()
        """Parts of which searches wanted some pods to go, and could not let all go."""
        as_it_is, snapshot = snapshot, with_arrivals(snapshot, context.in_flight)
        self.snapshot = snapshot
        self.policy = policy
        self.context = context
        requested = requested_strategies(plugins)
        self.movability = Movability(snapshot, policy, context, as_it_is, requested, held_parts)
        self.load = NodeLoad(snapshot, policy.maintenance_label, policy.wanted_resources)
        order = age_order(snapshot, context.now)
        self.groups = equivalence_groups(snapshot, self.movability.movable, order)
        self.movable_on = self._movable_on()
        self._known = {**STRATEGIES, **plugins}
        self.pods = StrategyContext(snapshot, self.load, self.movability, self.groups)
        self.objective = Objective(
            self.pods,
            policy,
            self.movable_on,
            enabled_strategies(policy, plugins),
            self._is_due,
            at_rest,
        )
        self.pod_terms = sorted(self._pod_terms(), key=lambda term: term.urgency)
        """What strategies want of single pods, kept up to date by the search that moves them."""
        self.rule_terms = list(self._rule_terms())
        """Rules that strategies look after, whether or not pods break them."""
        self.violation_terms = list(self._violation_terms())
        """Those that pods which may be moved break at the start."""
        self.max_moves = max(policy.max_reschedule_pods - self._moves_under_way(), 0)

    def with_limit(self, most_moves: int) -> "Problem":
        """The same with another limit on moves. Both share what searches move about."""
        limited = copy(self)
        limited.max_moves = most_moves
        return limited

    def _pod_terms(self) -> Iterator[PodTerm]:
        """All terms; strategies act if one of theirs has something to gain."""
        for strategy in self.objective.enabled:
            for term in strategy.pod_terms(self.pods):
                term.strategy = strategy.name
                if term.is_active():
                    self.objective.activate(strategy)
                yield term

    @cached_property
    def placement_terms(self) -> list[PodTerm]:
        """What else counts in choosing targets, and is never a reason to move a pod."""
        terms = [
            term
            for strategy in self.objective.enabled
            for term in strategy.placement_terms(self.pods)
        ]
        return [*terms, *placement_preferences(self.pods, self.pod_terms)]

    @cached_property
    def search_terms(self) -> list[PodTerm]:
        """All terms about pods that searches count."""
        return [*self.pod_terms, *self.placement_terms]

    def _rule_terms(self) -> Iterator[ViolationTerm]:
        for strategy in self.objective.enabled:
            for term in strategy.violation_terms(self.pods):
                term.strategy = strategy.name
                yield term

    def _violation_terms(self) -> Iterator[ViolationTerm]:
        by_name = {strategy.name: strategy for strategy in self.objective.enabled}
        for term in self.rule_terms:
            if term.is_active():
                self.objective.activate(by_name[term.strategy])
                yield term

    def _moves_under_way(self) -> int:
        """How many earlier planned moves count against the limit of this plan.

        What a person asked for does not wait for moves that nobody asked for.
        """
        counted = [move.strategy for move in self.context.in_flight if move.counts_as_planned]
        if any(strategy.urgency == Urgency.REQUESTED for strategy in self.objective.strategies):
            return sum(is_requested(name, self._known) for name in counted)
        return len(counted)

    def _is_due(self, overloaded: Bools) -> bool:
        """Whether some of these nodes have been overloaded for as many rounds as asked for."""
        counted, rounds = self.context.rounds_overloaded, self.policy.consecutive_rounds or 1
        if counted is None:
            return True
        names = self.snapshot.nodes.names
        return any(counted.get(names[node], 1) >= rounds for node in np.flatnonzero(overloaded))

    def _movable_on(self) -> Ints:
        counts = np.bincount(
            self.groups.node, weights=self.groups.count, minlength=len(self.snapshot.nodes)
        )
        return counts.astype(np.int32)

    # ------------------------------------------------------------ what moves are worth

    @cached_property
    def move_prices(self) -> Floats:
        """What a move of a pod of each template must gain at least."""
        disruptions = disruption_costs(self.snapshot, self.context, self.movability)
        if any(strategy.states_move_price(self.policy) for strategy in self._known.values()):
            # What a move costs was said; how much it disrupts only decides between equals.
            disruptions = 1.0 + _SLIGHTLY * (disruptions - 1.0)
        else:
            disruptions = self.policy.move_cost_scale * disruptions
        return np.asarray(disruptions * self.objective.move_price)

    @cached_property
    def priorities(self) -> Ints:
        """The priority of each template's pods."""
        return np.array([template.priority for template in self.snapshot.templates], np.int32)

    @cached_property
    def start_value(self) -> float:
        """What the nodes cost as they are, for searches."""
        return float(self.objective.costs(self.load.used, self.movable_on).sum())

    @cached_property
    def stated_value(self) -> float:
        """What the nodes cost as they are, for people."""
        everyone = slice(None)
        return float(self.objective.stated_cost(everyone, self.load.used, self.movable_on).sum())

    @cached_property
    def pod_cost(self) -> float:
        """What it costs that pods are where they are, apart from what nodes hold."""
        return sum(term.total() for term in self.pod_terms) + sum(self.rule_costs.values())

    @cached_property
    def rule_costs(self) -> dict[str, float]:
        """By strategy: what it costs that pods break rules where they are."""
        costs: defaultdict[str, float] = defaultdict(float)
        for term in self.violation_terms:
            costs[term.strategy] += term.total()
        return dict(costs)

    # ------------------------------------------------------------ where pods may go

    @property
    def checker(self) -> FeasibilityChecker:
        """Which nodes accept which pods, as the search moves them."""
        return self.pods.checker

    @property
    def conflicts(self) -> NodeConflicts:
        """Pods that must not share a node, as they are at the start."""
        return self.pods.conflicts

    @cached_property
    def limits(self) -> MoveLimits:
        """How many pods may move."""
        return MoveLimits(
            self.snapshot, self.policy, self.movability, self.context, self._beside_in_flight()
        )

    def _beside_in_flight(self) -> set[int]:
        """Templates that count for the same spread or affinity rules as a pod in flight."""
        rows = list(self.movability.in_flight)
        templates = set(self.snapshot.pods.template[rows].tolist())
        workloads = {move.workload for move in self.context.in_flight if move.workload}
        if workloads:
            names = self.movability.workloads.names
            templates.update(row for row, name in enumerate(names) if name in workloads)
        depends = self.checker.depends_on_pods if templates else ()
        affected = {template for template in templates if depends[template]}
        return affected.union(*(self.checker.affected_by(template) for template in templates))

    @cached_property
    def nodes_to_empty(self) -> Bools:
        """Nodes that every movable pod must leave."""
        return self.objective.nodes_to_empty()

    def mode(self, template: int) -> Mode:
        """How pods of the template are moved."""
        return self.movability.mode(template)

    def accepts(self, checker: FeasibilityChecker, pod: int, target: int) -> bool:
        """Whether the target takes the pod at every moment of its move, to nobody's harm."""
        template = int(self.snapshot.pods.template[pod])
        # Where only the target's own pods count, it makes no difference that the pod is elsewhere.
        is_local = not checker.depends_beyond_node[template]
        by_handoff = self.mode(template) != Mode.EVICT
        if (is_local or by_handoff) and checker.refuses(template, target):
            return False
        if not is_local and checker.refuses_without(pod, target):
            return False
        return not checker.would_harm_others(pod, target)
