import msgspec
import numpy as np
import pytest

from tests.planning.columns.problems import SAVING, Parts, priced, problem_for, replicas

CLUSTER = [priced("a", 1.0), priced("b", 3.0), *replicas("web", "ab")]


def with_all_columns(parts: Parts) -> Parts:
    for count in range(3):
        parts.pool.add(parts.nodes, np.full((2, 1), count, np.int16))
    return parts


def test_the_cheapest_contents_are_chosen() -> None:
    parts = with_all_columns(Parts(problem_for(CLUSTER)))
    master = parts.master()
    chosen = np.flatnonzero(master.shares > 0.5)
    assert parts.pool.contents[chosen][np.argsort(parts.pool.node[chosen])].tolist() == [[2], [0]]
    assert master.value == pytest.approx(parts.pool.costs[chosen].sum())


def test_the_limit_on_moves_is_kept() -> None:
    policy = msgspec.structs.replace(SAVING, max_reschedule_pods=0)
    master = with_all_columns(Parts(problem_for(CLUSTER, policy))).master()
    assert master.value == pytest.approx(2.0)
    assert (master.duals.of_move > 0).all()


def test_a_pod_is_left_unplaced_only_at_its_penalty() -> None:
    parts = Parts(problem_for(CLUSTER))
    parts.pool.add(parts.nodes, np.zeros((2, 1), np.int16))
    assert parts.master(penalty=0.1).value == pytest.approx(0.2)
    assert parts.master(penalty=10.0).value == pytest.approx(2.0)


def test_an_excluded_column_is_not_used_until_it_is_included_again() -> None:
    parts = with_all_columns(Parts(problem_for(CLUSTER)))
    master = parts.master()
    best = master.value
    chosen = np.flatnonzero(master.shares > 0.5)
    with master.choosing():
        excluded = master.exclude(chosen)
        assert master.solve()
        assert master.value > best
        master.include(excluded)
    assert master.solve()
    assert master.value == pytest.approx(best)
