"""Pod groups: who leaves a node with a group leaves together, or stays.

Searches do not know groups. What they find is completed: the other members on the same nodes get
targets too, if that is better than to leave the group where it is. `GroupPart` says who leaves
together.
"""

from collections.abc import Sequence

import numpy as np

from rescheduler.model.snapshot import Bools
from rescheduler.planning.movability.group_parts import GroupPart
from rescheduler.planning.problem.allowances import Allowances
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.node_totals import NodeTotals
from rescheduler.planning.search.ordering import MoveOrdering
from rescheduler.planning.search.plan_value import PlanValue
from rescheduler.planning.search.steps import SearchStep

# Targets tried for a pod that a plugin keeps from the best ones.
_TRIES = 8


def parts_beyond_limits(problem: Problem) -> dict[GroupPart, str]:
    """Parts of groups that can never leave together, because fewer pods may move, and why."""
    parts = problem.movability.group_parts.members
    if not parts or not problem.max_moves:
        return {}
    allowances = Allowances(problem)
    beyond = {}
    for part in parts:
        rows = leaving_pods(problem, part)
        if len(rows) > problem.max_moves:
            beyond[part] = f": {len(rows)} pods, and at most {problem.max_moves} may move"
        elif len(rows) > 1 and (limit := _exceeded_limit(problem, allowances, rows)):
            beyond[part] = f": {len(rows)} pods, and {limit}"
    return beyond


def leaving_pods(problem: Problem, part: GroupPart) -> list[int]:
    """The members that leave if any of them does, without those that are leaving already."""
    rows = problem.movability.group_parts.members[part]
    return [row for row in rows if problem.movability.movable[row]]


def _exceeded_limit(problem: Problem, allowances: Allowances, rows: Sequence[int]) -> str | None:
    """The limit that does not let all of these pods go at once."""
    pods = problem.snapshot.pods
    ends = [(int(pods.template[row]), int(pods.node[row])) for row in rows]
    found = None
    for template, node in ends:
        scope = allowances.exhausted_scope(template)
        if found is None and scope is not None:
            found = problem.limits.reason(scope).detail
        if found is None and allowances.used_up[node]:
            found = problem.limits.node_reason(node).detail
        allowances.count_move(template, 1)
        allowances.count_on_node(node, 1)
    for template, node in ends:
        allowances.count_move(template, -1)
        allowances.count_on_node(node, -1)
    return found


def whole_groups(
    problem: Problem, order: MoveOrdering, steps: Sequence[SearchStep]
) -> list[SearchStep]:
    """The steps that are possible, with all members of a part of a group or none of them."""
    if not problem.movability.group_parts.members:
        return list(steps)
    kept = order.executable(steps)
    completion: _Completion | None = None
    given_up: set[GroupPart] = set()
    while torn := _torn_part(problem, kept):
        completion = completion or _Completion(problem, order)
        completed = None if torn in given_up else completion.completed(kept, torn)
        given_up.add(torn)
        without = order.executable(_without(problem, kept, torn))
        if completed is not None and (
            completion.value.after(completed) < completion.value.after(without)
        ):
            kept = completed
        else:
            kept = without
            problem.torn_parts.add(torn)
    return kept


def parts_left_behind(problem: Problem, steps: Sequence[SearchStep]) -> dict[GroupPart, str]:
    """Parts of which searches wanted some pods to go, but which stay in the end, and why."""
    part_of = problem.movability.group_parts.part_of
    going = {part_of[step.pod] for step in steps if step.pod in part_of}
    return {
        part: f": there is no room for all {len(leaving_pods(problem, part))} pods, "
        "or nothing would be gained by moving all"
        for part in sorted(problem.torn_parts - going)
    }


def _torn_part(problem: Problem, steps: Sequence[SearchStep]) -> GroupPart | None:
    """A part of which some pods go and others do not."""
    part_of = problem.movability.group_parts.part_of
    moving = {step.pod for step in steps}
    for part in dict.fromkeys(part_of[step.pod] for step in steps if step.pod in part_of):
        if not moving.issuperset(leaving_pods(problem, part)):
            return part
    return None


def _without(problem: Problem, steps: Sequence[SearchStep], part: GroupPart) -> list[SearchStep]:
    part_of = problem.movability.group_parts.part_of
    return [step for step in steps if part_of.get(step.pod) != part]


class _Completion:
    """Finds targets for the members of a group that a plan has left behind."""

    def __init__(self, problem: Problem, order: MoveOrdering) -> None:
        self._problem = problem
        self._order = order
        self._checker = order.checker
        self.value = PlanValue(problem, order.checker)

    def completed(self, steps: Sequence[SearchStep], part: GroupPart) -> list[SearchStep] | None:
        """The steps with all members of a part; None if that is not possible.

        If there are too many moves then, the last ones of pods that are in no group are left out.
        """
        moving = {step.pod for step in steps}
        missing = [row for row in leaving_pods(self._problem, part) if row not in moving]
        kept = self._shortened(steps, len(steps) + len(missing) - self._problem.max_moves)
        if kept is None:
            return None
        found = self._with_targets(kept, missing)
        if found is None:
            return None
        ordered = self._order.executable(found)
        return ordered if len(ordered) == len(found) else None

    def _shortened(self, steps: Sequence[SearchStep], surplus: int) -> list[SearchStep] | None:
        part_of = self._problem.movability.group_parts.part_of
        single = [step for step in steps if step.pod not in part_of]
        if surplus <= 0:
            return list(steps)
        if len(single) < surplus:
            return None
        dropped = {step.pod for step in single[-surplus:]}
        return self._order.executable([step for step in steps if step.pod not in dropped])

    def _with_targets(
        self, steps: Sequence[SearchStep], pods: Sequence[int]
    ) -> list[SearchStep] | None:
        """The steps, and one for each of these pods after them; None if a pod finds no target."""
        problem = self._problem
        totals = NodeTotals(problem.load, problem.objective, problem.movable_on)
        allowances = Allowances(problem)
        done: list[SearchStep] = []

        def carry_out(step: SearchStep) -> None:
            template = int(problem.snapshot.pods.template[step.pod])
            self._checker.place(*step)
            for term in problem.search_terms:
                term.moved(template, step.source, step.target)
            for node, count in ((step.source, -1), (step.target, 1)):
                totals.add(template, node, count)
                allowances.count_on_node(node, 1)
            done.append(step)

        for step in steps:
            carry_out(step)
        for pod in pods:
            target = self._best_target(pod, totals, allowances)
            if target is None:
                break
            carry_out(SearchStep(pod, int(problem.snapshot.pods.node[pod]), target))
        self._take_back(done)
        return done if len(done) == len(steps) + len(pods) else None

    def _take_back(self, steps: Sequence[SearchStep]) -> None:
        for pod, source, target in reversed(steps):
            self._checker.place(pod, target, source)
            for term in self._problem.search_terms:
                term.moved(int(self._problem.snapshot.pods.template[pod]), target, source)

    def _best_target(self, pod: int, totals: NodeTotals, allowances: Allowances) -> int | None:
        """Where the objective rises least, among the nodes that take the pod.

        Other strategies do not keep a pod on a node that a person wants empty.
        """
        source = int(self._problem.snapshot.pods.node[pod])
        target = self._target(pod, totals, ~allowances.used_up, is_requested=False)
        if target is None and self._problem.nodes_to_empty[source]:
            target = self._target(pod, totals, ~allowances.used_up, is_requested=True)
        return target

    def _target(
        self, pod: int, totals: NodeTotals, allowed: Bools, *, is_requested: bool
    ) -> int | None:
        problem = self._problem
        template = int(problem.snapshot.pods.template[pod])
        source = int(problem.snapshot.pods.node[pod])
        demand = problem.load.demand[:, template][:, None]
        then, everywhere = totals.used + demand, slice(None)
        allowed = allowed & ~problem.pods.closed_to(template, may_return=is_requested)
        allowed &= (demand <= totals.free).all(axis=0)
        avoided = problem.objective.avoids(everywhere, then, is_requested=is_requested)
        if avoided is not None:
            allowed &= ~avoided
        allowed[source] = False
        rise = problem.objective.cost(everywhere, then, totals.movable + 1) - totals.costs
        for term in problem.search_terms:
            costs = term.arrival_costs(template, source)
            rise = rise if costs is None else rise + costs
        rise = np.where(allowed, rise, np.inf)
        for target in np.argsort(rise, kind="stable")[:_TRIES].tolist():
            if rise[target] == np.inf:
                return None
            if problem.accepts(self._checker, pod, target):
                return int(target)
        return None
