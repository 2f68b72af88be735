"""The search for small clusters: it looks at every column, and offers plans that have an order."""

from itertools import combinations, product

import msgspec
import numpy as np
import pytest

from rescheduler.planning.feasibility.checker import FeasibilityChecker
from rescheduler.planning.planning_time import PlanningTime
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.best_plan import BestPlan
from rescheduler.planning.search.columns.pod_classes import pod_classes
from rescheduler.planning.search.exact.complete_columns import CompleteColumns
from rescheduler.planning.search.exact.exact_search import ExactSearch
from rescheduler.planning.search.exact.pair_exchange import PairExchange
from rescheduler.planning.search.ordering import MoveOrdering
from rescheduler.planning.search.steps import SearchStep
from tests.planning.columns.problems import (
    SAVING,
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

LOOSE: Objects = [
    *(priced("a", 1.0, cpu="4"), priced("b", 2.0, cpu="6"), priced("c", 1.5, cpu="4")),
    *replicas("web", "abcb"),
    *replicas("big", "c", cpu="2"),
]


def found_by(problem: Problem, *, is_over: bool = False) -> list[SearchStep]:
    best = BestPlan(problem, [], PlanningTime(lambda: 0.0))
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


def test_no_way_to_divide_the_pods_of_two_nodes_is_better_than_the_best_exchange() -> None:
    parts = Parts(problem_for(LOOSE))
    listed, start = CompleteColumns(parts.contents, 9), parts.contents.start
    best = PairExchange(listed, parts.linking).improving(start, 1e-9)[0]
    columns = zip(
        listed.node.tolist(), map(tuple, listed.contents.tolist()), listed.prices, strict=True
    )
    prices = {(where, held): float(price) for where, held, price in columns}
    now = [prices[where, tuple(held)] for where, held in enumerate(start.tolist())]
    expected = min(
        prices[one, ours] - now[one] + prices[other, theirs] - now[other]
        for (one, ours), (other, theirs) in combinations(prices, 2)
        if one != other and (np.add(ours, theirs) == start[one] + start[other]).all()
    )
    assert best.change == pytest.approx(expected)
    assert expected < -1, "one node is not needed"
    assert (best.contents.sum(axis=0) == start.sum(axis=0)).all()


def test_no_exchange_takes_more_moves_than_allowed() -> None:
    parts = Parts(problem_for(LOOSE, msgspec.structs.replace(SAVING, max_reschedule_pods=1)))
    listed = CompleteColumns(parts.contents, 9)
    for exchange in PairExchange(listed, parts.linking).improving(parts.contents.start, 1e-9):
        assert parts.contents.arrivals(parts.nodes, exchange.contents).sum() <= 1


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
