"""After planned moves, also back, the checker answers as if the pods had always been there."""

import os
from collections.abc import Sequence
from copy import deepcopy
from typing import NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.planning.feasibility.checker import FeasibilityChecker
from testcluster.snapshots import snapshot_of
from tests.planning.feasibility.generated_clusters import (
    GeneratedCluster,
    generate_cluster,
    key_of,
)

NODES, PODS = 8, 30
EXAMPLES = 3000 if os.environ.get("EXHAUSTIVE") == "1" else 120


class Step(NamedTuple):
    """A move of one of the placed pods to a node. Without a node, the last move is taken back."""

    pod: int
    node: int | None


class Questions(NamedTuple):
    """What the checker is asked after a step. What it is not asked it must not have to cache."""

    templates: Sequence[int]
    pods: Sequence[int]


steps = st.lists(
    st.builds(Step, st.integers(0, PODS - 1), st.none() | st.integers(0, NODES - 1)),
    min_size=1,
    max_size=8,
)
questions = st.builds(
    Questions,
    st.lists(st.integers(0, PODS - 1), max_size=6),
    st.lists(st.integers(0, PODS - 1), max_size=4),
)
seeds = st.integers(0, 10**6)


@settings(max_examples=EXAMPLES, deadline=None, derandomize=True)
@given(seeds, st.lists(st.tuples(steps, questions), min_size=1, max_size=3))
def test_after_moves_and_moves_back_the_checker_answers_as_a_new_one(
    seed: int, phases: list[tuple[list[Step], Questions]]
) -> None:
    moving = _MovingCluster(generate_cluster(seed, NODES, PODS))
    for taken, asked in phases:
        for step in taken:
            moving.take(step)
        # First, so that it is not answered from what is known of all nodes.
        alone = _refused_one_by_one(moving.checker, asked, moving.placed)
        moving.assert_like_a_new_checker(asked)
        together = {
            key: [bool(each) for each in refusals]
            for key, refusals in moving.answers(asked).items()
        }
        assert alone == together, f"seed {seed}, moves (pod, from) {moving.moves}"
    moving.assert_like_a_new_checker(_everything)


@settings(max_examples=EXAMPLES, deadline=None, derandomize=True)
@given(seeds, steps, questions)
def test_taking_every_move_back_restores_the_first_answers(
    seed: int, taken: list[Step], asked: Questions
) -> None:
    moving = _MovingCluster(generate_cluster(seed, NODES, PODS))
    before = moving.answers(_everything)
    for step in taken:
        moving.take(step)
        moving.answers(asked)
    while moving.moves:
        moving.take(Step(0, None))
    _assert_equal(moving.answers(_everything), before, f"seed {seed}, steps {taken}")


_everything = Questions(range(PODS), range(PODS))


class _MovingCluster:
    """A checker that follows moves, and the objects of a cluster in which they have happened."""

    def __init__(self, cluster: GeneratedCluster) -> None:
        self._seed = cluster.seed
        self._items = deepcopy(cluster.items)
        self._pods = {key_of(item): item for item in self._items if item["kind"] == "Pod"}
        self.checker = FeasibilityChecker(snapshot_of(self._items))
        self.placed = np.flatnonzero(self.checker.snapshot.pods.placed).tolist()
        self.moves: list[tuple[int, int]] = []

    def take(self, step: Step) -> None:
        """Move a pod, or take back the last move if there is one."""
        if step.node is not None:
            pod = self.placed[step.pod % len(self.placed)]
            self.moves.append((pod, self.checker.node_of(pod)))
            self._move(pod, step.node)
        elif self.moves:
            self._move(*self.moves.pop())

    def _move(self, pod: int, node: int) -> None:
        snapshot = self.checker.snapshot
        self.checker.move(pod, node)
        spec = self._pods[snapshot.pods.keys[pod]]["spec"]
        spec["nodeName"] = snapshot.nodes.names[node]

    def answers(self, asked: Questions) -> dict[str, list[int]]:
        """What the checker says now."""
        return _answers(self.checker, asked, self.placed)

    def assert_like_a_new_checker(self, asked: Questions) -> None:
        """Ask a checker that saw no move, of a cluster in which the pods really are there."""
        new = FeasibilityChecker(snapshot_of(self._items))
        assert new.snapshot.templates == self.checker.snapshot.templates
        case = f"seed {self._seed}, moves (pod, from) {self.moves}"
        _assert_equal(self.answers(asked), _answers(new, asked, self.placed), case)


def _answers(
    checker: FeasibilityChecker, asked: Questions, placed: list[int]
) -> dict[str, list[int]]:
    templates = len(checker.snapshot.templates)
    of_templates = {
        f"template {number % templates}": checker.refusals(number % templates).tolist()
        for number in asked.templates
    }
    rows = [placed[number % len(placed)] for number in asked.pods]
    of_pods = {
        f"without {checker.snapshot.pods.keys[row]}": checker.refusals_without(row).tolist()
        for row in rows
    }
    return of_templates | of_pods


def _refused_one_by_one(
    checker: FeasibilityChecker, asked: Questions, placed: list[int]
) -> dict[str, list[bool]]:
    """What it says if it is asked about each node alone."""
    templates, nodes = len(checker.snapshot.templates), range(len(checker.snapshot.nodes))
    of_templates = {
        f"template {number % templates}": [
            checker.refuses(number % templates, node) for node in nodes
        ]
        for number in asked.templates
    }
    rows = [placed[number % len(placed)] for number in asked.pods]
    of_pods = {
        f"without {checker.snapshot.pods.keys[row]}": [
            checker.refuses_without(row, node) for node in nodes
        ]
        for row in rows
    }
    return of_templates | of_pods


def _assert_equal(found: dict[str, list[int]], expected: dict[str, list[int]], case: str) -> None:
    different = {
        asked: f"{answer} instead of {expected[asked]}"
        for asked, answer in found.items()
        if answer != expected[asked]
    }
    assert not different, f"{case}: {different}"
