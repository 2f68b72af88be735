import msgspec
import numpy as np
import pytest

from rescheduler.settings import Limit, Percent, Policy, StrategyName
from testcluster.builders import node
from tests.planning.columns.problems import SAVING, Parts, apart, priced, problem_for, replicas


def allowed(parts: Parts, on: int, *counts: int) -> bool:
    contents = np.array([counts], np.int16)
    return bool(parts.contents.are_allowed(np.array([on]), contents)[0])


def test_a_node_holds_what_fits_exactly_and_no_more() -> None:
    parts = Parts(problem_for([node("a", cpu="3"), node("b"), *replicas("web", "bbbb")]))
    assert allowed(parts, 0, 3)
    assert not allowed(parts, 0, 4)


def test_a_node_may_always_hold_less_than_at_the_start() -> None:
    cluster = [node("a", cpu="2"), node("b"), *replicas("web", "aaaa")]
    parts = Parts(problem_for(cluster))
    assert allowed(parts, 0, 3), "it holds too much, but that is less than before"
    assert not allowed(parts, 1, 9)


def test_a_cordoned_node_gets_no_pods() -> None:
    parts = Parts(problem_for([node("a", unschedulable=True), node("b"), *replicas("web", "ab")]))
    assert allowed(parts, 0, 0)
    assert allowed(parts, 0, 1)
    assert not allowed(parts, 0, 2)


def test_no_node_is_pushed_above_a_threshold() -> None:
    policy = Policy(
        enabled_strategies=(StrategyName.COST_OPTIMIZATION, StrategyName.RESOURCE_OPTIMIZATION),
        cpu_threshold=Percent(50),
    )
    cluster = [node("a"), node("b"), *replicas("web", "aaabbbbb")]
    parts = Parts(problem_for(cluster, policy))
    assert allowed(parts, 0, 4)
    assert not allowed(parts, 0, 5)
    assert allowed(parts, 1, 5), "as at the start"
    assert not allowed(parts, 1, 6)


def test_pods_that_exclude_each_other_do_not_meet() -> None:
    cluster = [
        node("a"),
        node("b"),
        *replicas("db", "a", affinity=apart("web")),
        *replicas("web", "b"),
    ]
    parts = Parts(problem_for(cluster))
    assert allowed(parts, 0, 1, 0)
    assert not allowed(parts, 0, 1, 1)


def test_the_limit_of_moves_per_node_is_kept() -> None:
    policy = msgspec.structs.replace(SAVING, max_moves_per_node=Limit(1))
    parts = Parts(problem_for([node("a"), node("b"), *replicas("web", "aab")], policy))
    assert allowed(parts, 0, 1)
    assert not allowed(parts, 1, 3)


def test_the_cost_is_that_of_the_objective() -> None:
    cluster = [priced("a", 1.0), priced("b", 3.0), *replicas("web", "ab")]
    parts = Parts(problem_for(cluster))
    costs = parts.contents.costs(parts.nodes, np.array([[1], [0]], np.int16))
    assert costs.tolist() == pytest.approx([0.5, 0.0])
