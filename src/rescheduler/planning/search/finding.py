"""Which searches are run on a problem, and for how long."""

from collections.abc import Callable

import numpy as np

from rescheduler.planning.groups import whole_groups
from rescheduler.planning.ordering import Order
from rescheduler.planning.problem import Problem
from rescheduler.planning.search.champion import Champion
from rescheduler.planning.search.closing import Closing
from rescheduler.planning.search.descent import Descent
from rescheduler.planning.search.exchange import Exchange
from rescheduler.planning.search.placement import Placement
from rescheduler.planning.search.steps import Step
from rescheduler.planning.strategies.cost_optimization import CostOptimization

# With more pairs of cells and templates, the table of exchanges takes too long and too much memory.
_SMALL_ENOUGH = 6_000_000
_SMALL = 200_000
# What a second of planning is good for, on a slow machine.
_CELL_TURNS_PER_SECOND = 1_500_000
_MOST_TURNS_PER_SECOND = 300
_TRIALS_PER_SECOND = 150


def find_steps(problem: Problem, out_of_time: Callable[[], bool]) -> list[Step]:
    """The steps of the best plan that was found, in an order in which they can be made."""
    steps = Descent(problem, out_of_time).run()
    for pod, source, target in reversed(steps):
        problem.judge.place(pod, target, source)
        for term in problem.pod_terms:
            term.follow(int(problem.snapshot.pods.template[pod]), target, source)
    strategy = problem.objective.find("CostOptimization")
    if strategy is None and not _is_worth_exchanging(problem):
        return whole_groups(problem, Order(problem, problem.judge), steps)
    champion = Champion(problem, steps)
    placement = Placement(problem, problem.judge)
    placement.go(steps)
    seed = problem.circumstances.seed
    if isinstance(strategy, CostOptimization):
        trials = int(_TRIALS_PER_SECOND * problem.policy.planning_timeout_seconds)
        Closing(placement, champion, strategy, seed, out_of_time).run(trials)
        placement.rewind(0)
        placement.go(champion.steps)
    if _is_worth_exchanging(problem):
        Exchange(placement, champion, seed, out_of_time).run(_turns(problem))
    placement.rewind(0)
    return champion.steps


def _is_worth_exchanging(problem: Problem) -> bool:
    """Load is smooth, and single moves get nearly all of it, but for small clusters."""
    pairs = len(problem.cells) * len(np.unique(problem.cells.template))
    is_rough = any(not each.is_about_load for each in problem.objective.strategies)
    most = _SMALL_ENOUGH if is_rough else _SMALL
    return 0 < pairs <= most and problem.max_moves > 0


def _turns(problem: Problem) -> int:
    seconds = problem.policy.planning_timeout_seconds
    per_second = _CELL_TURNS_PER_SECOND // max(len(problem.cells), 1)
    return int(seconds * min(_MOST_TURNS_PER_SECOND, per_second))
