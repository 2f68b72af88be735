"""What the cluster costs after the steps of a plan: nodes, broken rules, pods and moves."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from rescheduler.planning.feasibility.checker import FeasibilityChecker
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.node_totals import NodeTotals
from rescheduler.planning.search.steps import SearchStep


class PlanValue:
    """Values plans from the start, with all that strategies want of nodes and of pods."""

    def __init__(self, problem: Problem, checker: FeasibilityChecker) -> None:
        """The checker has the pods as at the start whenever a plan is valued."""
        self._problem = problem
        self._checker = checker
        self._totals = NodeTotals(problem.load, problem.objective, problem.movable_on)
        self._template_of = problem.snapshot.pods.template

    def after(self, steps: Sequence[SearchStep]) -> float:
        """The value after these steps; lower is better."""
        moves = [(int(self._template_of[pod]), source, target) for pod, source, target in steps]
        value = float(self._problem.move_prices[[template for template, _, _ in moves]].sum())
        for template, source, target in moves:
            self._totals.add(template, source, -1)
            self._totals.add(template, target, 1)
        value += self._totals.recomputed_total()
        for template, source, target in moves:
            self._totals.add(template, target, -1)
            self._totals.add(template, source, 1)
        value += self._violations_on_nodes(moves) + self._violations_beyond(steps)
        return value + sum(term.change(moves) for term in self._problem.search_terms)

    def _violations_on_nodes(self, moves: Sequence[tuple[int, int, int]]) -> float:
        if not self._problem.violation_terms:
            return 0.0
        groups, conflicts = self._problem.groups, self._problem.conflicts.copy()
        pods = zip(groups.template.tolist(), groups.node.tolist(), strict=True)
        counts = Counter(dict(zip(pods, groups.count.tolist(), strict=True)))
        for template, source, target in moves:
            counts[template, source] -= 1
            counts[template, target] += 1
            conflicts.add(template, source, -1)
            conflicts.add(template, target, 1)
        placed = np.array([(*where, count) for where, count in counts.items() if count], np.int32)
        templates, nodes, numbers = placed.reshape(-1, 3).T
        return sum(
            float(term.gains_of_leaving(templates, nodes, conflicts) @ numbers)
            for term in self._problem.violation_terms
        )

    def _violations_beyond(self, steps: Sequence[SearchStep]) -> float:
        if not self._problem.violation_terms:
            return 0.0
        for step in steps:
            self._checker.place(*step)
        remaining = [term.remaining_cost(self._checker) for term in self._problem.violation_terms]
        for pod, source, target in reversed(steps):
            self._checker.place(pod, target, source)
        return sum(remaining)
