"""The best plan found so far: only what can be carried out, step by step, counts."""

from collections.abc import Sequence

from rescheduler.planning.feasibility.judge import Judge
from rescheduler.planning.ordering import Order
from rescheduler.planning.problem import Problem
from rescheduler.planning.search.placement import Placement
from rescheduler.planning.search.steps import Step

# Less than this is rounding.
_REAL_GAIN = 1e-9


class Champion:
    """Takes offers from searches and keeps the best."""

    def __init__(self, problem: Problem, steps: Sequence[Step]) -> None:
        judge = Judge(problem.snapshot)
        self._most = problem.max_moves
        self._order = Order(problem, judge)
        self._scratch = Placement(problem, judge)
        self._turned_down: set[tuple[int, float]] = set()
        self.steps = list(steps)
        self.value = self._value_of(steps)

    def offer(self, placement: Placement) -> None:
        """Take the steps to this state, as far as they can be made, if that is the best yet."""
        if placement.moves > self._most:
            return
        value = placement.value()
        known = placement.moves, round(value, 9)
        if value > self.value - _REAL_GAIN or known in self._turned_down:
            return
        steps = self._order.executable(placement.steps())
        if len(steps) < placement.moves:
            self._turned_down.add(known)
        value = self._value_of(steps)
        if value < self.value - _REAL_GAIN:
            self.steps, self.value = steps, value

    def _value_of(self, steps: Sequence[Step]) -> float:
        """What the cluster costs after these steps."""
        self._scratch.go(steps)
        self._scratch.occupancy.total()
        value = self._scratch.value()
        self._scratch.rewind(0)
        return value
