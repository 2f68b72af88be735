"""Which searches are run on a problem, and for how long."""

from collections.abc import Callable

import numpy as np

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
# What a second of planning is good for, on a slow machine.
_CELL_TURNS_PER_SECOND = 1_500_000
_MOST_TURNS_PER_SECOND = 300
_TRIALS_PER_SECOND = 150


def find_steps(problem: Problem, out_of_time: Callable[[], bool]) -> list[Step]:
    """The steps of the best plan that was found, in an order in which they can be made."""
    steps = Descent(problem, out_of_time).run()
    for step in reversed(steps):
        problem.judge.place(step.pod, step.target, step.source)
    strategy = problem.objective.find("CostOptimization")
    if strategy is None and not _is_worth_exchanging(problem):
        return steps
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
    pairs = len(problem.cells) * len(np.unique(problem.cells.template))
    return pairs <= _SMALL_ENOUGH and problem.max_moves > 0


def _turns(problem: Problem) -> int:
    seconds = problem.policy.planning_timeout_seconds
    per_second = _CELL_TURNS_PER_SECOND // max(len(problem.cells), 1)
    return int(seconds * min(_MOST_TURNS_PER_SECOND, per_second))
