"""What is claimed of a cluster that is planned for round after round.

Every claim yields what it found wrong, in a sentence; if all is well there is none.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import ceil
from typing import NamedTuple

from rescheduler.files.policy_file import read_policy
from rescheduler.planning.plan import Move
from tests.planning.promise.generated_cases import MAINTENANCE
from tests.planning.promise.reference_rules import ReferencePod, amount
from tests.planning.rest.random_clusters import RandomCluster
from tests.planning.rest.rounds import Round, key_of, rounds

FEW_ROUNDS = 4
"""Enough where one round may move every pod, the empty round included."""
ROUNDS_BESIDE_LIMITS, ROUNDS_PER_TURN = 6, 3
_SAME = 1e-9
_MAY_RETURN = ("NodeMaintenance", "ConstraintRepair", "ResourceOptimization")
"""Strategies that may have to bring a pod back: what is required changes with what others do."""


@dataclass(frozen=True)
class Played:
    """A cluster and its rounds."""

    cluster: RandomCluster

    @cached_property
    def rounds(self) -> list[Round]:
        """Up to the first empty plan, or until it is clear that none is to come."""
        policy = read_policy("policy", json.dumps(self.cluster.arguments).encode())
        seen: set[tuple[tuple[str, str], ...]] = set()
        played = []
        for each in rounds(
            self.cluster.objects, policy, self.most_rounds, only_first_wave=self.by_waves
        ):
            played.append(each)
            placement = _placement(each)
            if placement in seen:
                break
            seen.add(placement)
        return played

    @property
    def most_rounds(self) -> int:
        """How many rounds may pass, the empty one included: more if few pods move in each."""
        if self._turns <= 1 and not self.by_waves:
            return FEW_ROUNDS
        return ROUNDS_BESIDE_LIMITS + ROUNDS_PER_TURN * self._turns

    @property
    def by_waves(self) -> bool:
        """Whether only the first wave of each plan is carried out, as the controller does it.

        What a plan promises is then not there when the next round looks.
        """
        return self.cluster.seed % 2 == 1

    @property
    def _turns(self) -> int:
        """In how many rounds every pod could be moved once, by the policy's limits."""
        evicted = max(Counter(self.cluster.evicted).values(), default=1)
        return max(ceil(len(self.cluster.pods) / self._limit), evicted)

    @property
    def _limit(self) -> int:
        """How many pods a round may move, if they are those that the limits are worst for."""
        arguments = self.cluster.arguments
        has_others = any(key.startswith("maxMovesPer") for key in arguments)
        return 1 if has_others else int(arguments["maxReschedulePods"])

    # ------------------------------------------------------------ claims

    def does_not_come_to_rest(self) -> Iterator[str]:
        """Within a few rounds, the plan is empty."""
        if self.rounds and self.rounds[-1].plan.moves:
            moves = [len(each.plan.moves) for each in self.rounds]
            yield f"not at rest after {len(moves)} rounds of at most {self.most_rounds}: {moves}"

    def returns(self) -> Iterator[str]:
        """No pod comes back to a node that it left, unless something required calls for it."""
        left: dict[tuple[str, str], int] = {}
        for number, each in enumerate(self.rounds):
            for move in each.plan.moves:
                earlier = left.get((move.pod, move.target))
                if earlier is not None and move.strategy not in _MAY_RETURN:
                    yield f"round {number}: {_text(move)}, which it left in round {earlier}"
            for move in each.plan.moves:
                left[move.pod, move.source] = number

    def rises_within_a_plan(self) -> Iterator[str]:
        """A plan never makes the objective worse."""
        for number, each in enumerate(self.rounds):
            before, after = each.plan.before.objective, each.plan.after.objective
            if after > before + _SAME * max(1.0, abs(before)):
                yield f"round {number}: from {before:.9g} to {after:.9g}"

    def rises_between_rounds(self) -> Iterator[str]:
        """What a plan promises is there when the next round looks."""
        if self.by_waves:
            return
        for number, (one, other) in enumerate(pairwise(self.rounds)):
            then, now = one.plan.after.objective, other.plan.before.objective
            if now > then + _SAME * max(1.0, abs(then)):
                yield f"round {number} ends with {then:.9g}, the next begins with {now:.9g}"

    def gains_do_not_add_up(self) -> Iterator[str]:
        """The gains of a plan's moves are what the objective falls by."""
        if self.by_waves:
            return
        for number, each in enumerate(self.rounds):
            fall = each.plan.before.objective - each.plan.after.objective
            gains = sum(move.gain for move in each.plan.moves)
            if abs(fall - gains) > _SAME * max(1.0, abs(each.plan.before.objective)):
                yield f"round {number}: gains of {gains:.9g}, a fall of {fall:.9g}"

    def pushes_above_a_threshold(self) -> Iterator[str]:
        """No arrival brings a node above a threshold, and no plan a node further above it.

        Whoever comes from a node under maintenance may: a person wants that node empty.
        """
        if "ResourceOptimization" not in self.cluster.arguments["enabledStrategies"]:
            return
        for number, each in enumerate(self.rounds):
            forced = {move.target for move in each.plan.moves if self._is_drained(move.source)}
            yield from (f"round {number}: {wrong}" for wrong in self._crossed(each, forced))
            # A plan says what is after all of its waves.
            after_plan = {} if self.by_waves else each.plan.after.per_node
            for name, loads in after_plan.items():
                for resource, threshold in self._thresholds.items():
                    before, after = each.plan.before.per_node[name][resource], loads[resource]
                    if after > max(before, threshold) + _SAME and name not in forced:
                        yield f"round {number}: {name} goes to {after:.1%} of its {resource}"

    def _crossed(self, each: Round, forced: set[str]) -> Iterator[str]:
        for arrival in _arrivals(each):
            threshold = self._thresholds[arrival.resource]
            crosses = arrival.before <= threshold + _SAME < arrival.after - _SAME
            if crosses and arrival.move.target not in forced:
                yield f"{_text(arrival.move)}: {arrival.after:.1%} of its {arrival.resource}"

    @property
    def _thresholds(self) -> dict[str, float]:
        arguments = self.cluster.arguments
        return {name: arguments[f"{name}Threshold"] / 100 for name in ("cpu", "memory")}

    def _is_drained(self, name: str) -> bool:
        if "NodeMaintenance" not in self.cluster.arguments["enabledStrategies"]:
            return False
        return any(
            each["metadata"]["name"] == name and MAINTENANCE in each["metadata"]["labels"]
            for each in self.cluster.nodes
        )


CLAIMS: dict[str, Callable[[Played], Iterator[str]]] = {
    "comes to rest": Played.does_not_come_to_rest,
    "no pod returns": Played.returns,
    "no plan raises the objective": Played.rises_within_a_plan,
    "the objective does not rise between rounds": Played.rises_between_rounds,
    "gains add up": Played.gains_do_not_add_up,
    "no node is pushed above a threshold": Played.pushes_above_a_threshold,
}


def _placement(each: Round) -> tuple[tuple[str, str], ...]:
    pods = [item for item in each.objects if item["kind"] == "Pod"]
    return tuple((key_of(pod), pod["spec"]["nodeName"]) for pod in pods)


class _Arrival(NamedTuple):
    move: Move
    resource: str
    before: float
    """How full the target is, of this resource."""
    after: float


def _arrivals(each: Round) -> Iterator[_Arrival]:
    """Every move, and every resource that its pod asks for."""
    nodes = {item["metadata"]["name"]: item for item in each.objects if item["kind"] == "Node"}
    pods = {key_of(item): ReferencePod(item) for item in each.objects if item["kind"] == "Pod"}
    load = {name: dict(loads) for name, loads in each.plan.before.per_node.items()}
    for move in each.plan.moves:
        for resource in ("cpu", "memory"):
            before = load[move.target][resource]
            for name, sign in ((move.source, -1), (move.target, 1)):
                has = amount(nodes[name]["status"]["allocatable"][resource])
                load[name][resource] += sign * pods[move.pod].requests[resource] / has
            yield _Arrival(move, resource, before, load[move.target][resource])


def _text(move: Move) -> str:
    return f"{move.strategy} brings {move.pod} from {move.source} to {move.target}"
