"""What is left of a plan if not all of its moves could be brought into order."""

from itertools import count

import msgspec

from rescheduler.planning.planning_time import PlanningTime
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.best_plan import BestPlan
from rescheduler.planning.search.steps import SearchStep
from rescheduler.planning.search.unfinished_nodes import without_unfinished_nodes
from rescheduler.settings import Seconds
from testcluster.builders import node
from tests.planning.columns.problems import SAVING, Objects, problem_for, replicas

A, B, C, D = range(4)
# So short that there may be no time for more than a step.
HURRIED = msgspec.structs.replace(
    SAVING, max_reschedule_pods=100, planning_timeout_seconds=Seconds(0.001)
)


def pods_of(problem: Problem, name: str, number: int) -> list[int]:
    keys = problem.snapshot.pods.keys
    return [keys.index(f"shop/{name}-{index}") for index in range(number)]


def test_moves_from_a_node_that_others_cannot_leave_are_left_out() -> None:
    problem = problem_for([*map(node, "abc"), *replicas("web", "aab")])
    first, second, third = pods_of(problem, "web", 3)
    wanted = [SearchStep(first, A, C), SearchStep(second, A, C), SearchStep(third, B, C)]
    done = [wanted[0], wanted[2]]
    assert without_unfinished_nodes(problem, done, wanted) == [wanted[2]]
    assert without_unfinished_nodes(problem, wanted, wanted) == wanted


def test_moves_that_make_room_for_others_stay() -> None:
    problem = problem_for([*map(node, "abc"), *replicas("web", "aab")])
    first, second, third = pods_of(problem, "web", 3)
    wanted = [SearchStep(first, A, C), SearchStep(third, B, A), SearchStep(second, A, C)]
    assert without_unfinished_nodes(problem, wanted[:2], wanted) == wanted[:2]


def scattered(problem: Problem) -> list[SearchStep]:
    """All pods but those of the last node go there."""
    pods = problem.snapshot.pods
    last = len(problem.snapshot.nodes) - 1
    rows = [row for row in range(len(pods.keys)) if pods.node[row] != last]
    return [SearchStep(row, int(pods.node[row]), last) for row in rows]


def nodes_of_different_pods() -> Objects:
    """Six nodes with five pods of five sizes each, and a large one."""
    names = [f"n{number}" for number in range(6)]
    cluster = [node(name, cpu="16") for name in names] + [node("z", cpu="200")]
    for number in range(5):
        cluster += replicas(f"web-{number}", names, cpu=str(1 + number / 10))
    return [*cluster, *replicas("other", ["z"])]


def test_a_plan_that_is_not_all_in_order_in_time_empties_some_nodes() -> None:
    """A nearly finished plan is not thrown away."""
    problem = problem_for(nodes_of_different_pods(), HURRIED)
    asked = count()
    best = BestPlan(problem, [], PlanningTime(lambda: next(asked) / 50))
    at_start = best.value
    assert not best.offer(scattered(problem))
    left = {step.source for step in best.steps}
    assert 1 <= len(left) < 6
    assert len(best.steps) == 5 * len(left), "all pods have left the nodes that any has left"
    assert best.value < at_start


def test_pods_in_the_way_go_first() -> None:
    """Each pod needs the room of the next one, and the last of them has room."""
    names = "abcdefgh"
    cluster = [node(name, cpu="2") for name in names]
    for place, name in enumerate(names[:-1]):
        cluster += replicas(f"web-{place}", [name], cpu="2")
    problem = problem_for(cluster, HURRIED)
    row = problem.snapshot.pods.keys.index
    steps = [SearchStep(row(f"shop/web-{place}-0"), place, place + 1) for place in range(7)]
    best = BestPlan(problem, [], PlanningTime(lambda: 0.0))
    assert best.offer(steps)
