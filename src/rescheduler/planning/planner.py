"""Choose which pods to move, and in what order.

All the planner may know is in the snapshot and the policy it is given; all it found out,
including why it left a pod alone, is in the plan it returns.

Every plan keeps one promise: stop after any of its moves, and no constraint of a moved pod is
broken. Each move is judged with all earlier moves made: its target must accept the pod once the
old one is gone and, for a handoff, also while it is still there.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rescheduler.model.objects import OwnerReference
from rescheduler.model.snapshot import Bools, Floats, Snapshot
from rescheduler.planning.assessment import assess
from rescheduler.planning.feasibility.judge import Judge
from rescheduler.planning.load import NodeLoad, load_of
from rescheduler.planning.movability import Blocker, Movability
from rescheduler.planning.objective import Objective
from rescheduler.planning.plan import Blocked, Mode, Move, Plan
from rescheduler.settings import Policy

# Pods are looked for on the nodes that cost most; those further down have less to gain.
_NODES_LOOKED_AT = 8
# Pods on so many pressed nodes get a blocker; a plan that lists more is not read by anyone.
_NODES_TOLD_OF = 100
_LEAST_GAIN = 1e-9
# A few hundred templates on 5,000 nodes take 20 MB.
_ARRIVALS_REMEMBERED = 400
# Pods of which nobody expects that they move.
_AT_HOME = ("DaemonSetPod", "StaticPod")
# Gains this close to the best count as equal, and then the pod of lower priority goes.
_ABOUT_AS_GOOD = 0.95


def make_plan(snapshot: Snapshot, policy: Policy) -> Plan:
    """The moves that lower the objective most, one after another, up to the policy's limit."""
    return _Planner(snapshot, policy).plan()


@dataclass(frozen=True)
class _Candidate:
    """A pod that could go, standing for all pods of its template on its node."""

    pod: int
    template: int
    source: int


@dataclass(frozen=True)
class _Arrival:
    """What happens to each node if a pod of some template comes to it."""

    cost: Floats
    """By how much its cost rises."""
    avoided: Bools
    """Whether some strategy does not want it there."""


@dataclass(frozen=True)
class _Best:
    candidate: _Candidate
    target: int
    gain: float


class _Planner:
    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self._snapshot = snapshot
        self._limit = policy.max_reschedule_pods
        self._judge = Judge(snapshot)
        self._movability = Movability(snapshot, policy)
        self._load = NodeLoad(snapshot)
        self._objective = Objective(self._load, policy)
        self._utilization: Floats = self._load.utilization.copy()
        self._costs = self._objective.costs(self._utilization)
        self._arrivals: dict[int, _Arrival] = {}
        self._moves: list[Move] = []
        self._moved: set[int] = set()
        self._evicted_under: Counter[str] = Counter()
        self._evicted_of: set[tuple[str, OwnerReference]] = set()

    def plan(self) -> Plan:
        before = assess(self._load, self._utilization, self._objective)
        while len(self._moves) < self._limit and (best := self._best_move()) is not None:
            self._make(best)
        blocked = tuple(self._blocked())
        return Plan(
            moves=tuple(self._moves),
            blocked=blocked,
            before=before,
            after=assess(self._load, self._utilization, self._objective),
            summary=self._summary(blocked),
        )

    # ------------------------------------------------------------ finding the best move

    def _best_move(self) -> _Best | None:
        """The move that gains most; among those about as good, the one of lowest priority."""
        found = list(self._gainful_moves())
        if not found:
            return None
        enough = _ABOUT_AS_GOOD * max(each.gain for each in found)
        return min(
            (each for each in found if each.gain >= enough),
            key=lambda each: (self._priority(each.candidate), -each.gain),
        )

    def _gainful_moves(self) -> Iterator[_Best]:
        """For each candidate the target that gains most, if it gains anything."""
        for candidate in self._candidates():
            arrival = self._arrival_of(candidate.template)
            cost = np.where(self._targets(candidate), arrival.cost, np.inf)
            target = int(cost.argmin())
            gain = self._gain_of_departure(candidate) - float(cost[target])
            if gain > _LEAST_GAIN:
                yield _Best(candidate, target, gain)

    def _priority(self, candidate: _Candidate) -> int:
        return self._snapshot.templates[candidate.template].priority

    def _candidates(self) -> list[_Candidate]:
        """One movable pod per template and node, from the nodes that cost most and have any."""
        candidates: list[_Candidate] = []
        nodes_with_any = 0
        for node in self._pressed_nodes():
            movable: dict[int, _Candidate] = {}
            for pod in self._pods_on(node):
                template = int(self._snapshot.pods.template[pod])
                if template not in movable and self._blocker(pod) is None:
                    movable[template] = _Candidate(pod, template, node)
            candidates += movable.values()
            nodes_with_any += bool(movable)
            if nodes_with_any == _NODES_LOOKED_AT:
                break
        return candidates

    def _pressed_nodes(self) -> list[int]:
        """Nodes that pods should leave, the costliest first."""
        pressed = np.flatnonzero(self._objective.pressed(self._utilization))
        costliest = pressed[np.argsort(-self._costs[pressed], kind="stable")]
        return [int(node) for node in costliest]

    def _pods_on(self, node: int) -> list[int]:
        """Pods on the node that have not been moved yet: nothing is moved twice."""
        on_node = self._snapshot.pods.placed & (self._snapshot.pods.node == node)
        return [int(pod) for pod in np.flatnonzero(on_node) if int(pod) not in self._moved]

    def _targets(self, candidate: _Candidate) -> Bools:
        targets = self._accepting(candidate) & self._load.takes_pods
        if not self._load.under_maintenance[candidate.source]:
            targets &= ~self._arrival_of(candidate.template).avoided
        targets[candidate.source] = False
        return np.asarray(targets)

    def _accepting(self, candidate: _Candidate) -> Bools:
        """Nodes that accept the pod, at every moment of its move."""
        template = self._snapshot.templates[candidate.template]
        by_handoff = self._movability.mode(candidate.template) == Mode.HANDOFF
        if by_handoff and not template.spread and template.affinity is None:
            # Its going takes nothing away that its replacement asks for.
            return self._judge.accepted(candidate.template)
        accepting = self._judge.refusals_without(candidate.pod) == 0
        if by_handoff:
            accepting &= self._judge.accepted(candidate.template)
        return np.asarray(accepting)

    def _arrival_of(self, template: int) -> _Arrival:
        arrival = self._arrivals.get(template)
        if arrival is None:
            then = self._utilization + self._load.demand[template] / self._load.capacity
            rise = self._objective.costs(then) - self._costs
            arrival = _Arrival(rise, self._objective.avoids(then))
            if len(self._arrivals) == _ARRIVALS_REMEMBERED:
                self._arrivals.clear()
            self._arrivals[template] = arrival
        return arrival

    def _gain_of_departure(self, candidate: _Candidate) -> float:
        """By how much the node's cost falls if the pod goes."""
        share = self._load.demand[candidate.template] / self._load.capacity[candidate.source]
        left = self._utilization[candidate.source] - share
        now = float(self._costs[candidate.source])
        return now - self._objective.cost(left, candidate.source)

    # ------------------------------------------------------------ making it

    def _make(self, best: _Best) -> None:
        candidate, target = best.candidate, best.target
        source, template = candidate.source, candidate.template
        names = self._snapshot.nodes.names
        strategy = self._objective.strategy_behind(source, self._utilization)
        why = strategy.reason(source, self._utilization)
        self._judge.move(candidate.pod, target)
        self._moved.add(candidate.pod)
        demand = self._load.demand[template]
        before = float(load_of(self._utilization[target]))
        self._utilization[source] -= demand / self._load.capacity[source]
        self._utilization[target] += demand / self._load.capacity[target]
        self._costs = self._objective.costs(self._utilization)
        self._arrivals.clear()
        after = float(load_of(self._utilization[target]))
        mode = self._movability.mode(template)
        if mode == Mode.EVICT:
            self._note_eviction(template)
        self._moves.append(
            Move(
                pod=self._snapshot.pods.keys[candidate.pod],
                source=names[source],
                target=names[target],
                strategy=strategy.name,
                mode=mode,
                reason=f"{names[source]} has {why}; "
                f"the load of {names[target]} goes from {before:.1%} to {after:.1%}",
                gain=best.gain,
            )
        )

    def _note_eviction(self, template: int) -> None:
        budgets = self._movability.budgets(template)
        self._evicted_under.update(budget.metadata.key for budget in budgets)
        evicted = self._snapshot.templates[template]
        if evicted.owner is not None:
            self._evicted_of.add((evicted.namespace, evicted.owner))

    # ------------------------------------------------------------ why the rest stayed

    def _blocker(self, pod: int) -> Blocker | None:
        blocker = self._movability.blocker(pod)
        template = int(self._snapshot.pods.template[pod])
        if blocker is None and self._movability.mode(template) == Mode.EVICT:
            return self._blocked_by_earlier_evictions(template)
        return blocker

    def _blocked_by_earlier_evictions(self, template: int) -> Blocker | None:
        """A plan evicts one pod of a workload at a time, and no more than its budget allows."""
        for budget in self._movability.budgets(template):
            if self._evicted_under[budget.metadata.key] >= budget.status.disruptions_allowed:
                name = budget.metadata.name
                return Blocker("Budget", f"disruption budget {name} is used up by this plan")
        pod = self._snapshot.templates[template]
        if pod.owner is not None and (pod.namespace, pod.owner) in self._evicted_of:
            return Blocker("OneAtATime", f"another pod of {pod.owner.name} is evicted in this plan")
        return None

    def _blocked(self) -> list[Blocked]:
        """A blocker for every pod that stayed on a node it should leave."""
        return [
            Blocked(self._snapshot.pods.keys[pod], blocker.name, blocker.detail)
            for node in self._pressed_nodes()[:_NODES_TOLD_OF]
            for pod in self._pods_on(node)
            if (blocker := self._blocker(pod) or self._why_no_target(pod, node)).name
            not in _AT_HOME
        ]

    def _why_no_target(self, pod: int, node: int) -> Blocker:
        template = int(self._snapshot.pods.template[pod])
        candidate = _Candidate(pod, template, node)
        targets = self._targets(candidate)
        if not targets.any():
            return self._why_refused(candidate)
        least_cost = float(self._arrival_of(template).cost[targets].min())
        if self._gain_of_departure(candidate) - least_cost <= _LEAST_GAIN:
            return Blocker("NoGain", "no node that would take it would be better off for it")
        return Blocker("MoveLimit", f"the plan has as many moves as allowed, {self._limit}")

    def _why_refused(self, candidate: _Candidate) -> Blocker:
        """What keeps the pod from other nodes, while it runs or once it is gone."""
        blocker = None
        if self._movability.mode(candidate.template) == Mode.HANDOFF:
            blocker = self._main_refusal(candidate)
        if blocker is None:
            with self._judge.without(candidate.pod):
                blocker = self._main_refusal(candidate)
        return blocker or Blocker("NoNodeFits", "it would be too much for every other node")

    def _main_refusal(self, candidate: _Candidate) -> Blocker | None:
        """The rule that refuses most nodes, told with one of them."""
        refusals = self._judge.refusals(candidate.template)
        refusals[~self._load.takes_pods] = 0
        refusals[candidate.source] = 0
        refusing = refusals[refusals > 0]
        if not len(refusing):
            return None
        number = int(np.bincount(refusing).argmax())
        rule = self._judge.rules[number - 1]
        refused = np.flatnonzero(refusals == number)
        example = int(refused[0])
        return Blocker(
            "NoNodeFits",
            f"{rule.name} refuses {len(refused)} of {len(refusing)} nodes, "
            f"{self._snapshot.nodes.names[example]} because "
            f"{rule.reason(candidate.template, example)}",
        )

    def _summary(self, blocked: tuple[Blocked, ...]) -> str:
        if self._moves:
            return f"{len(self._moves)} of at most {self._limit} moves."
        if not len(self._snapshot.nodes):
            return "Nothing to move: the cluster has no nodes."
        if not self._objective.pressed(self._utilization).any():
            return f"Nothing to move: {self._objective.why_at_rest(self._utilization)}."
        if self._limit == 0:
            return "Nothing to move: maxReschedulePods is 0."
        if not blocked:
            return "Nothing to move: only pods that belong to their nodes are left there."
        counts = Counter(each.blocker for each in blocked).most_common(3)
        listed = ", ".join(f"{name} ({count})" for name, count in counts)
        return f"Nothing to move: every pod that should leave its node is blocked: {listed}."
