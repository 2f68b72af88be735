import numpy as np
import pytest

from rescheduler.planning.search.columns.master_problem import Penalties
from rescheduler.planning.search.columns.pricing import Pricing
from rescheduler.planning.search.columns.smoothed_dual import SmoothedDual
from tests.planning.columns.problems import Parts, priced, problem_for, replicas


@pytest.fixture
def parts() -> Parts:
    """Nodes of different prices, of which some could be emptied; with many columns."""
    nodes = "abcdefgh"
    cluster = [priced(name, 1.0 + number / 10, cpu="8") for number, name in enumerate(nodes)]
    cluster += replicas("web", nodes * 2) + replicas("big", "acegh", cpu="3")
    parts = Parts(problem_for(cluster))
    for web in range(9):
        for big in range(3):
            contents = np.tile(np.array([web, big], np.int16), (len(nodes), 1))
            parts.pool.add(parts.nodes, contents)
    return parts


def smoothed(parts: Parts, rounds: int) -> SmoothedDual:
    penalties = np.full(len(parts.classes), 10.0)
    dual = SmoothedDual(
        parts.classes,
        parts.linking,
        Penalties(penalties, penalties),
        np.array([0.2, 0.6]),
    )
    for _ in range(rounds):
        dual.solve(parts.pool)
    return dual


def test_no_known_column_is_better_than_the_best_of_its_node(parts: Parts) -> None:
    duals = smoothed(parts, rounds=1).duals
    gains = Pricing(parts.contents).gains(parts.pool.node, parts.pool.contents, duals)
    assert gains.max() == pytest.approx(0.0, abs=1e-9)
    best = [gains[parts.pool.node == node].max() for node in parts.nodes]
    assert best == pytest.approx([0.0] * len(best), abs=1e-9)


def test_dual_values_become_those_of_the_linear_program(parts: Parts) -> None:
    duals = smoothed(parts, rounds=20).duals
    bound = float(duals.of_node.sum() + duals.of_pod[0] @ parts.classes.totals)
    least = parts.master().value
    assert 0.98 * least < bound <= least + 1e-6


def test_every_node_has_one_column_in_all(parts: Parts) -> None:
    shares = smoothed(parts, rounds=3).shares
    of_node = np.bincount(parts.pool.node, weights=shares)
    assert of_node.tolist() == pytest.approx([1.0] * len(parts.nodes))


def test_shares_become_sharper(parts: Parts) -> None:
    soon, late = smoothed(parts, rounds=1).shares, smoothed(parts, rounds=20).shares
    assert (late**2).sum() > (soon**2).sum()
