"""Choose which pods to move, and in what order.

All the planner may know is in the snapshot, the policy and the context it is given; all it
found out, including why it left a pod alone, is in the plan it returns.

Every plan keeps one promise: stop after any of its moves, and no constraint is broken that was not
broken before. Each move is checked with all earlier moves carried out: its target must accept the
pod once the old one is gone and, for a handoff, also while it is still there.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.assessment import assess, pods_in_use
from rescheduler.planning.context import DEFAULT_CONTEXT, PlanningContext
from rescheduler.planning.movability.blocker import BEING_DELETED, BEING_MIGRATED, LEFT_ALONE
from rescheduler.planning.movability.group_parts import GroupPart
from rescheduler.planning.plan import Assessment, BlockedPod, NoMovesReason, Plan
from rescheduler.planning.plan_report import NO_GAIN, PlanReport
from rescheduler.planning.planning_time import PlanningTime
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.safety_checks import failed_safety_check
from rescheduler.planning.search.plan_value import PlanValue
from rescheduler.planning.search.pod_groups import (
    parts_beyond_limits,
    parts_left_behind,
)
from rescheduler.planning.search.searches import FoundSteps, find_single_moves, find_steps
from rescheduler.planning.search.steps import SearchStep
from rescheduler.planning.strategies import STRATEGIES, depending_on, requested_strategies
from rescheduler.planning.strategies.strategy import Strategy
from rescheduler.settings import Policy


def make_plan(
    snapshot: Snapshot,
    policy: Policy,
    context: PlanningContext = DEFAULT_CONTEXT,
    strategies: Mapping[str, type[Strategy]] = {},
    time_used: Callable[[], float] = lambda: 0.0,
) -> Plan:
    """The few moves that lower the objective most, up to the policy's limit.

    `strategies` are those of other people. `time_used` is asked now and then which share of
    `planningTimeout` is over: when it is most of it, the best plan found so far is returned.
    """
    time = PlanningTime(time_used)
    return _Planner(snapshot, policy, context, strategies, time).plan_if_safe()


class _Planner:
    """Plans for a snapshot, with fewer and fewer strategies that act."""

    def __init__(
        self,
        snapshot: Snapshot,
        policy: Policy,
        context: PlanningContext,
        strategies: Mapping[str, type[Strategy]],
        time: PlanningTime,
    ) -> None:
        self._snapshot = snapshot
        self._policy = policy
        self._context = context
        self._strategies = strategies
        self._time = time
        self._out_of_time = time.is_over_for_search

    def plan_if_safe(self) -> Plan:
        """The plan; in a cluster that is in trouble, at most of what people asked for."""
        stop = failed_safety_check(self._snapshot, self._policy)
        if stop is None:
            return self.plan(frozenset())
        if stop.stops_maintenance:
            return _nothing(self._problem(frozenset()), stop.sentence, stop.reason)
        requested = requested_strategies(self._strategies)
        plan = self.plan(frozenset({*STRATEGIES, *self._strategies}) - requested)
        if plan.moves:
            return msgspec.structs.replace(plan, summary=f"{plan.summary} {stop.sentence}.")
        return msgspec.structs.replace(plan, summary=stop.sentence, idle_reason=stop.reason)

    def plan(self, at_rest: frozenset[str]) -> Plan:
        """The plan if these strategies, by name, are only heard."""
        problem = self._problem(at_rest)
        if not problem.objective.strategies:
            plan = _plan(problem, [], self._time, is_complete=True)
            if plan.blocked:
                return plan
            has_nodes = len(self._snapshot.nodes) > 0
            return msgspec.structs.replace(
                plan,
                summary=f"Nothing to move: {_idle_reason(problem)}.",
                idle_reason=NoMovesReason.NOTHING_TO_IMPROVE
                if has_nodes
                else NoMovesReason.NO_NODES,
            )
        demanding = problem.objective.demanding(problem.movable_on)
        # First, because the search for what is worth it may use up the time.
        fallback = self._fallback(at_rest, demanding) if demanding else None
        problem, found = self._search(problem)
        dropped = _not_worth_it(problem, found.steps)
        if demanding and not found.steps and self._out_of_time():
            dropped = demanding[0]
        if dropped is None:
            return self._result(problem, found)
        plan = self._without(at_rest, dropped, fallback)
        if plan.moves or plan.blocked:
            return plan
        reason = f"Nothing to move: {dropped.name} found nothing that is worth its moves."
        return msgspec.structs.replace(plan, summary=reason, idle_reason=NoMovesReason.NOT_WORTH_IT)

    def _problem(self, at_rest: frozenset[str]) -> Problem:
        """What is to be planned. Pods of a group that cannot leave together stay from the start:
        otherwise the search would spend its moves on some of them."""
        problem = self._problem_with({}, at_rest)
        held = parts_beyond_limits(problem)
        return self._problem_with(held, at_rest) if held else problem

    def _problem_with(self, held: Mapping[GroupPart, str], at_rest: frozenset[str]) -> Problem:
        return Problem(self._snapshot, self._policy, self._context, self._strategies, held, at_rest)

    def _search(self, problem: Problem) -> tuple[Problem, FoundSteps]:
        """The best steps. If a pod group stays because not all its pods can go, others may go in
        their place: then it is searched again with the group where it is."""
        found = find_steps(problem, self._time)
        left_behind = parts_left_behind(problem, found.steps)
        if not left_behind or self._out_of_time():
            return problem, found
        other = self._problem_with({**problem.held_parts, **left_behind}, problem.at_rest)
        if not other.objective.strategies:
            return problem, found
        instead = find_steps(other, self._time)
        value = PlanValue(problem, problem.checker)
        if value.after(instead.steps) <= value.after(found.steps):
            return other, instead
        return problem, found

    def _fallback(self, at_rest: frozenset[str], demanding: Sequence[Strategy]) -> "_Fallback":
        """What there is to move if these strategies are only heard."""
        for strategy in demanding:
            at_rest |= depending_on(strategy.name, self._strategies)
        problem = self._problem(at_rest)
        if not problem.objective.strategies:
            return _Fallback(problem, FoundSteps([], was_cut_short=False))
        return _Fallback(problem, find_single_moves(problem, self._time))

    def _without(
        self, at_rest: frozenset[str], dropped: Strategy, fallback: "_Fallback | None"
    ) -> Plan:
        if fallback is not None and self._out_of_time():
            return self._result(*fallback)
        return self.plan(at_rest | depending_on(dropped.name, self._strategies))

    def _result(self, problem: Problem, found: FoundSteps) -> Plan:
        is_complete = not self._out_of_time()
        if found.was_cut_short and not found.steps:
            seconds = problem.policy.planning_timeout_seconds
            reason = f"Nothing found within planningTimeout ({seconds:g} s)."
            return _nothing(problem, reason, NoMovesReason.OUT_OF_TIME, is_complete)
        return _plan(problem, found.steps, self._time, is_complete)


class _Fallback(NamedTuple):
    """What is planned if a demanding strategy finds too little."""

    problem: Problem
    found: FoundSteps


def _not_worth_it(problem: Problem, steps: Sequence[SearchStep]) -> Strategy | None:
    """A strategy that gains too little by these steps."""
    if not steps:
        return None
    movable = problem.movable_on.copy()
    np.subtract.at(movable, [step.source for step in steps], 1)
    np.add.at(movable, [step.target for step in steps], 1)
    return problem.objective.not_worth_it(movable, len(steps))


def _plan(
    problem: Problem, steps: Sequence[SearchStep], time: PlanningTime, is_complete: bool
) -> Plan:
    before = _assessment_of_start(problem)
    report = PlanReport(problem, steps)
    blocked = tuple(report.blocked(time.is_over_for_explaining))
    totals = report.totals
    cost = totals.recomputed_total() + problem.pod_cost - report.gained_by_pods
    measures = problem.objective.measures(totals.used, totals.movable, report.rule_costs)
    return Plan(
        moves=report.moves,
        blocked=blocked,
        before=before,
        after=_assessment(problem, steps, cost, measures),
        overloaded=_overloaded(problem),
        summary=_summary(problem, steps, blocked, is_complete),
        search_complete=is_complete,
        idle_reason=_why_idle(problem, steps, blocked),
        unreadable=_unreadable(problem),
    )


def _nothing(
    problem: Problem, sentence: str, reason: NoMovesReason, is_complete: bool = True
) -> Plan:
    now = _assessment_of_start(problem)
    return Plan(
        moves=(),
        blocked=(),
        before=now,
        after=now,
        overloaded=_overloaded(problem),
        summary=sentence,
        search_complete=is_complete,
        idle_reason=reason,
        unreadable=_unreadable(problem),
    )


def _overloaded(problem: Problem) -> tuple[str, ...]:
    rows = np.flatnonzero(problem.objective.overloaded())
    return tuple(problem.snapshot.nodes.names[row] for row in rows)


def _unreadable(problem: Problem) -> tuple[str, ...]:
    return tuple(
        f"{obj}; so {obj.consequence.value}"
        for obj in problem.snapshot.unreadable
        if obj.consequence is not None
    )


def _assessment_of_start(problem: Problem) -> Assessment:
    measures = problem.objective.measures(problem.load.used, problem.movable_on, problem.rule_costs)
    return _assessment(problem, (), problem.stated_value + problem.pod_cost, measures)


def _assessment(
    problem: Problem,
    steps: Sequence[SearchStep],
    objective: float,
    measures: dict[str, dict[str, float]],
) -> Assessment:
    """The cluster after these steps."""
    pods, sources, targets = np.array(steps, np.int32).reshape(-1, 3).T
    used = problem.load.used_after(problem.snapshot.pods.template[pods], sources, targets)
    in_use = pods_in_use(problem.load)
    np.subtract.at(in_use, sources, 1)
    np.add.at(in_use, targets, 1)
    return assess(problem.load, used, in_use, objective, measures)


def _idle_reason(problem: Problem) -> str:
    if not len(problem.snapshot.nodes):
        return "the cluster has no nodes"
    return problem.objective.idle_reasons()


def _why_idle(
    problem: Problem, steps: Sequence[SearchStep], blocked: tuple[BlockedPod, ...]
) -> NoMovesReason:
    if steps:
        return NoMovesReason.NONE
    if problem.max_moves == 0:
        is_on = problem.policy.max_reschedule_pods > 0
        return NoMovesReason.UNFINISHED_MOVES if is_on else NoMovesReason.MOVES_TURNED_OFF
    if not blocked:
        is_left = _has_nodes_to_relieve(problem)
        return NoMovesReason.ONLY_PODS_OF_NODES if is_left else NoMovesReason.NOTHING_TO_IMPROVE
    if _is_nothing_gained(problem.snapshot, blocked):
        return NoMovesReason.NOTHING_TO_IMPROVE
    is_leaving = _are_leaving(problem.snapshot, blocked)
    return NoMovesReason.UNFINISHED_MOVES if is_leaving else NoMovesReason.ALL_BLOCKED


def _has_nodes_to_relieve(problem: Problem) -> bool:
    """Whether pods should leave some nodes, whichever pods those are."""
    return bool(problem.objective.nodes_to_relieve(problem.load.used, problem.movable_on).any())


def _is_nothing_gained(snapshot: Snapshot, blocked: Sequence[BlockedPod]) -> bool:
    """Whether no move of these pods is worth it, apart from pods beside them to be left alone.

    There are system pods on most nodes, also on one whose load can only be passed on.
    """
    nodes = {_node_of(snapshot, pod) for pod in blocked if pod.blocker == NO_GAIN}
    return bool(nodes) and all(
        pod.blocker == NO_GAIN or (pod.blocker in LEFT_ALONE and _node_of(snapshot, pod) in nodes)
        for pod in blocked
    )


def _are_leaving(snapshot: Snapshot, blocked: Sequence[BlockedPod]) -> bool:
    """Whether all of these pods are on their way already.

    Nobody stops those that are being deleted on a node that is silent.
    """
    return _stay_for({BEING_MIGRATED, BEING_DELETED}, blocked) and all(
        pod.blocker == BEING_MIGRATED or snapshot.nodes.ready[_node_of(snapshot, pod)]
        for pod in blocked
    )


def _node_of(snapshot: Snapshot, pod: BlockedPod) -> int:
    row = snapshot.pods.find(pod.pod)
    assert row is not None, "it is in this snapshot"
    return int(snapshot.pods.node[row])


def _stay_for(blockers: Collection[str], blocked: Sequence[BlockedPod]) -> bool:
    """Whether nothing else keeps any of these pods."""
    return all(pod.blocker in blockers for pod in blocked)


def _summary(
    problem: Problem,
    steps: Sequence[SearchStep],
    blocked: tuple[BlockedPod, ...],
    is_complete: bool,
) -> str:
    if steps:
        return f"{len(steps)} of at most {problem.max_moves} moves."
    if problem.max_moves == 0:
        most = problem.policy.max_reschedule_pods
        unfinished = f"as many earlier moves are not finished as maxReschedulePods allows, {most}"
        return f"Nothing to move: {unfinished if most else 'maxReschedulePods is 0'}."
    if not blocked and _has_nodes_to_relieve(problem):
        return "Nothing to move: only pods that belong to their nodes are left there."
    if not blocked:
        names = ", ".join(strategy.name for strategy in problem.objective.strategies)
        return f"Nothing to move: no move would improve what is wanted of pods ({names})."
    if _is_nothing_gained(problem.snapshot, blocked):
        pods = _pods(sum(pod.blocker == NO_GAIN for pod in blocked))
        said = f"Nothing to move: nothing would be gained by moving {pods} that is worth a move."
    elif _stay_for({BEING_MIGRATED}, blocked):
        said = f"Nothing to move: earlier moves of {_pods(len(blocked))} are not finished."
    elif _are_leaving(problem.snapshot, blocked):
        said = f"Nothing to move: {_pods(len(blocked))} on the way or being deleted already."
    else:
        counts = Counter(pod.blocker for pod in blocked).most_common(3)
        listed = ", ".join(f"{name} ({count})" for name, count in counts)
        said = f"Nothing to move: every pod that should leave its node is blocked: {listed}."
    seconds = problem.policy.planning_timeout_seconds
    return (
        said if is_complete else f"{said} The search was ended by planningTimeout ({seconds:g} s)."
    )


def _pods(number: int) -> str:
    return "1 pod" if number == 1 else f"{number} pods"
