"""Bring moves into an order in which each can be carried out, and say which may run together.

What a search found is an assignment. On the way there every target must accept its pod when it
comes, with the old pod still running, and no limit may be exceeded. So whatever is accepted at the
moment goes first: before all from nodes that hold more than they have, then the largest pods, then
from nodes that most others wait for.

Where every pod waits for another, one of them is *parked*: moved to a node with room that nobody
waits for, and on from there. That is a move more.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np

from rescheduler.model.snapshot import Bools, Floats, Ints
from rescheduler.planning.feasibility.checker import FeasibilityChecker
from rescheduler.planning.problem.allowances import Allowances
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.order_search import OrderSearch
from rescheduler.planning.search.steps import SearchStep

# So few steps are searched for an order, and so many of them may be parked.
_FEW, _MOST_PARKED = 40, 3
# Targets of other pods of its kind that are tried for a pod.
_TARGETS_TRIED = 5
# When all wait: targets that something is made to leave, pods that are tried for it, and nodes.
_AWAITED_TRIED, _PODS_TRIED, _PARKINGS_TRIED = 8, 3, 6
# Nodes that are tried for a pod whose target stays full.
_ELSEWHERE_TRIED = 20
# More steps than this, per second of `planningTimeout`, may not all be in order in time.
_MANY_PER_SECOND = 1_000


class MoveOrdering:
    """Finds out which steps can be carried out, on a checker with the pods as at the start."""

    def __init__(
        self,
        problem: Problem,
        checker: FeasibilityChecker,
        out_of_time: Callable[[], bool] = lambda: False,
    ) -> None:
        """Once there is no time left, steps that are not in order yet are left out."""
        self.checker = checker
        self._out_of_time = out_of_time
        self._problem = problem
        self._checker = checker
        self._demand = problem.load.demand
        self._free: Floats = problem.load.allocatable - problem.load.used
        self._template_of = problem.snapshot.pods.template
        self._allowances = Allowances(problem)
        available = np.maximum(problem.load.allocatable.mean(axis=1), 1e-9)
        self._size: Floats = (self._demand / available[:, None]).max(axis=0)
        self._own_kinds: Ints = np.arange(len(problem.snapshot.templates), dtype=np.int32)
        self._done: list[SearchStep] = []
        allocatable = problem.load.allocatable
        self._is_any_avoided = problem.objective.avoids(slice(None), allocatable) is not None
        # Pods of one demand find room in the same places.
        _, demands = np.unique(self._demand, axis=1, return_inverse=True)
        self._demand_of: list[int] = demands.ravel().tolist()
        self._full_for: defaultdict[int, set[int]] = defaultdict(set)
        """By node, the demands that it has no room for, as far as that is known."""

    def executable(
        self, steps: Sequence[SearchStep], kind_of: Ints | None = None, *, may_park: bool = False
    ) -> list[SearchStep]:
        """The steps in an order in which they are possible, without those that never are.

        Pods of one kind may change targets among themselves; by default those of one template are
        of one kind. With few steps that do not all work out, other orders are tried as well.
        """
        kinds = self._own_kinds if kind_of is None else kind_of
        best = self._try(steps, kinds, may_park)[-1]
        if self._out_of_time() or len(steps) > _FEW or (len(best) >= len(steps) and not may_park):
            return best
        return self._searched(steps, kinds, may_park) or best

    def without_and_with_parkings(
        self, steps: Sequence[SearchStep], kind_of: Ints | None = None
    ) -> Iterator[list[SearchStep]]:
        """`executable` without parkings and, unless all steps are, with them."""
        if len(steps) > _FEW:
            kinds = self._own_kinds if kind_of is None else kind_of
            yield from self._try(steps, kinds, may_park=True)
            return
        yield (without := self.executable(steps, kind_of))
        if len(without) < len(steps) and not self._out_of_time():
            yield self.executable(steps, kind_of, may_park=True)

    def _searched(
        self, steps: Sequence[SearchStep], kinds: Ints, may_park: bool
    ) -> list[SearchStep] | None:
        """All steps in an order that was searched for, with as few parkings as possible."""
        search = OrderSearch(
            self,
            self._free,
            lambda pod: self._demand[:, int(self._template_of[pod])],
            lambda pod: int(kinds[self._template_of[pod]]),
            self._is_independent,
            lambda pod: self._closed_to(int(self._template_of[pod])),
        )
        most = min(self._problem.max_moves - len(steps), _MOST_PARKED)
        for parkings in range(1, most + 1) if may_park else (0,):
            found = search.order(steps, parkings)
            if found is not None:
                return found
        return None

    def _is_independent(self, pod: int) -> bool:
        template = int(self._template_of[pod])
        return not (self._checker.depends_on_pods[template] or self._checker.affected_by(template))

    def _try(
        self, steps: Sequence[SearchStep], kinds: Ints, may_park: bool
    ) -> list[list[SearchStep]]:
        """What is possible without parking and, unless that is all, what is possible with it."""
        waiting = _WaitingSteps(steps, kinds[self._template_of[[step.pod for step in steps]]])
        if len(steps) > _MANY_PER_SECOND * self._problem.policy.planning_timeout_seconds:
            self._take_node_by_node(waiting)
        self._take_all_that_fit(waiting)
        found = [list(self._done)]
        if may_park and len(waiting) and not self._out_of_time():
            while self._park_one(waiting):
                self._take_all_that_fit(waiting)
            self._take_elsewhere(waiting)
            found.append(list(self._done))
        for step in reversed(self._done.copy()):
            self.take_back(step)
        return found

    # ------------------------------------------------------------ what is possible now

    def _take_all_that_fit(self, waiting: "_WaitingSteps") -> None:
        while len(waiting) and not self._out_of_time():
            if not self._take_what_fits(waiting):
                break

    def _take_what_fits(self, waiting: "_WaitingSteps") -> bool:
        """Whether any step was possible."""
        awaited = waiting.awaited()
        overcommitted = np.atleast_1d((self._free < 0).any(axis=0))
        order = sorted(
            waiting,
            key=lambda step: (
                not overcommitted[step.source],
                -self._size_of(step.pod),
                -awaited[step.source],
            ),
        )
        taken = 0
        for step in order:
            if self._out_of_time():
                break
            taken += self._take_one(step, waiting)
        return taken > 0

    def _take_node_by_node(self, waiting: "_WaitingSteps") -> None:
        """Finish with one node after another, for there may be no time for all of them.

        First those that no pod stays on, and the fewest leave.
        """
        staying = self._problem.movable_on.copy()
        leaving: defaultdict[int, list[SearchStep]] = defaultdict(list)
        for step in sorted(waiting, key=lambda step: -self._size_of(step.pod)):
            leaving[step.source].append(step)
            staying[step.source] -= 1
            staying[step.target] += 1
        for node in sorted(leaving, key=lambda node: (staying[node] > 0, len(leaving[node]))):
            for step in leaving[node]:
                if self._out_of_time():
                    return
                self._take_with_others(step, waiting, leaving, {node})

    def _take_with_others(
        self,
        step: SearchStep,
        waiting: "_WaitingSteps",
        leaving: Mapping[int, Sequence[SearchStep]],
        left_alone: set[int],
    ) -> bool:
        """Move a pod and, before that, those that are in its way and in the way of these.

        Nodes are tried once, and not many of them. Returns whether the pod has moved.
        """
        if step not in waiting or self._take_one(step, waiting):
            return step not in waiting
        target = next(waiting.targets_for(step))
        if target in left_alone or len(left_alone) > _AWAITED_TRIED:
            return False
        left_alone.add(target)
        return any(
            self._take_with_others(other, waiting, leaving, left_alone)
            and self._take_one(step, waiting)
            for other in leaving.get(target, ())
        )

    def _take_one(self, step: SearchStep, waiting: "_WaitingSteps") -> bool:
        """Move the pod to its target or to that of another pod of its kind, if it fits now."""
        for target in islice(waiting.targets_for(step), _TARGETS_TRIED):
            if target != step.source and self.take(SearchStep(step.pod, step.source, target)):
                waiting.remove(step, target)
                return True
        return False

    def take(self, step: SearchStep) -> bool:
        """Carry out a step if it is possible after those that were carried out; says whether."""
        template = int(self._template_of[step.pod])
        allowances, demand = self._allowances, self._demand[:, template]
        if (
            not self._has_room(step.target, template)
            or len(self._done) >= self._problem.max_moves
            or not allowances.may_go[template]
            or allowances.used_up[step.source]
            or allowances.used_up[step.target]
            or self._is_avoided(step, demand)
            or not self._problem.accepts(self._checker, step.pod, step.target)
        ):
            return False
        self._place(step, 1)
        self._done.append(step)
        return True

    def _has_room(self, node: int, template: int) -> bool:
        """Whether there is room for a pod now. Most steps that wait are asked about many times."""
        demand = self._demand_of[template]
        if demand in self._full_for[node]:
            return False
        if (self._demand[:, template] > np.maximum(self._free[:, node], 0.0)).any():
            self._full_for[node].add(demand)
            return False
        return True

    def _is_avoided(self, step: SearchStep, demand: Floats) -> bool:
        """Whether the target would be too full for a strategy."""
        problem, node = self._problem, np.array([step.target])
        if not self._is_any_avoided:
            return False
        then = problem.load.allocatable[:, node] - self._free[:, node] + demand[:, None]
        is_requested = bool(problem.nodes_to_empty[step.source])
        avoided = problem.objective.avoids(node, then, is_requested=is_requested)
        return avoided is not None and bool(avoided[0])

    def take_back(self, step: SearchStep) -> None:
        """Undo the last step."""
        self._done.pop()
        self._place(SearchStep(step.pod, step.target, step.source), -1)

    def _place(self, step: SearchStep, count: int) -> None:
        template = int(self._template_of[step.pod])
        self._checker.place(*step)
        self._free[:, step.source] += self._demand[:, template]
        self._free[:, step.target] -= self._demand[:, template]
        self._full_for.pop(step.source, None)
        self._allowances.count_move(template, count)
        self._allowances.count_on_node(step.source, count)
        self._allowances.count_on_node(step.target, count)

    def _size_of(self, pod: int) -> float:
        return float(self._size[self._template_of[pod]])

    # ------------------------------------------------------------ parking

    def _park_one(self, waiting: "_WaitingSteps") -> bool:
        """Whether a pod was moved out of the way of another.

        It leaves the target that lacks least for the pod that waits for it.
        """
        if not len(waiting) or self._out_of_time():
            return False
        if len(self._done) + len(waiting) >= self._problem.max_moves:
            return False
        leaving: defaultdict[int, list[SearchStep]] = defaultdict(list)
        for step in sorted(waiting, key=lambda step: self._size_of(step.pod)):
            leaving[step.source].append(step)
        lacking = sorted(waiting, key=self._lacking)
        for target in dict.fromkeys(step.target for step in lacking[:_AWAITED_TRIED]):
            for step in leaving[target][:_PODS_TRIED]:
                if self._park(step, waiting):
                    return True
        # It may be no room that is lacking, but that a pod is in its own way: spread over zones,
        # two of it in one zone may be one too many even for a moment.
        return len(waiting) <= _FEW and any(self._park(step, waiting) for step in list(waiting))

    def _take_elsewhere(self, waiting: "_WaitingSteps") -> None:
        """Move pods whose targets stay full to other nodes in use: a node may depend on the last
        of its pods."""
        held = self._problem.movable_on.copy()
        np.subtract.at(held, [step.source for step in self._done], 1)
        np.add.at(held, [step.target for step in self._done], 1)
        held[[step.source for step in waiting]] = 0
        for step in sorted(waiting, key=lambda step: -self._size_of(step.pod)):
            if self._out_of_time():
                return
            if not waiting.may_park(step):
                continue
            fits = self._fitting(int(self._template_of[step.pod])) & (held > 0)
            for node in self._roomiest(fits)[::-1][:_ELSEWHERE_TRIED].tolist():
                if self.take(SearchStep(step.pod, step.source, node)):
                    break

    def _lacking(self, step: SearchStep) -> float:
        """How much room the target of a step lacks, as a part of what it has."""
        demand = self._demand[:, int(self._template_of[step.pod])]
        missing = np.maximum(demand - self._free[:, step.target], 0.0)
        return float((missing / self._problem.load.capacity[:, step.target]).max())

    def _park(self, step: SearchStep, waiting: "_WaitingSteps") -> bool:
        if not waiting.may_park(step):
            return False
        for node in self._parkings(step, waiting):
            if self.take(SearchStep(step.pod, step.source, node)):
                waiting.park(step, node)
                return True
        return False

    def _parkings(self, step: SearchStep, waiting: "_WaitingSteps") -> Iterator[int]:
        """Nodes with room for the pod that nobody waits for, the roomiest first."""
        fits = self._fitting(int(self._template_of[step.pod]))
        fits[[step.source, *waiting.awaited()]] = False
        yield from self._roomiest(fits)[:_PARKINGS_TRIED].tolist()

    def _fitting(self, template: int) -> Bools:
        """Nodes that have room for a pod and do not refuse it for what they are."""
        fits = (self._demand[:, template, None] <= np.maximum(self._free, 0.0)).all(axis=0)
        return np.asarray(fits & ~self._closed_to(template))

    def _closed_to(self, template: int) -> Bools:
        """Nodes that pods do not come to without urgent cause, and so are not parked on."""
        return np.asarray(self._problem.pods.refused_masks(np.array([template]))[0])

    def _roomiest(self, which: Bools) -> "np.typing.NDArray[np.int64]":
        """These nodes, those with most room first."""
        nodes = np.flatnonzero(which)
        room = (self._free[:2, nodes] / self._problem.load.capacity[:2, nodes]).min(axis=0)
        return nodes[np.argsort(-room, kind="stable")]


class _WaitingSteps:
    """Steps that are not possible yet, and the targets that are open to pods of each kind."""

    def __init__(self, steps: Sequence[SearchStep], kinds: Ints) -> None:
        self._steps = {step.pod: step for step in steps}
        self._kind_of = dict(zip((step.pod for step in steps), kinds.tolist(), strict=True))
        self._targets: defaultdict[int, Counter[int]] = defaultdict(Counter)
        for step in steps:
            self._targets[self._kind_of[step.pod]][step.target] += 1
        self._parked: set[int] = set()

    def __iter__(self) -> Iterator[SearchStep]:
        return iter(self._steps.values())

    def __len__(self) -> int:
        return len(self._steps)

    def __contains__(self, step: SearchStep) -> bool:
        return step.pod in self._steps

    def awaited(self) -> Counter[int]:
        """How many pods wait for each node."""
        return Counter(step.target for step in self)

    def targets_for(self, step: SearchStep) -> Iterator[int]:
        """Its own target if nobody took it, and those of others of its kind."""
        open_targets = self._targets[self._kind_of[step.pod]]
        if step.target in open_targets:
            yield step.target
        yield from (node for node in open_targets if node != step.target)

    def remove(self, step: SearchStep, target: int) -> None:
        """The pod has gone to this target. Whoever wanted to go there may go to its own."""
        del self._steps[step.pod]
        open_targets = self._targets[self._kind_of[step.pod]]
        open_targets[target] -= 1
        if not open_targets[target]:
            del open_targets[target]

    def may_park(self, step: SearchStep) -> bool:
        """Whether the pod was not parked before."""
        return step.pod not in self._parked

    def park(self, step: SearchStep, node: int) -> None:
        """The pod now waits on another node."""
        self._parked.add(step.pod)
        self._steps[step.pod] = SearchStep(step.pod, node, step.target)


def waves(problem: Problem, steps: Iterable[SearchStep]) -> list[int]:
    """For each step the number of its wave: steps of one wave may run at the same time.

    A step opens a new wave if it needs room that an earlier one of its wave leaves behind, if the
    two affect the same other pods, or if its pod has been parked in this wave.
    """
    checker, demand = problem.checker, problem.load.demand
    free = problem.load.allocatable - problem.load.used
    # What is free while every old pod of the wave is still there.
    surging = free.copy()
    left_in_wave: set[int] = set()
    affected_in_wave: set[int] = set()
    moved_in_wave: set[int] = set()
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
            or pod in moved_in_wave
        ):
            wave += 1
            surging = free.copy()
            left_in_wave, affected_in_wave, moved_in_wave = set(), set(), set()
        surging[:, target] -= needed
        free[:, target] -= needed
        free[:, source] += needed
        left_in_wave.add(source)
        moved_in_wave.add(pod)
        affected_in_wave |= affected
        numbers.append(wave)
    return numbers
