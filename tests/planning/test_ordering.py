"""Moves in an order in which each is possible, and pods that are parked where there is none."""

from itertools import count

import msgspec

from rescheduler.model.moves import Outcome
from rescheduler.planning.context import PastMove, PlanningContext
from rescheduler.planning.feasibility.checker import FeasibilityChecker
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.ordering import MoveOrdering, waves
from rescheduler.planning.search.steps import SearchStep
from testcluster.builders import node
from testcluster.snapshots import snapshot_of
from tests.planning.columns.problems import SAVING, Objects, problem_for, replicas

A, B, C = range(3)


def ordering(problem: Problem) -> MoveOrdering:
    return MoveOrdering(problem, FeasibilityChecker(problem.snapshot))


def full_nodes(spare: str = "2") -> Objects:
    """Two full nodes, each with one large pod, and a third with some room."""
    return [
        node("a", cpu="2"),
        node("b", cpu="2"),
        node("c", cpu=spare),
        *replicas("first", "a", cpu="2"),
        *replicas("second", "b", cpu="2", labels={"app": "second"}),
    ]


def swap(problem: Problem) -> list[SearchStep]:
    keys = problem.snapshot.pods.keys
    first, second = keys.index("shop/first-0"), keys.index("shop/second-0")
    return [SearchStep(first, A, B), SearchStep(second, B, A)]


def test_a_move_waits_for_the_one_that_makes_room() -> None:
    problem = problem_for(
        [node("a", cpu="2"), node("b", cpu="2"), node("c"), *replicas("x", "ab", cpu="2")]
    )
    on_a, on_b = (problem.snapshot.pods.keys.index(f"shop/x-{number}") for number in (0, 1))
    steps = [SearchStep(on_a, A, B), SearchStep(on_b, B, C)]
    ordered = ordering(problem).executable(steps)
    assert [(source, target) for _, source, target in ordered] in ([(B, C), (A, B)], [(A, C)])


def test_pods_on_full_nodes_change_places_by_parking() -> None:
    problem = problem_for(full_nodes())
    steps = swap(problem)
    assert ordering(problem).executable(steps) == []
    parked = ordering(problem).executable(steps, may_park=True)
    assert len(parked) == 3
    ends = {pod: target for pod, _, target in parked}
    assert ends == {step.pod: step.target for step in steps}
    assert parked[0].target == C


def test_a_pod_moves_on_in_a_later_wave() -> None:
    problem = problem_for(full_nodes())
    parked = ordering(problem).executable(swap(problem), may_park=True)
    assert waves(problem, parked) == [0, 1, 2]


def test_parking_counts_against_the_limit() -> None:
    policy = msgspec.structs.replace(SAVING, max_reschedule_pods=2)
    problem = problem_for(full_nodes(), policy)
    assert ordering(problem).executable(swap(problem), may_park=True) == []


def test_nothing_is_parked_on_a_node_that_is_to_be_emptied() -> None:
    cluster = full_nodes()
    cluster[2]["metadata"]["labels"]["scheduler.alpha.kubernetes.io/maintenance"] = "true"
    problem = problem_for(cluster)
    assert ordering(problem).executable(swap(problem), may_park=True) == []


def test_nothing_is_parked_on_a_node_that_its_workload_has_left() -> None:
    history = tuple(
        PastMove(f"shop/{name}", f"ReplicaSet/shop/{name}", "c", "a", Outcome.LANDED, 0.0, "Any")
        for name in ("first", "second")
    )
    context = PlanningContext(now=3600.0, history=history)
    problem = Problem(snapshot_of(full_nodes()), SAVING, context, {})
    assert ordering(problem).executable(swap(problem), may_park=True) == []


def test_nothing_is_parked_where_there_is_no_room() -> None:
    problem = problem_for(full_nodes(spare="1"))
    assert ordering(problem).executable(swap(problem), may_park=True) == []


def test_the_checker_is_left_as_it_was() -> None:
    problem = problem_for(full_nodes())
    order = ordering(problem)
    first = order.executable(swap(problem), may_park=True)
    assert order.executable(swap(problem), may_park=True) == first


def test_no_more_moves_are_taken_than_allowed() -> None:
    policy = msgspec.structs.replace(SAVING, max_reschedule_pods=1)
    problem = problem_for([node("a"), node("b"), *replicas("web", "aa")], policy)
    steps = [SearchStep(pod, A, B) for pod in (0, 1)]
    assert len(ordering(problem).executable(steps)) == 1


def test_pods_whose_target_stays_full_go_to_another_node_in_use() -> None:
    cluster = [node("a", cpu="50"), node("b", cpu="1"), node("c", cpu="50"), node("d", cpu="50")]
    cluster += replicas("web", "a" * 41) + replicas("full", "b") + replicas("used", "c")
    problem = problem_for(cluster, msgspec.structs.replace(SAVING, max_reschedule_pods=100))
    pods = problem.snapshot.pods
    steps = [SearchStep(pods.keys.index(f"shop/web-{number}"), A, B) for number in range(41)]
    assert ordering(problem).executable(steps) == []
    ordered = ordering(problem).executable(steps, may_park=True)
    assert [step.target for step in ordered] == [C] * 41


def test_what_is_not_in_order_when_the_time_is_over_is_left_out() -> None:
    problem = problem_for([node("a"), node("b"), *replicas("web", "aaaa")])
    pods = problem.snapshot.pods
    steps = [SearchStep(pods.keys.index(f"shop/web-{number}"), A, B) for number in range(4)]
    asked = count()
    limited = MoveOrdering(problem, FeasibilityChecker(problem.snapshot), lambda: next(asked) >= 3)
    ordered = limited.executable(steps)
    assert 0 < len(ordered) < 4
    assert len(ordering(problem).executable(steps)) == 4
