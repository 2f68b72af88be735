"""Choose which pods to move, and in what order.

All the planner may know is in the snapshot, the policy and the circumstances it is given; all it
found out, including why it left a pod alone, is in the plan it returns.

Every plan keeps one promise: stop after any of its moves, and no constraint is broken that was not
broken before. Each move is judged with all earlier moves made: its target must accept the pod once
the old one is gone and, for a handoff, also while it is still there.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.assessment import assess, pods_in_use
from rescheduler.planning.brakes import brake
from rescheduler.planning.circumstances import NOTHING_SPECIAL, Circumstances
from rescheduler.planning.plan import Assessment, Blocked, Plan
from rescheduler.planning.problem import Problem
from rescheduler.planning.reporting import Report
from rescheduler.planning.search.finding import find_steps
from rescheduler.planning.search.occupancy import Occupancy
from rescheduler.planning.search.steps import Step
from rescheduler.planning.strategies.strategy import Strategy
from rescheduler.settings import Policy


def make_plan(
    snapshot: Snapshot,
    policy: Policy,
    circumstances: Circumstances = NOTHING_SPECIAL,
    strategies: Mapping[str, type[Strategy]] = {},
    out_of_time: Callable[[], bool] = lambda: False,
) -> Plan:
    """The few moves that lower the objective most, up to the policy's limit.

    `strategies` are those of other people. `out_of_time` is asked now and then: once it says yes,
    the best plan found so far is returned.
    """
    problem = Problem(snapshot, policy, circumstances, strategies)
    stop = brake(snapshot, policy)
    if stop is not None:
        return _nothing(problem, stop)
    if not problem.objective.strategies:
        return _nothing(problem, f"Nothing to move: {_why_at_rest(problem)}.")
    steps = find_steps(problem, out_of_time)
    return _plan(problem, steps)


def _plan(problem: Problem, steps: Sequence[Step]) -> Plan:
    report = Report(problem, steps)
    for step in steps:
        problem.judge.place(*step)
    blocked = tuple(report.blocked())
    return Plan(
        moves=report.moves,
        blocked=blocked,
        before=_before(problem),
        after=_after(problem, steps, report.occupancy),
        summary=_summary(problem, steps, blocked),
    )


def _nothing(problem: Problem, why: str) -> Plan:
    now = _before(problem)
    return Plan(moves=(), blocked=(), before=now, after=now, summary=why)


def _before(problem: Problem) -> Assessment:
    return _after(problem, (), Occupancy(problem.load, problem.objective, problem.movable_on))


def _after(problem: Problem, steps: Sequence[Step], occupancy: Occupancy) -> Assessment:
    in_use = pods_in_use(problem.load)
    np.subtract.at(in_use, [step.source for step in steps], 1)
    np.add.at(in_use, [step.target for step in steps], 1)
    return assess(problem.load, occupancy.used, in_use, occupancy.total())


def _why_at_rest(problem: Problem) -> str:
    if not len(problem.snapshot.nodes):
        return "the cluster has no nodes"
    return problem.objective.why_at_rest()


def _summary(problem: Problem, steps: Sequence[Step], blocked: tuple[Blocked, ...]) -> str:
    if steps:
        return f"{len(steps)} of at most {problem.max_moves} moves."
    if problem.max_moves == 0:
        return "Nothing to move: maxReschedulePods is 0."
    if not blocked:
        return "Nothing to move: only pods that belong to their nodes are left there."
    counts = Counter(each.blocker for each in blocked).most_common(3)
    listed = ", ".join(f"{name} ({count})" for name, count in counts)
    return f"Nothing to move: every pod that should leave its node is blocked: {listed}."
