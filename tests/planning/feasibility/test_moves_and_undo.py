"""Planned moves and their undoing leave the judge as if the pods had always been where they are."""

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
    """A move of one of the placed pods to one of the nodes, or, without a node, an undo."""

    pod: int
    node: int | None


class Questions(NamedTuple):
    """What the judge is asked after a step; what it is not asked it must not have to remember."""

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
def test_after_moves_and_undos_the_judge_answers_as_a_fresh_one(
    seed: int, rounds: list[tuple[list[Step], Questions]]
) -> None:
    played = _Played(generate_cluster(seed, NODES, PODS))
    for taken, asked in rounds:
        for step in taken:
            played.take(step)
        played.assert_like_a_fresh_judge(asked)
    played.assert_like_a_fresh_judge(_everything)


@settings(max_examples=EXAMPLES, deadline=None, derandomize=True)
@given(seeds, steps, questions)
def test_undoing_every_move_gives_the_first_answers_again(
    seed: int, taken: list[Step], asked: Questions
) -> None:
    played = _Played(generate_cluster(seed, NODES, PODS))
    before = played.answers(_everything)
    for step in taken:
        played.take(step)
        played.answers(asked)
    while played.moves:
        played.take(Step(0, None))
    _assert_equal(played.answers(_everything), before, f"seed {seed}, steps {taken}")


_everything = Questions(range(PODS), range(PODS))


class _Played:
    """A judge that takes moves, beside a cluster in which they have happened."""

    def __init__(self, cluster: GeneratedCluster) -> None:
        self._seed = cluster.seed
        self._items = deepcopy(cluster.items)
        self._pods = {key_of(item): item for item in self._items if item["kind"] == "Pod"}
        self.judge = FeasibilityChecker(snapshot_of(self._items))
        self._placed = np.flatnonzero(self.judge.snapshot.pods.placed).tolist()
        self.moves: list[tuple[int, str]] = []

    def take(self, step: Step) -> None:
        """Move a pod, or take back the last move if there is one."""
        snapshot = self.judge.snapshot
        if step.node is not None:
            pod = self._placed[step.pod % len(self._placed)]
            spec = self._pods[snapshot.pods.keys[pod]]["spec"]
            self.moves.append((pod, spec["nodeName"]))
            self.judge.move(pod, step.node)
            spec["nodeName"] = snapshot.nodes.names[step.node]
        elif self.moves:
            pod, source = self.moves.pop()
            self.judge.undo()
            self._pods[snapshot.pods.keys[pod]]["spec"]["nodeName"] = source

    def answers(self, asked: Questions) -> dict[str, list[int]]:
        """What the judge says now."""
        return _answers(self.judge, asked, self._placed)

    def assert_like_a_fresh_judge(self, asked: Questions) -> None:
        """Ask a judge that never saw a move, of a cluster in which the pods really are there."""
        fresh = FeasibilityChecker(snapshot_of(self._items))
        assert fresh.snapshot.templates == self.judge.snapshot.templates
        told = f"seed {self._seed}, moves (pod, from) {self.moves}"
        _assert_equal(self.answers(asked), _answers(fresh, asked, self._placed), told)


def _answers(
    judge: FeasibilityChecker, asked: Questions, placed: list[int]
) -> dict[str, list[int]]:
    templates = len(judge.snapshot.templates)
    of_templates = {
        f"template {each % templates}": judge.refusals(each % templates).tolist()
        for each in asked.templates
    }
    rows = [placed[each % len(placed)] for each in asked.pods]
    of_pods = {
        f"without {judge.snapshot.pods.keys[row]}": judge.refusals_without(row).tolist()
        for row in rows
    }
    return of_templates | of_pods


def _assert_equal(found: dict[str, list[int]], expected: dict[str, list[int]], told: str) -> None:
    different = {
        asked: f"{answer} instead of {expected[asked]}"
        for asked, answer in found.items()
        if answer != expected[asked]
    }
    assert not different, f"{told}: {different}"
