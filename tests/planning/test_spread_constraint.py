"""What is gained when a pod leaves a node, asked for one node and for many at once."""

from random import Random

import numpy as np
import pytest

from rescheduler.planning.strategies.topology_spread import SpreadConstraint


@pytest.mark.parametrize("seed", range(50))
def test_leaving_many_nodes_is_worth_what_leaving_each_is_worth(seed: int) -> None:
    random = Random(seed)
    domains = random.randint(2, 5)
    domain_of_node = np.array([random.randint(-1, domains - 1) for _ in range(12)], np.int32)
    constraint = SpreadConstraint("web", "zone", 0.5, random.randint(1, 3), domain_of_node, domains)
    for node in range(12):
        constraint.add(node, random.randint(1, 1 + seed % 7))
    nodes = np.arange(12, dtype=np.int32)
    one_by_one = [constraint.gain_of_leaving(node) for node in range(12)]
    assert constraint.gains_of_leaving(nodes).tolist() == pytest.approx(one_by_one)
