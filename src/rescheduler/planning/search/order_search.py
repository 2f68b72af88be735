"""Find an order of few steps in which each is possible, if there is one.

Whatever can be done without taking room from others is done first. Then one step after another is
tried, and taken back if no order follows from it; states that led nowhere are remembered. Where
every pod waits for another, some are parked: moved to a third node, and on from there.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np

from rescheduler.model.snapshot import Bools, Floats
from rescheduler.planning.search.steps import SearchStep

# Steps that are tried: enough for a dozen pods that wait for each other.
_TRIES = 300

_State = tuple[frozenset[tuple[tuple[int, int], int]], frozenset[tuple[tuple[int, int], int]], int]


class StepTaker(Protocol):
    """Carries out steps as far as they are possible, and takes them back."""

    def take(self, step: SearchStep) -> bool:
        """Whether the step was possible; then it is carried out."""
        ...

    def take_back(self, step: SearchStep) -> None:
        """Undo the last step."""
        ...


class OrderSearch:
    """Looks for an order from the state that a taker is in."""

    def __init__(
        self,
        taker: StepTaker,
        free: Floats,
        demand_of: Callable[[int], Floats],
        kind_of: Callable[[int], int],
        is_independent: Callable[[int], bool],
        closed_to: Callable[[int], Bools],
    ) -> None:
        """`free` is kept up to date by the taker: a row per resource, a column per node.

        A pod is independent if only room decides where it may go, and whom it hinders. It is not
        parked on nodes that are closed to it.
        """
        self._taker = taker
        self._free = free
        self._demand_of = demand_of
        self._kind_of = kind_of
        self._is_independent = is_independent
        self._closed_to = closed_to

    def order(self, steps: Sequence[SearchStep], parkings: int) -> list[SearchStep] | None:
        """All of these steps in an order, with so many more; None if none was found.

        The taker is left as it was. Pods of one kind may take each other's targets.
        """
        self._where = {step.pod: step.source for step in steps}
        self._targets = Counter((self._kind_of(step.pod), step.target) for step in steps)
        self._done: list[SearchStep] = []
        self._parked: set[int] = set()
        self._dead_ends: set[_State] = set()
        self._tries_left = _TRIES
        found = self._finish(parkings)
        done = list(self._done)
        self._undo_to(0)
        return done if found else None

    def _finish(self, parkings: int) -> bool:
        """Whether all that wait could be carried out; if not, what was done is taken back."""
        before = len(self._done)
        self._take_harmless()
        if not self._where:
            return True
        state = self._state(parkings)
        if state in self._dead_ends:
            self._undo_to(before)
            return False
        for pod, target in self._possible():
            if self._take(pod, target):
                if self._finish(parkings):
                    return True
                self._undo_to(len(self._done) - 1)
        for pod, node in self._parkings() if parkings else ():
            if self._take(pod, node):
                if self._finish(parkings - 1):
                    return True
                self._undo_to(len(self._done) - 1)
        self._dead_ends.add(state)
        self._undo_to(before)
        return False

    # ------------------------------------------------------------ what is tried

    def _possible(self) -> Iterator[tuple[int, int]]:
        """Pods and targets to try, one of each kind and node, the largest pods first."""
        seen = set()
        for pod in sorted(self._where, key=lambda pod: -self._share(pod)):
            kind, source = self._kind_of(pod), self._where[pod]
            for other, target in list(self._targets):
                if other == kind and target != source and (kind, source, target) not in seen:
                    seen.add((kind, source, target))
                    yield pod, target

    def _parkings(self) -> Iterator[tuple[int, int]]:
        """Pods to park, from nodes that others wait for, and where: on the roomiest node first."""
        awaited = {target for _, target in self._targets}
        seen = set()
        for pod in sorted(self._where, key=self._share):
            kind, source = self._kind_of(pod), self._where[pod]
            if pod in self._parked or source not in awaited or (kind, source) in seen:
                continue
            seen.add((kind, source))
            left = self._free - self._demand_of(pod)[:, None]
            room = (left / np.maximum(self._free.max(axis=1), 1.0)[:, None]).min(axis=0)
            closed = self._closed_to(pod)
            for node in np.argsort(-room, kind="stable").tolist():
                if node != source and not closed[node] and (kind, node) not in self._targets:
                    yield pod, node

    def _share(self, pod: int) -> float:
        return float((self._demand_of(pod) / np.maximum(self._free.max(axis=1), 1.0)).max())

    def _take_harmless(self) -> None:
        """Take steps to nodes that have room for all who wait for them."""
        progress = True
        while progress:
            roomy = self._roomy_targets()
            tried = [
                (pod, target)
                for pod, target in self._possible()
                if target in roomy and self._is_independent(pod)
            ]
            progress = sum(self._still_waits(*each) and self._take(*each) for each in tried) > 0

    def _still_waits(self, pod: int, target: int) -> bool:
        """Whether the pod still waits, and the target for it."""
        return pod in self._where and (self._kind_of(pod), target) in self._targets

    def _roomy_targets(self) -> set[int]:
        """Nodes with room for the largest pods of all kinds that some wait for."""
        demand: dict[int, Floats] = {}
        by_kind = {self._kind_of(pod): self._demand_of(pod) for pod in self._where}
        for (kind, target), count in self._targets.items():
            if kind in by_kind:
                demand[target] = demand.get(target, 0.0) + count * by_kind[kind]
        return {
            target for target, needed in demand.items() if (needed <= self._free[:, target]).all()
        }

    # ------------------------------------------------------------ carrying out and taking back

    def _take(self, pod: int, node: int) -> bool:
        source, kind = self._where[pod], self._kind_of(pod)
        if self._tries_left <= 0 or (self._demand_of(pod) > self._free[:, node]).any():
            return False
        self._tries_left -= 1
        step = SearchStep(pod, source, node)
        if not self._taker.take(step):
            return False
        self._done.append(step)
        if self._targets[kind, node]:
            del self._where[pod]
            self._targets[kind, node] -= 1
            if not self._targets[kind, node]:
                del self._targets[kind, node]
        else:
            self._where[pod] = node
            self._parked.add(pod)
        return True

    def _undo_to(self, count: int) -> None:
        while len(self._done) > count:
            step = self._done.pop()
            self._taker.take_back(step)
            if step.pod in self._where:
                self._parked.discard(step.pod)
            else:
                self._targets[self._kind_of(step.pod), step.target] += 1
            self._where[step.pod] = step.source

    def _state(self, parkings: int) -> _State:
        where = Counter((self._kind_of(pod), node) for pod, node in self._where.items())
        return frozenset(where.items()), frozenset(self._targets.items()), parkings
