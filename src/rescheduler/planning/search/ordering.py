"""Bring moves into an order in which each can be carried out, and say which may run together.

What a search found is an assignment. On the way there every target must accept its pod when it
comes, with the old pod still running. So whatever is accepted at the moment goes first: before all
from nodes that hold more than they have, then from nodes that most others wait for.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from rescheduler.model.snapshot import Floats
from rescheduler.planning.feasibility.checker import FeasibilityChecker
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.steps import SearchStep

# With so few steps, so many other orders are tried.
_FEW, _OTHER_ORDERS = 40, 8
# Targets of other pods of its template that are tried for a pod.
_TARGETS_TRIED = 5


class MoveOrdering:
    """Finds out which steps can be carried out, on a checker with the pods as at the start."""

    def __init__(self, problem: Problem, checker: FeasibilityChecker) -> None:
        self._problem = problem
        self._checker = checker
        self._demand = problem.load.demand
        self._free: Floats = problem.load.allocatable - problem.load.used
        self._template_of = problem.snapshot.pods.template

    def executable(self, steps: Sequence[SearchStep]) -> list[SearchStep]:
        """The steps in an order in which they are possible, without those that never are.

        Pods of one template may change targets among themselves. With few steps that do not all
        work out, other orders are tried as well.
        """
        best = self._try(steps)
        if len(steps) <= _FEW:
            random = np.random.default_rng(len(steps))
            for _ in range(_OTHER_ORDERS):
                if len(best) == len(steps):
                    break
                shuffled = [steps[index] for index in random.permutation(len(steps))]
                best = max(best, self._try(shuffled), key=len)
        return best

    def _try(self, steps: Sequence[SearchStep]) -> list[SearchStep]:
        targets: defaultdict[int, list[int]] = defaultdict(list)
        for step in steps:
            targets[int(self._template_of[step.pod])].append(step.target)
        done: list[SearchStep] = []
        waiting = list(steps)
        while waiting:
            taken = self._take_what_fits(waiting, targets)
            if not taken:
                break
            done += taken
            taken_pods = {step.pod for step in taken}
            waiting = [step for step in waiting if step.pod not in taken_pods]
        for step in reversed(done):
            self._take_back(step)
        return done

    def _take_what_fits(
        self, waiting: Sequence[SearchStep], targets: Mapping[int, list[int]]
    ) -> list[SearchStep]:
        awaited = Counter(step.target for step in waiting)
        overcommitted = np.atleast_1d((self._free < 0).any(axis=0))
        order = sorted(
            waiting, key=lambda step: (not overcommitted[step.source], -awaited[step.source])
        )
        found = (self._take_one(step, targets) for step in order)
        return [step for step in found if step is not None]

    def _take_one(self, step: SearchStep, targets: Mapping[int, list[int]]) -> SearchStep | None:
        """Move the pod to its target or to that of another pod of its template, if it fits now."""
        open_targets = targets[int(self._template_of[step.pod])]
        others = [node for node in dict.fromkeys(open_targets) if node != step.target]
        first = [step.target] if step.target in open_targets else []
        for target in (first + others)[:_TARGETS_TRIED]:
            taken = SearchStep(step.pod, step.source, target)
            if self._take(taken):
                open_targets.remove(target)
                return taken
        return None

    def _take(self, step: SearchStep) -> bool:
        demand = self._demand[:, int(self._template_of[step.pod])]
        room = np.maximum(self._free[:, step.target], 0.0)
        if (demand > room).any() or not self._problem.accepts(self._checker, step.pod, step.target):
            return False
        self._checker.place(step.pod, step.source, step.target)
        self._free[:, step.source] += demand
        self._free[:, step.target] -= demand
        return True

    def _take_back(self, step: SearchStep) -> None:
        demand = self._demand[:, int(self._template_of[step.pod])]
        self._checker.place(step.pod, step.target, step.source)
        self._free[:, step.source] -= demand
        self._free[:, step.target] += demand


def waves(problem: Problem, steps: Iterable[SearchStep]) -> list[int]:
    """For each step the number of its wave: steps of one wave may run at the same time.

    A step opens a new wave if it needs room that an earlier one of its wave leaves behind, or if
    the two affect the same other pods.
    """
    checker, demand = problem.checker, problem.load.demand
    free = problem.load.allocatable - problem.load.used
    # What is free while every old pod of the wave is still there.
    surging = free.copy()
    left_in_wave: set[int] = set()
    affected_in_wave: set[int] = set()
    numbers: list[int] = []
    wave = 0
    for pod, source, target in steps:
        template = int(problem.snapshot.pods.template[pod])
        needed = demand[:, template]
        depends = bool(checker.depends_on_pods[template])
        affected = {*checker.affected_by(template), *([template] if depends else [])}
        if (
            (needed > np.maximum(surging[:, target], 0.0)).any()
            or (depends and target in left_in_wave)
            or affected & affected_in_wave
        ):
            wave += 1
            surging = free.copy()
            left_in_wave, affected_in_wave = set(), set()
        surging[:, target] -= needed
        free[:, target] -= needed
        free[:, source] += needed
        left_in_wave.add(source)
        affected_in_wave |= affected
        numbers.append(wave)
    return numbers
