"""The search for small clusters: it looks at every column, and offers plans that have an order."""

from itertools import product

import numpy as np
import pytest

from rescheduler.planning.feasibility.checker import FeasibilityChecker
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.best_plan import BestPlan
from rescheduler.planning.search.columns.pod_classes import pod_classes
from rescheduler.planning.search.exact.complete_columns import CompleteColumns
from rescheduler.planning.search.exact.exact_search import ExactSearch
from rescheduler.planning.search.ordering import MoveOrdering
from rescheduler.planning.search.steps import SearchStep
from tests.planning.columns.problems import (
    Objects,
    Parts,
    apart,
    priced,
    problem_for,
    replicas,
)

MIXED: Objects = [
    *(priced("a", 1.0, cpu="4"), priced("b", 1.0, cpu="6"), priced("c", 2.0, cpu="5")),
    *replicas("web", "aabbc"),
    *replicas("big", "bc", cpu="2"),
    *replicas("db", "ac", affinity=apart("db")),
]


def found_by(problem: Problem, *, is_over: bool = False) -> list[SearchStep]:
    best = BestPlan(problem, [], lambda: False)
    ExactSearch(problem, pod_classes(problem), best, lambda: is_over).run()
    return best.steps


@pytest.mark.parametrize("most_moves", [1, 2, 9])
def test_every_content_that_a_node_may_have_is_listed_once(most_moves: int) -> None:
    parts = Parts(problem_for(MIXED))
    listed = CompleteColumns(parts.contents, most_moves)
    assert listed.is_complete.all()
    columns = [
        (where, tuple(held))
        for where, held in zip(listed.node.tolist(), listed.contents.tolist(), strict=True)
    ]
    assert len(set(columns)) == len(columns)
    everything = list(product(*(range(int(total) + 1) for total in parts.classes.totals)))
    contents = np.array(everything, np.int16)
    for where, start in enumerate(parts.contents.start):
        nodes = np.full(len(contents), where, np.int32)
        few = np.maximum(contents - start, 0).sum(axis=1) <= most_moves
        few &= np.maximum(start - contents, 0).sum(axis=1) <= most_moves
        allowed = contents[few & parts.contents.are_allowed(nodes, contents)]
        expected = {(where, tuple(held)) for held in allowed.tolist()}
        assert {column for column in columns if column[0] == where} == expected


def test_no_dual_values_are_better_for_a_column_that_is_not_found() -> None:
    """When no listed column improves the master problem, none at all does."""
    parts = Parts(problem_for(MIXED))
    listed = CompleteColumns(parts.contents, 9)
    master = parts.master()
    while parts.pool.add(*listed.improving(master.duals, 3)):
        master.extend(parts.pool)
        assert master.solve()
    assert (listed.reduced_costs(master.duals) > -1e-6).all()


def test_what_is_found_has_an_order() -> None:
    problem = problem_for(MIXED)
    steps = found_by(problem)
    assert steps
    order = MoveOrdering(problem, FeasibilityChecker(problem.snapshot))
    assert len(order.executable(steps)) == len(steps)


def test_without_time_nothing_is_offered_and_nothing_breaks() -> None:
    assert found_by(problem_for(MIXED), is_over=True) == []


def test_the_same_problem_gives_the_same_plan() -> None:
    assert found_by(problem_for(MIXED)) == found_by(problem_for(MIXED))
