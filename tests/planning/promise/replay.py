"""Play a plan move by move on the reference rules, and see that it keeps every promise.

Every check yields what it found wrong, in a sentence; a good plan gives none.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations, groupby

from rescheduler.files.policy_file import read_policy
from rescheduler.model.moves import Mode
from rescheduler.planning.context import MoveInFlight, PlanningContext
from rescheduler.planning.feasibility.checker import FeasibilityChecker
from rescheduler.planning.plan import Move, Plan
from rescheduler.planning.planner import make_plan
from rescheduler.settings import Policy
from testcluster.client import JsonObject
from testcluster.snapshots import snapshot_of
from tests.planning.feasibility.draw import Draw
from tests.planning.promise.generated_cases import NOW, GeneratedCase
from tests.planning.promise.limit_checks import LimitChecks
from tests.planning.promise.reference_rules import Placed, ReferencePod, State

_COMBINATIONS_TRIED = 8
_SAME = 1e-9


def plan_of(case: GeneratedCase, backwards: bool = False) -> Plan:
    """The plan that is to be checked; the objects come in one order or the other."""
    objects = case.objects[::-1] if backwards else case.objects
    context = PlanningContext(
        now=NOW, in_flight=tuple(MoveInFlight(pod, target) for pod, target in case.in_flight)
    )
    return make_plan(snapshot_of(objects), policy_of(case), context)


def policy_of(case: GeneratedCase) -> Policy:
    """The case's policy as it would be read from a file."""
    return read_policy("policy", json.dumps(case.arguments).encode())


@dataclass(frozen=True)
class Replay:
    """A plan and the cluster it is for."""

    case: GeneratedCase
    plan: Plan

    def broken_promises(self) -> Iterator[str]:
        """Everything that is wrong with the plan."""
        yield from self._moves_that_make_no_sense()
        yield from LimitChecks(self.case, self.plan.moves).exceeded()
        yield from self._refused_moves()
        yield from self._newly_broken_rules()
        yield from self._moves_that_do_not_go_together()
        yield from self._moves_that_clash_with_those_in_flight()
        yield from self._words_that_are_not_true()

    # ------------------------------------------------------------ states

    @cached_property
    def start(self) -> list[Placed]:
        """The pods as they are, those that are being migrated at both of their places."""
        copies = [Placed(self.pods[pod], target) for pod, target in self.case.in_flight]
        return [*self.case.placed, *copies]

    @cached_property
    def pods(self) -> dict[str, ReferencePod]:
        """Pods that are on nodes, by `namespace/name`."""
        return {each.pod.key: each.pod for each in self.case.placed}

    @cached_property
    def states(self) -> list[list[Placed]]:
        """The cluster before each move, and after the last."""
        states = [self.start]
        for move in self.plan.moves:
            states.append(self._after(states[-1], move))
        return states

    def _after(self, state: State, move: Move) -> list[Placed]:
        return [*self._without(state, move), Placed(self.pods[move.pod], move.target)]

    def _during(self, state: State, move: Move) -> list[Placed]:
        """With both pods there or, if the old one has to go first, with neither."""
        if move.mode == Mode.EVICT:
            return self._without(state, move)
        return [*state, Placed(self.pods[move.pod], move.target)]

    def _without(self, state: State, move: Move) -> list[Placed]:
        old = Placed(self.pods[move.pod], move.source)
        return [each for each in state if each != old]

    # ------------------------------------------------------------ each move by itself

    def _moves_that_make_no_sense(self) -> Iterator[str]:
        where = {each.pod.key: each.node for each in self.case.placed}
        wave_of: dict[str, int] = {}
        for move in self.plan.moves:
            # A pod that was parked moves on in a later wave: under another name, by then.
            if wave_of.get(move.pod, -1) >= move.wave:
                yield f"{move.pod} moves twice in a wave"
            wave_of[move.pod] = move.wave
            if where.get(move.pod) != move.source:
                yield f"{move.pod} is on {where.get(move.pod)}, not on {move.source}"
            if move.source == move.target:
                yield f"{move.pod} moves to where it is"
            if not move.reason:
                yield f"{move.pod} moves without a reason"
            where[move.pod] = move.target

    # ------------------------------------------------------------ each move at its turn

    def _refused_moves(self) -> Iterator[str]:
        for state, move in zip(self.states, self.plan.moves, strict=False):
            for name, ours, checked in self._answers(state, move):
                if move.target not in checked:
                    yield f"{_move_text(move)} is refused {name}"
                if ours != checked:
                    yield (
                        f"reference rules and checker disagree on {_move_text(move)} {name}: "
                        + (f"{sorted(ours)} and {sorted(checked)}")
                    )

    def _answers(self, state: State, move: Move) -> Iterator[tuple[str, set[str], set[str]]]:
        """When the pod is checked, and which nodes accept it by both."""
        pod, rules = self.pods[move.pod], self.case.rules
        gone = self._without(state, move)
        if move.mode != Mode.EVICT:
            yield (
                "with the old pod",
                rules.accepting(state, pod),
                self._accepted_by_checker(state, pod),
            )
        yield (
            "when the old pod is gone",
            rules.accepting(gone, pod),
            self._accepted_by_checker(gone, pod),
        )

    def _accepted_by_checker(self, state: State, pod: ReferencePod) -> set[str]:
        """What a checker says that has never seen a move, of pods that really are there."""
        newcomer = _as_object(pod, "-new", on=None)
        snapshot = snapshot_of([*self.case.node_objects, *_as_objects(state), newcomer])
        row = snapshot.pods.keys.index(f"{pod.key}-new")
        accepted = FeasibilityChecker(snapshot).accepted(int(snapshot.pods.template[row])).tolist()
        return {name for name, fits in zip(snapshot.nodes.names, accepted, strict=True) if fits}

    def _newly_broken_rules(self) -> Iterator[str]:
        rules = self.case.rules
        broken = [rules.broken(state) for state in self.states]
        for number, move in enumerate(self.plan.moves):
            for what, count in (broken[number + 1] - broken[number]).items():
                yield f"{_move_text(move)} causes {count} more {what}"

    # ------------------------------------------------------------ moves at the same time

    def _moves_that_do_not_go_together(self) -> Iterator[str]:
        waves = [move.wave for move in self.plan.moves]
        if waves != sorted(waves):
            yield f"waves are out of order: {waves}"
            return
        first = 0
        for _, found in groupby(self.plan.moves, key=lambda move: move.wave):
            wave = list(found)
            if len(wave) > 1:
                yield from self._clashes(self.states[first], wave)
            first += len(wave)

    def _clashes(self, state: State, wave: Sequence[Move]) -> Iterator[str]:
        """Whatever the others of its wave are doing, a move must be possible."""
        before = self.case.rules.broken(state)
        draw = Draw(f"{self.case.policy}/{wave[0].pod}")
        for move in wave:
            others = [other for other in wave if other is not move]
            for progress in _progresses(draw, len(others)):
                meanwhile = self._in_the_middle(state, others, progress)
                for when in self._when_refused(meanwhile, move):
                    meanwhile_text = _moves_text(others, progress)
                    yield f"{_move_text(move)} is refused {when}, with {meanwhile_text}"
        for progress in _progresses(draw, len(wave)):
            if 1 not in progress:
                then = self.case.rules.broken(self._in_the_middle(state, wave, progress))
                for what, count in (then - before).items():
                    yield f"{_moves_text(wave, progress)} causes {count} more {what}"

    def _moves_that_clash_with_those_in_flight(self) -> Iterator[str]:
        """Earlier moves may end at any moment, and the first wave must still be possible."""
        first_wave = [move for move in self.plan.moves if move.wave == self.plan.moves[0].wave]
        for over in _some_of(self.case.in_flight):
            keys = {key for key, _ in over}
            old = [each for each in self.case.placed if each.pod.key in keys]
            ended = [each for each in self.start if each not in old]
            where = ", ".join(f"{key} on {target}" for key, target in over)
            for move in first_wave:
                for when in self._when_refused(ended, move):
                    yield f"{_move_text(move)} is refused {when}, with {where}"
                then = self.case.rules.broken(self._after(ended, move))
                for what, count in (then - self.case.rules.broken(ended)).items():
                    yield f"{_move_text(move)}, with {where}, causes {count} more {what}"

    def _in_the_middle(
        self, state: State, moves: Sequence[Move], progress: Sequence[int]
    ) -> list[Placed]:
        now = list(state)
        for move, how in zip(moves, progress, strict=True):
            if how:
                now = self._during(now, move) if how == 1 else self._after(now, move)
        return now

    def _when_refused(self, state: State, move: Move) -> Iterator[str]:
        pod, rules = self.pods[move.pod], self.case.rules
        if move.mode != Mode.EVICT and not rules.accepts(state, pod, move.target):
            yield "with the old pod"
        if not rules.accepts(self._without(state, move), pod, move.target):
            yield "when the old pod is gone"

    # ------------------------------------------------------------ what the plan says

    def _words_that_are_not_true(self) -> Iterator[str]:
        plan = self.plan
        if plan.after.objective > plan.before.objective + _SAME:
            yield f"the objective rises from {plan.before.objective} to {plan.after.objective}"
        if not plan.summary:
            yield "no summary"
        moved = {move.pod for move in plan.moves}
        for blocked in plan.blocked:
            if blocked.pod in moved:
                yield f"{blocked.pod} moves although {blocked.detail}"
            if not blocked.detail:
                yield f"{blocked.pod} is blocked without a detail"
        yield from self._wrong_utilization(plan.before.per_node, self.states[0])
        yield from self._wrong_utilization(plan.after.per_node, self.states[-1])

    def _wrong_utilization(self, where: dict[str, dict[str, float]], state: State) -> Iterator[str]:
        for name in self.case.rules.nodes:
            has = self.case.rules.free((), name)
            left = self.case.rules.free(state, name)
            for what in ("cpu", "memory"):
                used = 1 - left[what] / has[what]
                if abs(where[name][what] - used) > 1e-6:
                    yield f"{name} uses {used:.3f} of its {what}, not {where[name][what]:.3f}"


_PROGRESS = ("not begun", "under way", "done")


def _progresses(draw: Draw, count: int) -> Iterator[tuple[int, ...]]:
    """How far other moves may have got: all alike, one ahead of the others, and some of it all."""
    for how in range(3):
        yield (how,) * count
    for ahead in range(count):
        for how in (1, 2):
            yield tuple(how if number == ahead else 0 for number in range(count))
    if count > 1:
        for _ in range(_COMBINATIONS_TRIED):
            yield tuple(draw.randrange(3) for _ in range(count))


def _some_of(moves: Sequence[tuple[str, str]]) -> Iterator[tuple[tuple[str, str], ...]]:
    """Every selection of the moves that is not empty."""
    return chain.from_iterable(combinations(moves, size) for size in range(1, len(moves) + 1))


def _move_text(move: Move) -> str:
    return f"{move.mode} of {move.pod} from {move.source} to {move.target}"


def _moves_text(moves: Sequence[Move], progress: Sequence[int]) -> str:
    pairs = zip(moves, progress, strict=True)
    return ", ".join(f"{_move_text(move)} {_PROGRESS[how]}" for move, how in pairs)


def _as_objects(state: State) -> list[JsonObject]:
    """Pods where they are; a second one of the same name gets another."""
    seen: Counter[str] = Counter()
    objects = []
    for placed in state:
        suffix = f"-again-{seen[placed.pod.key]}" if seen[placed.pod.key] else ""
        objects.append(_as_object(placed.pod, suffix, placed.node))
        seen[placed.pod.key] += 1
    return objects


def _as_object(pod: ReferencePod, suffix: str, on: str | None) -> JsonObject:
    metadata = {**pod.item["metadata"], "name": pod.item["metadata"]["name"] + suffix}
    return {**pod.item, "metadata": metadata, "spec": {**pod.item["spec"], "nodeName": on or ""}}
