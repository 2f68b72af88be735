"""Put a plan into words: what each move is for, and why other pods stayed."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from rescheduler.model.moves import Mode
from rescheduler.model.snapshot import Bools
from rescheduler.planning.movability.movability import Blocker
from rescheduler.planning.plan import Blocked, Move
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.allowances import Allowances
from rescheduler.planning.search.occupancy import Occupancy
from rescheduler.planning.search.ordering import waves
from rescheduler.planning.search.steps import Step
from rescheduler.planning.strategies.constraint_repair import BROKEN

# Pods on so many pressed nodes get a blocker; a plan that lists more is not read by anyone.
_NODES_TOLD_OF = 100
# Pods of which nobody expects that they move.
_AT_HOME = ("DaemonSetPod", "StaticPod")


class PlanReport:
    """Makes the steps of a plan, one after another, and tells of them. The judge follows."""

    def __init__(self, problem: Problem, steps: Sequence[Step]) -> None:
        self._problem = problem
        self._steps = steps
        self._moved = {step.pod for step in steps}
        problem.objective.follow(problem.load.used)
        self.occupancy = Occupancy(problem.load, problem.objective, problem.movable_on)
        self._conflicts = problem.conflicts.copy() if problem.repairs else None
        self.gained_by_pods = 0.0
        """What is gained by where pods are, apart from what nodes hold."""
        self._flagged = self._broken_beyond()
        broken = problem.still_broken(problem.judge) if self._flagged else 0.0
        self.moves = tuple(self._moves())
        if self._flagged:
            self.gained_by_pods += broken - problem.still_broken(problem.judge)

    # ------------------------------------------------------------ what moves are for

    def _moves(self) -> list[Move]:
        numbers = waves(self._problem, self._steps)
        awaited = Counter(step.target for step in self._steps)
        moves = []
        for step, wave in zip(self._steps, numbers, strict=True):
            awaited[step.target] -= 1
            moves.append(self._move(step, wave, makes_room=awaited[step.source] > 0))
        return moves

    def _move(self, step: Step, wave: int, makes_room: bool) -> Move:
        names, load = self._problem.snapshot.nodes.names, self._problem.load
        source, target = names[step.source], names[step.target]
        template = int(self._problem.snapshot.pods.template[step.pod])
        strategy, why = self._purpose(step, template, makes_room)
        before = float(load.load(self.occupancy.used)[step.target])
        gain = BROKEN * self._breaks_beyond(step) + self._make(step, template)
        after = float(load.load(self.occupancy.used)[step.target])
        return Move(
            pod=self._problem.snapshot.pods.keys[step.pod],
            source=source,
            target=target,
            strategy=strategy,
            mode=self._problem.mode(template),
            reason=f"{why}; the load of {target} goes from {before:.1%} to {after:.1%}",
            gain=gain,
            wave=wave,
        )

    def _make(self, step: Step, template: int) -> float:
        """By how much the objective falls when the step is made."""
        nodes = [step.source, step.target]
        by_pod = self._trouble(template, step.source)
        for term in self._problem.pod_terms:
            by_pod += term.relief(template, step.source)
            cost = term.arrival(template, step.source)
            by_pod -= float(cost[step.target]) if cost is not None else 0.0
            term.follow(template, step.source, step.target)
        self.gained_by_pods += by_pod
        gain = by_pod + float(self.occupancy.costs[nodes].sum())
        for node, count in ((step.source, -1), (step.target, 1)):
            self.occupancy.add(template, node, count)
            if self._conflicts is not None:
                self._conflicts.add(template, node, count)
        self._problem.judge.place(*step)
        return gain - float(self.occupancy.costs[nodes].sum())

    def _broken_beyond(self) -> set[int]:
        """Pods that break, at the start, a rule about more than their node."""
        if not self._problem.repairs:
            return set()
        cells = self._problem.cells
        return {
            int(pod)
            for cell in self._problem.broken_beyond
            for pod in cells.pods[cells.first[cell] : cells.first[cell] + cells.count[cell]]
        }

    def _breaks_beyond(self, step: Step) -> bool:
        return step.pod in self._flagged and self._problem.judge.breaks_a_rule(step.pod)

    def _trouble(self, template: int, node: int) -> float:
        if self._conflicts is None:
            return 0.0
        one, here = np.array([template], np.int32), np.array([node], np.int32)
        return float(self._problem.trouble(self._conflicts, one, here)[0])

    def _purpose(self, step: Step, template: int, makes_room: bool) -> tuple[str, str]:
        """The strategy that a move is for, and why."""
        used, movable = self.occupancy.used, self.occupancy.movable
        name = self._problem.snapshot.nodes.names[step.source]
        strategies = self._problem.objective.strategies
        if (
            strategies[0].name == "NodeMaintenance"
            and strategies[0].pressed(used, movable)[step.source]
        ):
            return strategies[0].name, f"{name} has {strategies[0].reason(step.source, used)}"
        if self._trouble(template, step.source) > 0 or self._breaks_beyond(step):
            return "ConstraintRepair", f"it breaks a rule on {name} that it or a neighbour requires"
        for term in self._problem.pod_terms:
            if term.relief(template, step.source) > 0:
                return term.strategy, term.reason(template, step.source)
        for strategy in strategies:
            if strategy.pressed(used, movable)[step.source]:
                return strategy.name, f"{name} has {strategy.reason(step.source, used)}"
        if makes_room:
            return strategies[0].name, f"it makes room on {name} for a pod that does better there"
        return strategies[0].name, f"{name} and the target are better off together"

    # ------------------------------------------------------------ why the rest stayed

    def blocked(self) -> list[Blocked]:
        """A blocker for every pod that stayed on a node it should leave."""
        snapshot, movability = self._problem.snapshot, self._problem.movability
        why = Why(self._problem, self._steps, self.occupancy)
        found = []
        for node in self._pressed_nodes():
            for pod in self._pods_on(node):
                is_free = movability.movable[pod]
                blocker = None if is_free else movability.blocker(pod)
                blocker = blocker or why.stays(pod, node)
                if blocker.name not in _AT_HOME:
                    found.append(Blocked(snapshot.pods.keys[pod], blocker.name, blocker.detail))
        return found

    def _pressed_nodes(self) -> list[int]:
        """Nodes that pods should still leave, the costliest first."""
        occupancy = self.occupancy
        pressed = np.flatnonzero(self._problem.objective.pressed(occupancy.used, occupancy.movable))
        costliest = pressed[np.argsort(-occupancy.costs[pressed], kind="stable")]
        return [int(node) for node in costliest[:_NODES_TOLD_OF]]

    def _pods_on(self, node: int) -> list[int]:
        pods = self._problem.snapshot.pods
        on_node = np.flatnonzero(pods.placed & (pods.node == node))
        return [pod for pod in on_node.tolist() if pod not in self._moved]


class Why:
    """Why pods that could be moved were not. The judge has all moves of the plan made."""

    def __init__(self, problem: Problem, steps: Sequence[Step], occupancy: Occupancy) -> None:
        self._problem = problem
        self._occupancy = occupancy
        self._is_full = len(steps) >= problem.max_moves
        self._known: dict[tuple[int, int], Blocker] = {}
        self._allowances = Allowances(problem)
        for pod, source, target in steps:
            self._allowances.take(int(problem.snapshot.pods.template[pod]), 1)
            self._allowances.touch(source, 1)
            self._allowances.touch(target, 1)

    def stays(self, pod: int, node: int) -> Blocker:
        """The reason, the same for all pods of a template on a node."""
        template = int(self._problem.snapshot.pods.template[pod])
        if (template, node) not in self._known:
            self._known[template, node] = (
                self._limited(template, node)
                or self._refused(pod, template, node)
                or Blocker("NoGain", "nothing would be gained by moving it that is worth a move")
            )
        return self._known[template, node]

    def _limited(self, template: int, node: int) -> Blocker | None:
        if self._is_full:
            limit = self._problem.max_moves
            return Blocker("MoveLimit", f"the plan has as many moves as allowed, {limit}")
        group = self._allowances.exhausted_group(template)
        if group is not None:
            return self._problem.limits.reason(group)
        if self._allowances.used_up[node]:
            return self._problem.limits.node_reason(node)
        return None

    def _refused(self, pod: int, template: int, node: int) -> Blocker | None:
        """What keeps the pod from all other nodes, while it runs or once it is gone."""
        judge = self._problem.judge
        others = self._problem.load.takes_pods.copy()
        others[node] = False
        if not others.any():
            return Blocker("NoNodeFits", "there is no other node that users' pods may go to")
        accepting = others.copy()
        if self._problem.mode(template) != Mode.EVICT:
            accepting &= judge.accepted(template)
            if not accepting.any():
                return self._main_refusal(template, others)
        with judge.without(pod):
            accepting &= judge.accepted(template)
            if not accepting.any():
                return self._main_refusal(template, others)
        if self._avoided(template)[accepting].all():
            return Blocker("NoNodeFits", "it would be too much for every other node")
        return None

    def _avoided(self, template: int) -> Bools:
        then = self._occupancy.used + self._problem.load.demand[:, template][:, None]
        avoided = self._problem.objective.avoids(slice(None), then)
        return np.zeros(then.shape[1], bool) if avoided is None else avoided

    def _main_refusal(self, template: int, others: Bools) -> Blocker | None:
        """The rule that refuses most of the other nodes, told with one of them."""
        refusals = self._problem.judge.refusals(template)
        refusing = refusals[others & (refusals > 0)]
        if not len(refusing):
            return None
        number = int(np.bincount(refusing).argmax())
        rule = self._problem.judge.rules[number - 1]
        refused = np.flatnonzero(others & (refusals == number))
        example = int(refused[0])
        return Blocker(
            "NoNodeFits",
            f"{rule.name} refuses {len(refused)} of {len(refusing)} nodes, "
            f"{self._problem.snapshot.nodes.names[example]} because "
            f"{rule.reason(template, example)}",
        )
