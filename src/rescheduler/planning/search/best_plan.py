"""The best plan found so far: only what can be carried out, step by step, counts."""

from collections.abc import Sequence

from rescheduler.model.snapshot import Ints
from rescheduler.planning.planning_time import PlanningTime
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.ordering import MoveOrdering
from rescheduler.planning.search.plan_value import PlanValue
from rescheduler.planning.search.pod_groups import whole_groups
from rescheduler.planning.search.steps import SearchStep
from rescheduler.planning.search.unfinished_nodes import without_unfinished_nodes

# Less than this is rounding.
_REAL_GAIN = 1e-9


class BestPlan:
    """Takes offers from searches and keeps the best."""

    def __init__(self, problem: Problem, steps: Sequence[SearchStep], time: PlanningTime) -> None:
        """Starts with these steps, which are in an order in which they are possible.

        Once there is no time left, only those steps of an offer count that are in order by then.
        """
        self._problem = problem
        self._time = time.for_ordering()
        self._order = MoveOrdering(problem, problem.checker, self._time.is_over)
        self._value = PlanValue(problem, problem.checker)
        self.steps = whole_groups(problem, self._order, steps)
        self.value = self._value.after(self.steps)
        self.stuck: list[SearchStep] = []
        """Those steps of the last offer that wait for each other, and would have to be parked."""

    def offer(self, steps: Sequence[SearchStep], kind_of: Ints | None = None) -> bool:
        """Take those of these steps that are possible, if that is the best yet.

        Pods of one kind may take each other's targets. If not all steps are possible, those that
        are possible with parking are considered, too. Returns whether all were possible.
        """
        self._time.begin()
        ordered: list[SearchStep] = []
        for number, ordered in enumerate(self._order.without_and_with_parkings(steps, kind_of)):
            self._consider(whole_groups(self._problem, self._order, ordered))
            if number == 0:
                done = {step.pod for step in ordered}
                self.stuck = [step for step in steps if step.pod not in done]
            if len(ordered) >= len(steps):
                return True
        useful = without_unfinished_nodes(self._problem, ordered, steps)
        if len(useful) < len(ordered):
            self._consider(whole_groups(self._problem, self._order, useful))
        return False

    def value_of(self, steps: Sequence[SearchStep]) -> float:
        """What the cluster costs after these steps, possible or not."""
        return self._value.after(steps)

    def _consider(self, steps: list[SearchStep]) -> None:
        value = self._value.after(steps)
        if value < self.value - _REAL_GAIN:
            self.steps, self.value = steps, value
