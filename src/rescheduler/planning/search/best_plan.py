"""The best plan found so far: only what can be carried out, step by step, counts."""

from collections import Counter
from collections.abc import Sequence

from rescheduler.planning.feasibility.checker import FeasibilityChecker
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.assignment import Assignment
from rescheduler.planning.search.ordering import MoveOrdering
from rescheduler.planning.search.pod_groups import whole_groups
from rescheduler.planning.search.steps import SearchStep

# Less than this is rounding.
_REAL_GAIN = 1e-9
# Many assignments cost the same, and only some of them can be reached. After so many, it is enough.
_MOST_TRIES = 40


class BestPlan:
    """Takes offers from searches and keeps the best."""

    def __init__(self, problem: Problem, steps: Sequence[SearchStep]) -> None:
        checker = FeasibilityChecker(problem.snapshot)
        self._problem = problem
        self._order = MoveOrdering(problem, checker)
        self._scratch = Assignment(problem, checker)
        self._incomplete: Counter[tuple[int, float]] = Counter()
        self._most_by_terms = sum(term.total() for term in problem.pod_terms)
        self.steps = whole_groups(problem, self._order, steps)
        self.value = self._value_of(self.steps)

    def offer(self, assignment: Assignment) -> None:
        """Take the steps to this assignment that are possible, if that is the best yet."""
        if not assignment.is_allowed():
            return
        value = assignment.value()
        known = assignment.moves, round(value, 9)
        if value - self._most_by_terms > self.value - _REAL_GAIN:
            return
        if self._incomplete[known] == _MOST_TRIES:
            return
        steps = whole_groups(self._problem, self._order, self._order.executable(assignment.steps()))
        if len(steps) < assignment.moves:
            self._incomplete[known] += 1
        value = self._value_of(steps)
        if value < self.value - _REAL_GAIN:
            self.steps, self.value = steps, value

    def _value_of(self, steps: Sequence[SearchStep]) -> float:
        """What the cluster costs after these steps."""
        self._scratch.apply(steps)
        self._scratch.totals.recomputed_total()
        value = self._scratch.value()
        for violation_term in self._problem.violation_terms:
            value += violation_term.remaining_cost(self._scratch.checker)
        self._scratch.rewind(0)
        template_of = self._problem.snapshot.pods.template
        moves = [(int(template_of[pod]), source, target) for pod, source, target in steps]
        return value + sum(term.change(moves) for term in self._problem.pod_terms)
