"""Which searches are run on a problem, and for how long."""

from collections.abc import Callable

import numpy as np

from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.assignment import Assignment
from rescheduler.planning.search.best_plan import BestPlan
from rescheduler.planning.search.descent import Descent
from rescheduler.planning.search.node_consolidation import NodeConsolidation
from rescheduler.planning.search.ordering import MoveOrdering
from rescheduler.planning.search.pod_groups import whole_groups
from rescheduler.planning.search.steps import SearchStep
from rescheduler.planning.search.tabu_search import TabuSearch

# With more pairs of groups and templates, the table of exchanges takes too much time and memory.
_MOST_PAIRS, _MOST_PAIRS_FOR_LOAD = 6_000_000, 200_000
# What a second of planning is good for, on a slow machine.
_GROUP_ITERATIONS_PER_SECOND, _GROUP_ITERATIONS_FOR_LOAD = 1_000_000, 60_000
_MOST_ITERATIONS_PER_SECOND, _MOST_ITERATIONS_FOR_LOAD = 400, 240
_TRIALS_PER_SECOND = 240
# A handful of pods has been looked at from all sides after so many iterations.
_ITERATIONS_PER_GROUP = 100


def find_steps(problem: Problem, out_of_time: Callable[[], bool]) -> list[SearchStep]:
    """The steps of the best plan that was found, in an order in which they are possible."""
    descent = Descent(problem, out_of_time)
    steps = descent.run()
    for pod, source, target in reversed(steps):
        problem.checker.place(pod, target, source)
        for term in problem.pod_terms:
            term.moved(int(problem.snapshot.pods.template[pod]), target, source)
    node_prices = problem.objective.node_prices()
    worth_exchanging = _is_worth_exchanging(problem) and descent.left_something()
    if node_prices is None and not worth_exchanging:
        return whole_groups(problem, MoveOrdering(problem, problem.checker), steps)
    best_plan = BestPlan(problem, steps)
    assignment = Assignment(problem, problem.checker)
    assignment.apply(steps)
    seed = problem.context.seed
    if node_prices is not None:
        trials = int(_TRIALS_PER_SECOND * problem.policy.planning_timeout_seconds)
        NodeConsolidation(assignment, best_plan, node_prices, seed, out_of_time).run(trials)
        assignment.rewind(0)
        assignment.apply(best_plan.steps)
    if worth_exchanging:
        TabuSearch(assignment, best_plan, seed, out_of_time).run(_iterations(problem))
    assignment.rewind(0)
    return best_plan.steps


def _is_worth_exchanging(problem: Problem) -> bool:
    """Load is smooth, and single moves get nearly all of it, but for small clusters."""
    pairs = len(problem.groups) * len(np.unique(problem.groups.template))
    most = _MOST_PAIRS if problem.objective.needs_combined_moves else _MOST_PAIRS_FOR_LOAD
    return 0 < pairs <= most and problem.max_moves > 0


def _iterations(problem: Problem) -> int:
    pace, most = _GROUP_ITERATIONS_FOR_LOAD, _MOST_ITERATIONS_FOR_LOAD
    if problem.objective.needs_combined_moves:
        pace, most = _GROUP_ITERATIONS_PER_SECOND, _MOST_ITERATIONS_PER_SECOND
    groups = len(problem.groups)
    per_second = min(most, pace // max(groups, 1))
    return min(
        int(problem.policy.planning_timeout_seconds * per_second), _ITERATIONS_PER_GROUP * groups
    )
