import numpy as np
import pytest

from rescheduler.planning.search.columns import class_transport
from rescheduler.planning.search.columns.class_transport import ClassTransport
from rescheduler.planning.search.columns.placement_repair import PlacementRepair
from rescheduler.planning.search.columns.pod_classes import pod_classes
from testcluster.builders import node
from tests.planning.columns.problems import Objects, Parts, apart, priced, problem_for, replicas


def pooled_cluster() -> Objects:
    """Sixty sets of two pods that exclude each other, on a and b; c is empty."""
    cluster: Objects = [node(name, cpu="80") for name in "abc"]
    for number in range(60):
        cluster += replicas(f"db-{number}", "ab", affinity=apart(f"db-{number}"))
    return cluster


@pytest.mark.parametrize("most_arcs", [0, 12_000], ids=["by turns", "by a linear program"])
def test_counts_become_pods_that_do_not_exclude_each_other(
    most_arcs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(class_transport, "_MOST_ARCS", most_arcs)
    problem = problem_for(pooled_cluster())
    classes = pod_classes(problem)
    assert len(classes) == 1, "otherwise this tests nothing"
    wanted = np.array([[45], [45], [30]], np.int16)
    steps = ClassTransport(problem, classes).steps(wanted)
    assert len(steps) == 30
    assert {target for _, _, target in steps} == {2}
    template_of = problem.snapshot.pods.template
    assert len({int(template_of[pod]) for pod, _, _ in steps}) == 30, "no two of one set"


def test_only_pods_that_have_to_move_do() -> None:
    problem = problem_for([node("a"), node("b"), *replicas("web", "aab"), *replicas("shop", "b")])
    classes = pod_classes(problem)
    steps = ClassTransport(problem, classes).steps(np.array([[1], [3]], np.int16))
    assert [(source, target) for _, source, target in steps] == [(0, 1)]
    assert not ClassTransport(problem, classes).steps(classes.start)


def test_a_pod_that_breaks_a_rule_leaves() -> None:
    problem = problem_for([node("a"), node("b"), *replicas("db", "aa", affinity=apart("db"))])
    classes = pod_classes(problem)
    steps = ClassTransport(problem, classes).steps(np.array([[1], [1]], np.int16))
    assert [(source, target) for _, source, target in steps] == [(0, 1)]


def test_what_is_placed_twice_or_missing_is_put_right_where_it_costs_least() -> None:
    cluster = [priced("a", 1.0), priced("b", 3.0), *replicas("web", "ab")]
    parts = Parts(problem_for(cluster))
    repair = PlacementRepair(parts.contents, parts.linking)
    assert repair.repair(np.array([[2], [1]], np.int16)).tolist() == [[2], [0]]
    assert repair.repair(np.array([[1], [0]], np.int16)).tolist() == [[2], [0]]


def test_without_time_missing_pods_are_placed_on_nodes_in_use_all_the_same() -> None:
    cluster = [priced("a", 1.0, cpu="9"), priced("b", 1.0), priced("c", 3.0)]
    parts = Parts(problem_for([*cluster, *replicas("web", "abc" * 3)]))
    hurried = PlacementRepair(parts.contents, parts.linking, lambda: True)
    assert hurried.repair(np.array([[2], [2], [0]], np.int16))[2] == 0
    assert hurried.repair(np.array([[0], [0], [0]], np.int16)).sum() == 9


def test_a_pod_that_finds_no_place_takes_that_of_another() -> None:
    """Every pod on a has a sibling on c, where there is room: one of b goes there instead."""
    cluster: Objects = [node(name, cpu="80") for name in "abc"]
    for number in range(60):
        nodes = "ac" if number < 20 else "b"
        cluster += replicas(f"db-{number}", nodes, affinity=apart(f"db-{number}"))
    problem = problem_for(cluster)
    classes = pod_classes(problem)
    assert len(classes) == 1, "otherwise this tests nothing"
    steps = ClassTransport(problem, classes).steps(np.array([[19], [40], [21]], np.int16))
    assert sorted((source, target) for _, source, target in steps) == [(0, 1), (1, 2)]
