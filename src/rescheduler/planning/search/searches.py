"""Which searches are run on a problem, and when one of them is enough."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import NamedTuple

from rescheduler.planning.planning_time import PlanningTime
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.best_plan import BestPlan
from rescheduler.planning.search.columns.column_search import ColumnSearch
from rescheduler.planning.search.columns.pod_classes import PodClasses, pod_classes
from rescheduler.planning.search.descent import Descent
from rescheduler.planning.search.exact.exact_search import ExactSearch
from rescheduler.planning.search.ordering import MoveOrdering
from rescheduler.planning.search.pod_groups import whole_groups
from rescheduler.planning.search.steps import SearchStep, without_detours

# Load is smooth, and single moves get nearly all of it, but for clusters with so few equivalence
# groups.
_FEW_GROUPS = 150
# How often a column search asks for the time in a second, at least.
_STEPS_PER_SECOND = 10_000


class FoundSteps(NamedTuple):
    """The steps of the best plan that was found, in an order in which they are possible."""

    steps: list[SearchStep]
    was_cut_short: bool
    """Whether the time was up even before all single moves were looked at."""


def find_single_moves(problem: Problem, time: PlanningTime) -> FoundSteps:
    """The steps that are found without looking for moves that only gain together."""
    descent = _descend(problem, time)
    return FoundSteps(_as_they_are(problem, descent.steps), descent.was_cut_short)


def find_steps(problem: Problem, time: PlanningTime) -> FoundSteps:
    """The steps of the best plan that all searches find."""
    out_of_time = time.is_over_for_search
    descent = _descend(problem, time)
    if not _may_gain_together(problem) or not descent.left_something() or out_of_time():
        return FoundSteps(_as_they_are(problem, descent.steps), descent.was_cut_short)
    classes = pod_classes(problem)
    if ExactSearch.suits(classes):
        best_plan = _solved(problem, classes, descent.steps, time)
    else:
        best_plan = _searched_by_columns(problem, classes, descent.steps, time)
    return FoundSteps(best_plan.steps, descent.was_cut_short)


def _solved(
    problem: Problem, classes: PodClasses, single_moves: list[SearchStep], time: PlanningTime
) -> BestPlan:
    """The best plan for a small cluster.

    If it may not be the best there is, what would be planned with fewer moves is looked at as
    well, for as long as there is time: that may be better by chance.
    """
    in_time = _or_after_enough_steps(problem, time.is_over_for_search)
    plans = []
    for most_moves in range(problem.max_moves, 0, -1):
        limited = problem.with_limit(most_moves)
        plans.append(_best_so_far(limited, single_moves[:most_moves], time))
        search = ExactSearch(limited, classes, plans[-1], in_time)
        search.run()
        _go_on_with_single_moves(limited, plans[-1], time)
        if search.is_solved or in_time():
            break
    return min(plans, key=lambda plan: plan.value)


def _searched_by_columns(
    problem: Problem, classes: PodClasses, single_moves: list[SearchStep], time: PlanningTime
) -> BestPlan:
    best_plan = _best_so_far(problem, single_moves, time)
    in_time = _or_after_enough_steps(problem, time.is_over_for_search)
    too_late = _or_after_enough_steps(problem, time.is_over_for_choosing)
    most_moves = min(problem.max_moves, int(classes.totals.sum()))
    enough_columns = partial(time.is_over_for_columns, most_moves)
    search = ColumnSearch(problem, classes, in_time, enough_columns, too_late)
    for steps in search.run():
        if best_plan.offer(steps, classes.interchangeable) or time.is_over_for_search():
            break
    return best_plan


def _best_so_far(problem: Problem, single_moves: list[SearchStep], time: PlanningTime) -> BestPlan:
    """The better of single moves and what is left of the last plan."""
    best_plan = BestPlan(problem, single_moves, time)
    best_plan.offer(_later_steps(problem))
    return best_plan


def _or_after_enough_steps(problem: Problem, out_of_time: Callable[[], bool]) -> Callable[[], bool]:
    """Also says yes after as many questions as a slow machine asks in `planningTimeout`.

    So the same input gives the same plan, and a simulation, whose clock stands still while it
    plans, spends no more time than a cluster would.
    """
    asked = count()
    most = _STEPS_PER_SECOND * problem.policy.planning_timeout_seconds
    return lambda: next(asked) >= most or out_of_time()


def _later_steps(problem: Problem) -> list[SearchStep]:
    """What is left of the last plan."""
    pods, node_of = problem.snapshot.pods, problem.snapshot.nodes.index
    steps: dict[int, SearchStep] = {}
    for move in problem.context.later_moves:
        row, target = pods.find(move.pod), node_of.get(move.target)
        if row is not None and target is not None and problem.movability.movable[row]:
            source = int(pods.node[row])
            steps[row] = SearchStep(row, source, target)
    return [step for step in steps.values() if step.source != step.target]


def _go_on_with_single_moves(problem: Problem, best_plan: BestPlan, time: PlanningTime) -> None:
    """Add single moves that still gain something after the best plan.

    Columns do not see what strategies want of single pods, so there may be some. The next round
    would find them, and after that perhaps others.
    """
    if len(best_plan.steps) < problem.max_moves:
        steps = _descend(problem, time, best_plan.steps).steps
        if len(steps) > len(best_plan.steps):
            short = without_detours(steps, problem.snapshot.pods.template)
            if not best_plan.offer(short):
                best_plan.offer(steps)


def _descend(problem: Problem, time: PlanningTime, begun: Sequence[SearchStep] = ()) -> Descent:
    """A descent that has ended. The problem is left as it was at the start."""
    descent = Descent(problem, time, begun)
    for pod, source, target in reversed(descent.run()):
        problem.checker.place(pod, target, source)
        for term in problem.search_terms:
            term.moved(int(problem.snapshot.pods.template[pod]), target, source)
    return descent


def _as_they_are(problem: Problem, steps: list[SearchStep]) -> list[SearchStep]:
    """The steps of a descent, which are in order already, but for groups that they tear apart."""
    return whole_groups(problem, MoveOrdering(problem, problem.checker), steps)


def _may_gain_together(problem: Problem) -> bool:
    """Whether moves may gain together what none of them gains alone."""
    if not len(problem.groups) or not problem.max_moves:
        return False
    return problem.objective.needs_combined_moves or len(problem.groups) <= _FEW_GROUPS
