"""What the cluster costs after the steps of a plan: nodes, broken rules, pods and moves."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from rescheduler.model.snapshot import Ints
from rescheduler.planning.feasibility.checker import FeasibilityChecker
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.steps import SearchStep


class PlanValue:
    """Values plans from the start, with all that strategies want of nodes and of pods."""

    def __init__(self, problem: Problem, checker: FeasibilityChecker) -> None:
        """The checker has the pods as at the start whenever a plan is valued."""
        self._problem = problem
        self._checker = checker
        self._template_of = problem.snapshot.pods.template

    def after(self, steps: Sequence[SearchStep]) -> float:
        """The value after these steps; lower is better."""
        pods, sources, targets = np.array(steps, np.int32).reshape(-1, 3).T
        templates = self._template_of[pods]
        moves = list(zip(templates.tolist(), sources.tolist(), targets.tolist(), strict=True))
        value = float(self._problem.move_prices[templates].sum())
        value += self._cost_of_nodes(templates, sources, targets)
        value += self._violations_on_nodes(moves) + self._violations_beyond(steps)
        return value + sum(term.change(moves) for term in self._problem.search_terms)

    def _cost_of_nodes(self, templates: Ints, sources: Ints, targets: Ints) -> float:
        used = self._problem.load.used_after(templates, sources, targets)
        movable = self._problem.movable_on.copy()
        np.add.at(movable, targets, 1)
        np.subtract.at(movable, sources, 1)
        return float(self._problem.objective.costs(used, movable).sum())

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
