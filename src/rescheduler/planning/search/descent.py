"""Descent: the best single move, again and again.

Every move is checked with all earlier ones carried out, so the moves are in an order in which they
are possible.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from rescheduler.model.snapshot import Bools, Floats, Ints
from rescheduler.planning.planning_time import PlanningTime
from rescheduler.planning.problem.allowances import Allowances
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.problem.remaining_violations import RemainingViolations
from rescheduler.planning.search.arrival_costs import ArrivalCosts, MoveCause
from rescheduler.planning.search.node_totals import NodeTotals
from rescheduler.planning.search.steps import SearchStep

# Pods are looked for on the nodes with most to gain; those further down have less.
_NODES_LOOKED_AT = 8
# Gains this close to the best count as equal, and then the pod of lower priority goes.
_ABOUT_AS_GOOD = 0.95
# Of the objective: not worth a search.
_NOTHING = 1e-4
# Moves that are looked for a little longer than others: hardly any plan is worse than some.
_FIRST_MOVES = 10
# Targets tried for a pod that a plugin keeps from the best ones.
_TRIES = 8


class Descent:
    """Chooses one move after another, each time the best there is."""

    def __init__(
        self, problem: Problem, time: PlanningTime, begun: Sequence[SearchStep] = ()
    ) -> None:
        """`begun` are the steps of a plan that it goes on with, in their order."""
        self._problem = problem
        self._time = time
        self._groups = problem.groups
        self.totals = NodeTotals(problem.load, problem.objective, problem.movable_on)
        self._allowances = Allowances(problem)
        self._violations = RemainingViolations(problem)
        self._left: Ints = problem.groups.count.copy()
        self.steps: list[SearchStep] = []
        self._moved: set[int] = set()
        for step in begun:
            self._follow(step)
        self._begun = len(begun)
        self._arrival_costs = ArrivalCosts(problem, self.totals)
        self._gain_of_leaving = self._gains(np.arange(len(self._groups)))
        self._hopeless: Bools = np.zeros(len(self._groups), bool)
        self._most_to_gain = self._best_of_nodes()
        self.was_cut_short = False
        """Whether the time was up before all moves were looked at."""

    def run(self) -> list[SearchStep]:
        """Moves until nothing is gained any more, the limit is reached or the time is up."""
        while len(self.steps) < self._problem.max_moves:
            if self._is_out_of_time():
                self.was_cut_short = True
                break
            found = self._best()
            if found is None:
                break
            self._carry_out(*found)
        return self.steps

    def _is_out_of_time(self) -> bool:
        if len(self.steps) - self._begun < _FIRST_MOVES:
            return self._time.is_over_for_first_moves()
        return self._time.is_over_for_search()

    def left_something(self) -> bool:
        """Whether there may be more to gain than by single moves."""
        gains = self._violations.on_nodes(self._groups.template, self._groups.node)
        return bool((gains * (self._left > 0)).any() or self.totals.recomputed_total() > _NOTHING)

    # ------------------------------------------------------------ what leaving gains

    def _gains(self, groups: npt.NDArray[np.int64]) -> Floats:
        """What is gained if a pod of each of these groups leaves, less the price of its move."""
        totals, load = self.totals, self._problem.load
        nodes, templates = self._groups.node[groups], self._groups.template[groups]
        then = totals.used[:, nodes] - load.demand[:, templates]
        cost = totals.objective.cost(nodes, then, totals.movable[nodes] - 1)
        gains = totals.costs[nodes] - cost - self._problem.move_prices[templates]
        gains += self._violations.on_nodes(templates, nodes)
        gains += self._violations.suspected(groups)
        for term in self._problem.pod_terms:
            gains += term.gain_bounds(templates, nodes)
        return np.asarray(gains)

    def _best_of_nodes(self) -> Floats:
        best = np.full(len(self._problem.snapshot.nodes), -np.inf)
        live = self._left > 0
        np.maximum.at(best, self._groups.node[live], self._gain_of_leaving[live])
        return best

    def _refresh(self, nodes: Iterable[int]) -> None:
        """Bring up to date what pods on these nodes gain by leaving."""
        changed = sorted(nodes)
        groups = self._groups_on(changed)
        gains = self._gain_of_leaving[groups] = self._gains(groups)
        live = ~self._hopeless[groups] & (self._left[groups] > 0)
        self._most_to_gain[changed] = -np.inf
        np.maximum.at(self._most_to_gain, self._groups.node[groups[live]], gains[live])

    def _groups_on(self, nodes: Sequence[int]) -> npt.NDArray[np.int64]:
        ranges = [
            np.arange(*self._groups.of_node(node).indices(len(self._groups))) for node in nodes
        ]
        return np.concatenate(ranges) if ranges else np.empty(0, np.int64)

    def _most_to_gain_on(self, node: int) -> float:
        groups = self._groups.of_node(node)
        live = ~self._hopeless[groups] & (self._left[groups] > 0)
        return float(self._gain_of_leaving[groups][live].max(initial=-np.inf))

    # ------------------------------------------------------------ finding the best move

    def _best(self) -> tuple[int, int] | None:
        """The group and the target of the best move, or None if no move gains anything."""
        while True:
            groups = self._candidates()
            if not len(groups):
                return None
            arrival = self._arrival_costs.least(
                self._groups.template[groups], self._groups.node[groups]
            )
            gains = self._gain_of_leaving[groups] - arrival
            for group in self._in_order(groups, gains):
                target = self._verified_target(group)
                if target is not None:
                    return group, target
                self._give_up(group)
            for group in groups[gains <= 0].tolist():
                self._give_up(group)

    def _candidates(self) -> npt.NDArray[np.int64]:
        """Groups with pods that could go, on the nodes with most to gain."""
        promising = np.flatnonzero(self._most_to_gain > 0)
        if len(promising) > _NODES_LOOKED_AT:
            most = np.argpartition(-self._most_to_gain[promising], _NODES_LOOKED_AT - 1)
            promising = promising[most[:_NODES_LOOKED_AT]]
        groups = self._groups_on(promising.tolist())
        live = (
            ~self._hopeless[groups] & (self._left[groups] > 0) & (self._gain_of_leaving[groups] > 0)
        )
        allowed = self._allowances.may_go[self._groups.template[groups]]
        allowed &= ~self._allowances.used_up[self._groups.node[groups]]
        for group in groups[live & ~allowed].tolist():
            self._give_up(group)
            live &= groups != group
        return groups[live]

    def _in_order(self, groups: npt.NDArray[np.int64], gains: Floats) -> list[int]:
        """Groups that gain, the best first; of those about as good, lower priority goes first."""
        gainful = np.flatnonzero(gains > 0)
        if not len(gainful):
            return []
        about_best = gains[gainful] >= _ABOUT_AS_GOOD * gains[gainful].max()
        priority = np.where(
            about_best, self._problem.priorities[self._groups.template[groups[gainful]]], 0
        )
        order = np.lexsort((-gains[gainful], priority, ~about_best))
        return [int(group) for group in groups[gainful[order]]]

    def _verified_target(self, group: int) -> int | None:
        """The best target that takes the pod at every moment of its move."""
        template, node = int(self._groups.template[group]), int(self._groups.node[group])
        for cause in self._arrival_costs.causes(template, node):
            target = self._target(group, cause)
            if target is not None:
                return target
        return None

    def _target(self, group: int, cause: MoveCause) -> int | None:
        pod, source = self._pod(group), int(self._groups.node[group])
        template = int(self._groups.template[group])
        if self._violations.clear_suspicion(group, pod):
            self._refresh([source])
        row = self._arrival_costs.row(template, cause)
        gain = float(self._gain_of_leaving[group])
        for term in self._problem.search_terms:
            costs = term.arrival_costs(template, source)
            row += 0.0 if costs is None else costs
        for term in self._problem.pod_terms:
            bounds = term.gain_bounds(self._groups.template[[group]], self._groups.node[[group]])
            gain += term.gain_of_leaving(template, source) - float(bounds[0])
        row[source] = np.inf
        row[self._allowances.used_up] = np.inf
        for _ in range(_TRIES):
            target = int(row.argmin())
            if gain - row[target] <= 0:
                return None
            if self._problem.accepts(self._problem.checker, pod, target):
                return target
            row[target] = np.inf
        return None

    def _pod(self, group: int) -> int:
        """The next pod of the group to go."""
        first = int(self._groups.first[group])
        pods: list[int] = self._groups.pods[first : first + self._groups.count[group]].tolist()
        return next(pod for pod in pods if pod not in self._moved)

    def _give_up(self, group: int) -> None:
        self._hopeless[group] = True
        node = int(self._groups.node[group])
        self._most_to_gain[node] = self._most_to_gain_on(node)

    # ------------------------------------------------------------ carrying it out

    def _carry_out(self, group: int, target: int) -> None:
        source, template = int(self._groups.node[group]), int(self._groups.template[group])
        changed = self._follow(SearchStep(self._pod(group), source, target))
        self._arrival_costs.refresh(template, (source, target))
        self._refresh(changed)

    def _follow(self, step: SearchStep) -> set[int]:
        """Carry out a step. Returns nodes whose pods now gain more or less by leaving."""
        pod, source, target = step
        template = int(self._problem.snapshot.pods.template[pod])
        self._problem.checker.move(pod, target)
        if pod not in self._moved:
            # One that was parked has left its group already.
            self._left[self._group_of(template, source)] -= 1
        self._moved.add(pod)
        self._allowances.count_move(template, 1)
        self._allowances.count_on_node(source, 1)
        self._allowances.count_on_node(target, 1)
        self.steps.append(step)
        for node, count in ((source, -1), (target, 1)):
            self.totals.add(template, node, count)
        self._violations.moved(template, source, target)
        changed = {source, target}
        for term in self._problem.search_terms:
            changed |= term.moved(template, source, target)
        return changed

    def _group_of(self, template: int, node: int) -> int:
        groups = self._groups.of_node(node)
        return int(groups.start + np.searchsorted(self._groups.template[groups], template))
