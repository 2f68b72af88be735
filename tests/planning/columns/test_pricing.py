import numpy as np

from rescheduler.planning.search.columns.pricing import Pricing
from testcluster.builders import node
from tests.planning.columns.problems import MAKING_ROOM, Parts, priced, problem_for, replicas


def test_a_column_is_found_that_lowers_the_total() -> None:
    """The cheap node could take the pod of the dear one, which would then be empty."""
    cluster = [priced("a", 1.0), priced("b", 3.0), *replicas("web", "ab")]
    parts = Parts(problem_for(cluster))
    parts.pool.add(parts.nodes, np.zeros((2, 1), np.int16))
    master = parts.master()
    before = master.value
    found = Pricing(parts.contents).improving(
        parts.nodes, parts.contents.start, master.duals, per_node=1
    )
    assert (found[0].tolist()[:1], found[1].tolist()[:1]) == ([0], [[2]])
    parts.pool.add(*found)
    master.extend(parts.pool)
    assert master.solve()
    assert master.value < before


def test_every_column_found_has_a_negative_reduced_cost() -> None:
    cluster = [
        *(node(name, cpu="6") for name in "abcd"),
        *replicas("big", "abcd", cpu="3"),
        *replicas("small", "abcd"),
    ]
    parts = Parts(problem_for(cluster, MAKING_ROOM))
    master = parts.master()
    pricing = Pricing(parts.contents)
    nodes, contents = pricing.improving(parts.nodes, parts.contents.start, master.duals, per_node=3)
    assert len(nodes) > 0
    assert (pricing.gains(nodes, contents, master.duals) > 0).all()
    assert np.unique(nodes, return_counts=True)[1].max() <= 3


def test_what_lies_nearby_is_found_up_to_a_loss() -> None:
    cluster = [priced("a", 1.0), priced("b", 3.0), *replicas("web", "aabb")]
    parts = Parts(problem_for(cluster))
    parts.pool.add(parts.nodes, np.zeros((2, 1), np.int16))
    master = parts.master()
    pricing = Pricing(parts.contents)
    seeds = parts.nodes, parts.contents.start
    some = pricing.nearby(*seeds, master.duals, 0.0, 100)
    more = pricing.nearby(*seeds, master.duals, 50.0, 100)
    assert 0 < len(some[0]) < len(more[0])
    assert (pricing.gains(*some, master.duals) >= -1e-5).all()
    assert len(pricing.nearby(*seeds, master.duals, 50.0, 3)[0]) == 3
