"""Choose which pods to move, and in what order.

All the planner may know is in the snapshot, the policy and the context it is given; all it
found out, including why it left a pod alone, is in the plan it returns.

Every plan keeps one promise: stop after any of its moves, and no constraint is broken that was not
broken before. Each move is checked with all earlier moves carried out: its target must accept the
pod once the old one is gone and, for a handoff, also while it is still there.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.assessment import assess, pods_in_use
from rescheduler.planning.context import DEFAULT_CONTEXT, PlanningContext
from rescheduler.planning.plan import Assessment, BlockedPod, Plan
from rescheduler.planning.plan_report import PlanReport
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.safety_checks import failed_safety_check
from rescheduler.planning.search.searches import find_steps
from rescheduler.planning.search.steps import SearchStep
from rescheduler.planning.strategies import without_strategy
from rescheduler.planning.strategies.strategy import Strategy
from rescheduler.settings import Policy

SEARCHING = 0.6
"""Of the time for a plan. The rest is for bringing moves into order and putting them into words."""


def make_plan(
    snapshot: Snapshot,
    policy: Policy,
    context: PlanningContext = DEFAULT_CONTEXT,
    strategies: Mapping[str, type[Strategy]] = {},
    out_of_time: Callable[[], bool] = lambda: False,
) -> Plan:
    """The few moves that lower the objective most, up to the policy's limit.

    `strategies` are those of other people. `out_of_time` is asked now and then: once it says yes,
    the best plan found so far is returned.
    """
    problem = Problem(snapshot, policy, context, strategies)
    stop = failed_safety_check(snapshot, policy)
    if stop is not None:
        return _nothing(problem, stop)
    if not problem.objective.strategies:
        return _nothing(problem, f"Nothing to move: {_idle_reason(problem)}.")
    steps = find_steps(problem, out_of_time)
    is_complete = not out_of_time()
    if not steps and not is_complete:
        seconds = policy.planning_timeout_seconds
        reason = f"Nothing found within planningTimeout ({seconds:g} s)."
        return _nothing(problem, reason, is_complete)
    not_worth_it = _not_worth_it(problem, steps) if steps else None
    if not_worth_it is not None:
        without = without_strategy(policy, not_worth_it.name, strategies)
        return make_plan(snapshot, without, context, strategies, out_of_time)
    return _plan(problem, steps, is_complete)


def _not_worth_it(problem: Problem, steps: Sequence[SearchStep]) -> Strategy | None:
    """A strategy that gains too little by these steps."""
    movable = problem.movable_on.copy()
    np.subtract.at(movable, [step.source for step in steps], 1)
    np.add.at(movable, [step.target for step in steps], 1)
    return problem.objective.not_worth_it(movable, len(steps))


def _plan(problem: Problem, steps: Sequence[SearchStep], is_complete: bool) -> Plan:
    before = _assessment(problem, (), problem.start_value + problem.pod_cost)
    report = PlanReport(problem, steps)
    blocked = tuple(report.blocked())
    cost = report.totals.recomputed_total() + problem.pod_cost - report.gained_by_pods
    return Plan(
        moves=report.moves,
        blocked=blocked,
        before=before,
        after=_assessment(problem, steps, cost),
        overloaded=_overloaded(problem),
        summary=_summary(problem, steps, blocked),
        search_complete=is_complete,
    )


def _nothing(problem: Problem, reason: str, is_complete: bool = True) -> Plan:
    now = _assessment(problem, (), problem.start_value + problem.pod_cost)
    return Plan(
        moves=(),
        blocked=(),
        before=now,
        after=now,
        overloaded=_overloaded(problem),
        summary=reason,
        search_complete=is_complete,
    )


def _overloaded(problem: Problem) -> tuple[str, ...]:
    rows = np.flatnonzero(problem.objective.overloaded())
    return tuple(problem.snapshot.nodes.names[row] for row in rows)


def _assessment(problem: Problem, steps: Sequence[SearchStep], objective: float) -> Assessment:
    """The cluster after these steps."""
    in_use, used = pods_in_use(problem.load), problem.load.used.copy()
    for pod, source, target in steps:
        demand = problem.load.demand[:, int(problem.snapshot.pods.template[pod])]
        used[:, source] -= demand
        used[:, target] += demand
        in_use[source] -= 1
        in_use[target] += 1
    return assess(problem.load, used, in_use, objective)


def _idle_reason(problem: Problem) -> str:
    if not len(problem.snapshot.nodes):
        return "the cluster has no nodes"
    return problem.objective.idle_reasons()


def _summary(problem: Problem, steps: Sequence[SearchStep], blocked: tuple[BlockedPod, ...]) -> str:
    if steps:
        return f"{len(steps)} of at most {problem.max_moves} moves."
    if problem.max_moves == 0:
        return "Nothing to move: maxReschedulePods is 0."
    if not blocked:
        return "Nothing to move: only pods that belong to their nodes are left there."
    counts = Counter(pod.blocker for pod in blocked).most_common(3)
    listed = ", ".join(f"{name} ({count})" for name, count in counts)
    return f"Nothing to move: every pod that should leave its node is blocked: {listed}."
