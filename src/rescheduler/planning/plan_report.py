"""Put a plan into words: what each move is for, and why other pods stayed."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from rescheduler.model.moves import Mode
from rescheduler.model.snapshot import Bools
from rescheduler.planning.movability.blocker import LEFT_ALONE, MOVE_LIMIT, OF_NODES, Blocker
from rescheduler.planning.plan import BlockedPod, Move
from rescheduler.planning.pods_to_relieve import PodsToRelieve
from rescheduler.planning.problem.allowances import Allowances
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.problem.remaining_violations import RemainingViolations
from rescheduler.planning.search.node_totals import NodeTotals
from rescheduler.planning.search.ordering import waves
from rescheduler.planning.search.steps import SearchStep
from rescheduler.planning.step_changes import StepChanges
from rescheduler.planning.strategies.strategy import Strategy
from rescheduler.planning.strategies.urgency import Urgency

NO_GAIN = "NoGain"
# Pods on so many nodes get a blocker; a plan that lists more is not read by anyone.
_MOST_NODES_REPORTED = 100
# Of the steps of a plan: so many nodes may have changed before nodes are looked at anew. In a plan
# of thousands of steps, it would take seconds to look at all nodes before each of them.
_CHANGES_PER_STEP = 1 / 500
# What is gained at least if a pod leaves that cannot be moved, or cannot go anywhere. Less is not
# worth a report: it is about a node, and replicas that are not quite even are no problem.
_WORTH_A_REPORT = 1.0


class PlanReport:
    """Replays the steps of a plan and describes them."""

    def __init__(self, problem: Problem, steps: Sequence[SearchStep]) -> None:
        self._problem = problem
        self._steps = steps
        self._moved = {step.pod for step in steps}
        objective = problem.objective
        self.totals = NodeTotals(problem.load, objective, problem.movable_on, objective.stated_cost)
        self._violations = RemainingViolations(problem)
        self.gained_by_pods = 0.0
        """What is gained by where pods are, apart from what nodes hold."""
        self.rule_costs: Counter[str] = Counter()
        """By strategy: what it costs that pods break rules, after the plan."""
        self.rule_costs.update(problem.rule_costs)
        # Only rules between pods want to know at each step where all pods are.
        self._are_placed = bool(problem.violation_terms)
        self._to_relieve: dict[Strategy, Bools] = {}
        self._reasons: dict[tuple[Strategy, int], str] = {}
        self._changed: set[int] = set()
        """Nodes that hold something else than when nodes were last looked at."""
        self.moves = tuple(self._moves())

    # ------------------------------------------------------------ what moves are for

    def _moves(self) -> list[Move]:
        numbers = waves(self._problem, self._steps)
        changes = StepChanges(self._problem, self._steps)
        awaited = Counter(step.target for step in self._steps)
        names, keys = self._problem.snapshot.nodes.names, self._problem.snapshot.pods.keys
        moves = []
        for number, step in enumerate(self._steps):
            awaited[step.target] -= 1
            template = int(self._problem.snapshot.pods.template[step.pod])
            strategy, why = self._purpose(step, template, makes_room=awaited[step.source] > 0)
            before, after = changes.loads_before[number], changes.loads_after[number]
            target = names[step.target]
            move = Move(
                pod=keys[step.pod],
                source=names[step.source],
                target=target,
                strategy=strategy,
                mode=self._problem.mode(template),
                reason=f"{why}; the load of {target} goes from {before:.1%} to {after:.1%}",
                gain=changes.gains[number] + self._replay(step, template),
                wave=numbers[number],
            )
            moves.append(move)
        return moves

    def _replay(self, step: SearchStep, template: int) -> float:
        """Carry out the step; returns what is gained by where pods are."""
        _, source, target = step
        gained = 0.0
        for term in self._problem.pod_terms:
            gained += term.gain_of_leaving(template, source)
            gained -= term.arrival_cost(template, source, target)
            term.moved(template, source, target)
        self.totals.add(template, source, -1)
        self.totals.add(template, target, 1)
        self._changed.update((source, target))
        if self._are_placed:
            gains = Counter(self._violations.gains_by_strategy(template, source))
            affected = self._affected_by(template)
            gains.update(self._costs_among(affected))
            self._violations.moved(template, source, target)
            self._problem.checker.place(*step)
            gains.subtract(self._costs_among(affected))
            self.rule_costs.subtract(gains)
            gained += sum(gains.values())
        self.gained_by_pods += gained
        return gained

    def _affected_by(self, template: int) -> set[int]:
        """Templates for whose rules it may matter, beyond a node, that a pod of this one moves."""
        checker = self._problem.checker
        itself = {template} if checker.depends_on_pods[template] else set()
        return itself | checker.affected_by(template)

    def _costs_among(self, templates: set[int]) -> dict[str, float]:
        """By strategy: what it costs now that pods of these templates break such rules."""
        costs: defaultdict[str, float] = defaultdict(float)
        for term in self._problem.violation_terms if templates else ():
            costs[term.strategy] += term.remaining_cost_among(self._problem.checker, templates)
        return dict(costs)

    def _purpose(self, step: SearchStep, template: int, makes_room: bool) -> tuple[str, str]:
        """The strategy that a move is for, and why.

        First what a person asked for, then what is broken or at risk, then what is wanted of this
        pod, then of its node.
        """
        strategies = self._problem.objective.strategies
        node = self._problem.snapshot.nodes.names[step.source]
        requested = [active for active in strategies if active.urgency == Urgency.REQUESTED]
        urgent = [active for active in strategies if active.urgency <= Urgency.AT_RISK]
        return (
            self._relieved_by(requested, step.source)
            or self._broken_by_pod(step, template)
            or self._relieved_by(urgent, step.source)
            or self._wanted_of_pod(step, template)
            or self._relieved_by(strategies, step.source)
            or (strategies[0].name, _side_effect(node, makes_room))
        )

    def _relieved_by(self, strategies: Sequence[Strategy], node: int) -> tuple[str, str] | None:
        """The first of these strategies that wants pods to leave the node, and why."""
        if len(self._changed) > _CHANGES_PER_STEP * len(self._steps):
            for known in (self._to_relieve, self._reasons, self._changed):
                known.clear()
        used, movable = self.totals.used, self.totals.movable
        for strategy in strategies:
            if strategy not in self._to_relieve:
                self._to_relieve[strategy] = strategy.nodes_to_relieve(used, movable)
            if self._to_relieve[strategy][node]:
                if (strategy, node) not in self._reasons:
                    self._reasons[strategy, node] = strategy.reason(node, used)
                name = self._problem.snapshot.nodes.names[node]
                return strategy.name, f"{name} has {self._reasons[strategy, node]}"
        return None

    def _broken_by_pod(self, step: SearchStep, template: int) -> tuple[str, str] | None:
        """The strategy whose rule the pod breaks where it is, and how."""
        broken = self._violations.broken_by(step.pod, template, step.source)
        if broken is None:
            return None
        return broken.strategy, broken.reason(self._problem.snapshot.nodes.names[step.source])

    def _wanted_of_pod(self, step: SearchStep, template: int) -> tuple[str, str] | None:
        """The strategy that wants this very pod to leave its node, and why."""
        for term in self._problem.pod_terms:
            if term.gain_of_leaving(template, step.source) > 0:
                return term.strategy, term.reason(template, step.source)
        return None

    # ------------------------------------------------------------ why the rest stayed

    def blocked(self, out_of_time: Callable[[], bool]) -> list[BlockedPod]:
        """A blocker for every pod that stayed on a node it should leave.

        When there is no time left, those of further nodes are left out. The problem's checker has
        pods where the plan leaves them.
        """
        if self._steps and out_of_time():
            return []
        if not self._are_placed:
            for step in self._steps:
                self._problem.checker.place(*step)
        snapshot, movability = self._problem.snapshot, self._problem.movability
        finder = BlockerFinder(self._problem, self._steps, self.totals)
        found: list[BlockedPod] = []
        nodes = self._nodes_to_relieve()
        pods_on = self._pods_on([node for node, _ in nodes])
        for node, strategy in nodes:
            if found and out_of_time():
                break
            for pod in pods_on[node]:
                is_movable = movability.movable[pod]
                blocker = None if is_movable else movability.blocker(pod)
                blocker = blocker or finder.blocker(pod, node)
                if blocker.name not in OF_NODES:
                    key = snapshot.pods.keys[pod]
                    found.append(BlockedPod(key, blocker.name, blocker.detail, strategy))
        return [*found, *self._blocked_elsewhere(finder, [node for node, _ in nodes])]

    def _blocked_elsewhere(self, finder: "BlockerFinder", nodes: list[int]) -> Iterator[BlockedPod]:
        """Pods that should leave for their own sake, on other nodes than these."""
        known = np.zeros(len(self._problem.snapshot.nodes), bool)
        known[nodes] = True
        movability, keys = self._problem.movability, self._problem.snapshot.pods.keys
        for pod, node, strategy, gain in PodsToRelieve(
            self._problem, self._violations, self._moved, known
        ):
            if gain < _WORTH_A_REPORT:
                continue
            blocker = movability.blocker(pod) or finder.blocker(pod, node)
            if blocker.name not in LEFT_ALONE | {NO_GAIN}:
                yield BlockedPod(keys[pod], blocker.name, blocker.detail, strategy)

    def _nodes_to_relieve(self) -> list[tuple[int, str]]:
        """Nodes that pods should still leave, the costliest first, and for which strategy."""
        used, movable = self.totals.used, self.totals.movable
        wanted_by = self._problem.objective.nodes_to_relieve_by_strategy(used, movable)
        nodes = np.flatnonzero(np.any(list(wanted_by.values()), axis=0))
        costliest = nodes[np.argsort(-self.totals.costs[nodes], kind="stable")]
        return [
            (node, next(name for name, wanted in wanted_by.items() if wanted[node]))
            for node in costliest[:_MOST_NODES_REPORTED].tolist()
        ]

    def _pods_on(self, nodes: list[int]) -> dict[int, list[int]]:
        """By node, its pods that the plan does not move."""
        pods = self._problem.snapshot.pods
        is_wanted = np.zeros(len(self._problem.snapshot.nodes), bool)
        is_wanted[nodes] = True
        found: dict[int, list[int]] = {node: [] for node in nodes}
        rows = np.flatnonzero(pods.placed)
        rows = rows[is_wanted[pods.node[rows]]]
        for pod, node in zip(rows.tolist(), pods.node[rows].tolist(), strict=True):
            if pod not in self._moved:
                found[node].append(pod)
        return found


def _side_effect(node: str, makes_room: bool) -> str:
    """Why a pod moves of which nothing is wanted for itself."""
    if makes_room:
        return f"it makes room on {node} for a pod that does better there"
    return f"{node} and the target are better off together"


class BlockerFinder:
    """Finds why pods that could be moved were not, with all moves of the plan carried out."""

    def __init__(self, problem: Problem, steps: Sequence[SearchStep], totals: NodeTotals) -> None:
        self._problem = problem
        self._totals = totals
        self._is_full = len(steps) >= problem.max_moves
        self._known: dict[tuple[int, int], Blocker] = {}
        self._allowances = Allowances(problem)
        for pod, source, target in steps:
            self._allowances.count_move(int(problem.snapshot.pods.template[pod]), 1)
            self._allowances.count_on_node(source, 1)
            self._allowances.count_on_node(target, 1)

    def blocker(self, pod: int, node: int) -> Blocker:
        """The blocker, the same for all pods of a template on a node."""
        template = int(self._problem.snapshot.pods.template[pod])
        if (template, node) not in self._known:
            self._known[template, node] = (
                self._limited(template, node)
                or self._refused(pod, template, node)
                or Blocker(NO_GAIN, "nothing would be gained by moving it that is worth a move")
            )
        return self._known[template, node]

    def _limited(self, template: int, node: int) -> Blocker | None:
        if self._is_full:
            limit = self._problem.max_moves
            return Blocker(MOVE_LIMIT, f"the plan has as many moves as allowed, {limit}")
        scope = self._allowances.exhausted_scope(template)
        if scope is not None:
            return self._problem.limits.reason(scope)
        if self._allowances.used_up[node]:
            return self._problem.limits.node_reason(node)
        return None

    def _refused(self, pod: int, template: int, node: int) -> Blocker | None:
        """What keeps the pod from all other nodes, while it runs or once it is gone."""
        checker = self._problem.checker
        others = self._problem.load.takes_pods.copy()
        others[node] = False
        if not others.any():
            return Blocker("NoNodeFits", "there is no other node that users' pods may go to")
        accepting = others.copy()
        if self._problem.mode(template) != Mode.EVICT:
            accepting &= checker.accepted(template)
            if not accepting.any():
                return self._main_refusal(template, others)
        with checker.without(pod):
            accepting &= checker.accepted(template)
            if not accepting.any():
                return self._main_refusal(template, others)
        if self._avoided(template, node)[accepting].all():
            return Blocker("NoNodeFits", "it would be too much for every other node")
        return None

    def _avoided(self, template: int, source: int) -> Bools:
        then = self._totals.used + self._problem.load.demand[:, template][:, None]
        is_requested = bool(self._problem.nodes_to_empty[source])
        avoided = self._problem.objective.avoids(slice(None), then, is_requested=is_requested)
        return np.zeros(then.shape[1], bool) if avoided is None else avoided

    def _main_refusal(self, template: int, others: Bools) -> Blocker | None:
        """The plugin that refuses most of the other nodes, with one of them as an example."""
        refusals = self._problem.checker.refusals(template)
        refusing = refusals[others & (refusals > 0)]
        if not len(refusing):
            return None
        number = int(np.bincount(refusing).argmax())
        plugin = self._problem.checker.plugins[number - 1]
        refused = np.flatnonzero(others & (refusals == number))
        example = int(refused[0])
        return Blocker(
            "NoNodeFits",
            f"{plugin.name} refuses {len(refused)} of {len(refusing)} nodes, "
            f"{self._problem.snapshot.nodes.names[example]} because "
            f"{plugin.reason(template, example)}",
        )
