"""Which searches are run on a problem, and for how long."""

from collections.abc import Callable

import numpy as np

from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.best_plan import BestPlan
from rescheduler.planning.search.descent import Descent
from rescheduler.planning.search.exchange import Exchange
from rescheduler.planning.search.node_closing import NodeClosing
from rescheduler.planning.search.ordering import Order
from rescheduler.planning.search.placement import Placement
from rescheduler.planning.search.pod_groups import whole_groups
from rescheduler.planning.search.steps import Step
from rescheduler.planning.strategies.cost_optimization import CostOptimization

# With more pairs of cells and templates, the table of exchanges takes too much time and memory.
_MOST_PAIRS, _MOST_PAIRS_FOR_LOAD = 6_000_000, 200_000
# What a second of planning is good for, on a slow machine.
_CELL_TURNS_PER_SECOND, _CELL_TURNS_FOR_LOAD = 1_000_000, 60_000
_MOST_TURNS_PER_SECOND, _MOST_TURNS_FOR_LOAD = 400, 240
_TRIALS_PER_SECOND = 240
# A handful of pods has been looked at from all sides after so many turns.
_TURNS_PER_CELL = 100


def find_steps(problem: Problem, out_of_time: Callable[[], bool]) -> list[Step]:
    """The steps of the best plan that was found, in an order in which they can be made."""
    descent = Descent(problem, out_of_time)
    steps = descent.run()
    for pod, source, target in reversed(steps):
        problem.judge.place(pod, target, source)
        for term in problem.pod_terms:
            term.follow(int(problem.snapshot.pods.template[pod]), target, source)
    strategy = problem.objective.find("CostOptimization")
    worth_exchanging = _is_worth_exchanging(problem) and descent.left_something()
    if strategy is None and not worth_exchanging:
        return whole_groups(problem, Order(problem, problem.judge), steps)
    champion = BestPlan(problem, steps)
    placement = Placement(problem, problem.judge)
    placement.go(steps)
    seed = problem.circumstances.seed
    if isinstance(strategy, CostOptimization):
        trials = int(_TRIALS_PER_SECOND * problem.policy.planning_timeout_seconds)
        NodeClosing(placement, champion, strategy, seed, out_of_time).run(trials)
        placement.rewind(0)
        placement.go(champion.steps)
    if worth_exchanging:
        Exchange(placement, champion, seed, out_of_time).run(_turns(problem))
    placement.rewind(0)
    return champion.steps


def _is_worth_exchanging(problem: Problem) -> bool:
    """Load is smooth, and single moves get nearly all of it, but for small clusters."""
    pairs = len(problem.cells) * len(np.unique(problem.cells.template))
    most = _MOST_PAIRS if _is_rough(problem) else _MOST_PAIRS_FOR_LOAD
    return 0 < pairs <= most and problem.max_moves > 0


def _is_rough(problem: Problem) -> bool:
    return any(each.is_rough for each in problem.objective.strategies)


def _turns(problem: Problem) -> int:
    pace, most = _CELL_TURNS_FOR_LOAD, _MOST_TURNS_FOR_LOAD
    if _is_rough(problem):
        pace, most = _CELL_TURNS_PER_SECOND, _MOST_TURNS_PER_SECOND
    cells = len(problem.cells)
    per_second = min(most, pace // max(cells, 1))
    return min(int(problem.policy.planning_timeout_seconds * per_second), _TURNS_PER_CELL * cells)
