"""What is gained when a pod leaves a node and what it costs to come, against counting anew."""

from random import Random

import numpy as np
import pytest

from rescheduler.planning.strategies.spread_table import SpreadConstraint, SpreadTable

NODES = 12


def random_constraints(random: Random) -> list[SpreadConstraint]:
    """Three constraints over two labels, some nodes of which are in no domain."""
    labels = []
    for domains in (random.randint(2, 5), random.randint(2, 5)):
        codes = [random.randint(-1, domains - 1) for _ in range(NODES)]
        labels.append((np.array(codes, np.int32), len({code for code in codes if code >= 0})))
    return [
        SpreadConstraint("web", "zone", random.random(), random.randint(1, 3), *labels[number % 2])
        for number in range(3)
    ]


def random_pods(random: Random) -> list[list[int]]:
    """By constraint, the nodes of its pods."""
    return [random.choices(range(NODES), k=random.randint(1, 30)) for _ in range(3)]


def table_of(constraints: list[SpreadConstraint], pods: list[list[int]]) -> SpreadTable:
    return SpreadTable(constraints, [np.array(each, np.int32) for each in pods])


@pytest.mark.parametrize("seed", range(30))
def test_leaving_gains_what_the_cost_falls_by(seed: int) -> None:
    random = Random(seed)
    pods = random_pods(random)
    table = table_of(random_constraints(random), pods)
    numbers = np.repeat(np.arange(3), [len(each) for each in pods])
    nodes = np.concatenate(pods)
    gained = []
    for number, node in zip(numbers.tolist(), nodes.tolist(), strict=True):
        before = table.cost()
        table.add(number, node, -1)
        gained.append(before - table.cost())
        table.add(number, node, 1)
    assert table.gains_of_leaving(numbers, nodes).tolist() == pytest.approx(gained)


@pytest.mark.parametrize("seed", range(30))
def test_coming_costs_what_the_cost_rises_by(seed: int) -> None:
    random = Random(seed)
    pods = random_pods(random)
    table = table_of(random_constraints(random), pods)
    for number in range(3):
        source = random.choice(pods[number])
        asked = table.arrival_costs(number, source).tolist()
        table.add(number, source, -1)
        gone = table.cost()
        for node in range(NODES):
            table.add(number, node, 1)
            assert asked[node] == pytest.approx(table.cost() - gone), (number, source, node)
            table.add(number, node, -1)
        table.add(number, source, 1)


@pytest.mark.parametrize("seed", range(30))
def test_after_moves_all_is_as_if_it_were_counted_anew(seed: int) -> None:
    random = Random(seed)
    constraints, pods = random_constraints(random), random_pods(random)
    table = table_of(constraints, pods)
    for _ in range(20):
        number, target = random.randrange(3), random.randrange(NODES)
        moved = random.randrange(len(pods[number]))
        table.add(number, pods[number][moved], -1)
        table.add(number, target, 1)
        pods[number][moved] = target
    anew = table_of(constraints, pods)
    assert table.cost() == pytest.approx(anew.cost())
    assert table.surplus() == anew.surplus()
    for number in range(3):
        assert table.fewest(number) == anew.fewest(number)
        for node in set(pods[number]):
            costs = table.arrival_costs(number, node).tolist()
            assert costs == pytest.approx(anew.arrival_costs(number, node).tolist())
