"""Orders that are only found by looking ahead."""

from rescheduler.planning.feasibility.checker import FeasibilityChecker
from rescheduler.planning.search.ordering import MoveOrdering
from rescheduler.planning.search.steps import SearchStep
from testcluster.builders import node
from tests.planning.columns.problems import Objects, problem_for, replicas


def ordered(cluster: Objects, wanted: dict[str, str]) -> list[str]:
    """The names of those pods that can move to the nodes they should, in order."""
    problem = problem_for(cluster)
    pods, nodes = problem.snapshot.pods, problem.snapshot.nodes
    steps = [
        SearchStep(row, int(pods.node[row]), nodes.index[target])
        for name, target in wanted.items()
        if (row := pods.find(f"shop/{name}-0")) is not None
    ]
    assert len(steps) == len(wanted)
    order = MoveOrdering(problem, FeasibilityChecker(problem.snapshot))
    found = order.executable(steps)
    return [pods.keys[step.pod].removeprefix("shop/").removesuffix("-0") for step in found]


def test_the_largest_pod_waits_if_it_would_take_room_that_others_need_first() -> None:
    """`large` fits at once, but then `middle` and `small` would wait for each other for ever."""
    cluster = [
        *(node("a", cpu="8"), node("b", cpu="6"), node("c", cpu="8")),
        *replicas("middle", "a", cpu="4"),
        *replicas("small", "b", cpu="2"),
        *replicas("other", "b", cpu="2"),
        *replicas("large", "c", cpu="4"),
    ]
    wanted = {"large": "a", "middle": "b", "small": "a"}
    assert ordered(cluster, wanted) == ["small", "middle", "large"]


def test_an_order_that_does_not_exist_leaves_everything_as_it_was() -> None:
    cluster = [
        *(node("a", cpu="2"), node("b", cpu="2")),
        *replicas("one", "a", cpu="2"),
        *replicas("two", "b", cpu="2"),
    ]
    problem = problem_for(cluster)
    checker = FeasibilityChecker(problem.snapshot)
    order = MoveOrdering(problem, checker)
    pods = problem.snapshot.pods
    steps = [SearchStep(row, int(pods.node[row]), 1 - int(pods.node[row])) for row in range(2)]
    assert order.executable(steps, may_park=True) == []
    assert order.executable(steps, may_park=True) == []
    assert checker.refusals(int(pods.template[0])).all()
