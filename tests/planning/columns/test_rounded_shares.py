"""Whole columns for all nodes, so that the numbers of pods add up as their shares do."""

import numpy as np

from rescheduler.planning.search.columns.integer_choice import rounded_shares
from tests.planning.columns.problems import Parts, priced, problem_for, replicas


def test_nodes_that_are_alike_do_not_all_take_the_same_column() -> None:
    nodes = [f"n{number}" for number in range(12)]
    cluster = [priced(name, 1.0, cpu="8") for name in nodes]
    parts = Parts(problem_for([*cluster, *replicas("web", nodes * 2)]))
    for pods in (0, 6):
        contents = np.full((len(nodes), 1), pods, np.int16)
        parts.pool.add(parts.nodes, contents)
    shares = np.repeat([0.0, 0.66, 0.34], len(nodes))
    rounded = rounded_shares(parts.pool, shares, parts.classes.totals, np.ones(1))
    assert sorted(rounded[:, 0].tolist()) == [0] * 8 + [6] * 4


def test_a_node_with_one_likely_column_has_it() -> None:
    parts = Parts(problem_for([priced("a", 1.0), priced("b", 1.0), *replicas("web", "ab")]))
    parts.pool.add(parts.nodes, np.array([[2], [0]], np.int16))
    shares = np.array([0.0, 0.01, 1.0, 0.99])
    rounded = rounded_shares(parts.pool, shares, parts.classes.totals, np.ones(1))
    assert rounded.tolist() == [[2], [0]]
