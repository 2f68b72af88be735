"""Where the movable pods are at some point of a search, template by template.

Pods of one template are interchangeable. A pod that goes where another of its template left is no
move, so moves are counted as what nodes have more of a template than at the start.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rescheduler.model.snapshot import NO_NODE, Bools, Floats, Ints
from rescheduler.planning.feasibility.checker import FeasibilityChecker
from rescheduler.planning.problem.allowances import Allowances
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.node_totals import NodeTotals
from rescheduler.planning.search.steps import SearchStep


class Shift(NamedTuple):
    """A pod of the template goes from a node, or from nowhere, to another."""

    template: int
    source: int
    target: int

    def back(self) -> "Shift":
        """The same the other way."""
        return Shift(self.template, self.target, self.source)


class Assignment:
    """Which pods are where: groups, what nodes hold, and how far that is from the start."""

    def __init__(self, problem: Problem, checker: FeasibilityChecker) -> None:
        self.problem = problem
        self.checker = checker
        self.totals = NodeTotals(problem.load, problem.objective, problem.movable_on)
        self.conflicts = problem.conflicts.copy()
        nodes = len(problem.snapshot.nodes)
        self.now: list[dict[int, int]] = [{} for _ in range(nodes)]
        self.start: list[dict[int, int]] = [{} for _ in range(nodes)]
        self.vacant: defaultdict[int, dict[int, int]] = defaultdict(dict)
        """For each template, nodes that have fewer of it than at the start, and how many."""
        self._pods: dict[tuple[int, int], list[int]] = {}
        self._slot_of: dict[tuple[int, int], int] = {}
        self.moves = 0
        self.move_cost = 0.0
        self.moved_of: Ints = np.zeros(len(problem.snapshot.templates), np.int32)
        self.allowances = Allowances(problem)
        self._count = 0
        self.template: Ints = np.empty(len(problem.groups) + 64, np.int32)
        self.node: Ints = np.empty(len(problem.groups) + 64, np.int32)
        self._surplus: Bools = np.zeros(len(problem.groups) + 64, bool)
        self._fill()
        self.journal: list[Shift] = []

    def _fill(self) -> None:
        groups = self.problem.groups
        for group, (template, node, first, count) in enumerate(
            zip(
                groups.template.tolist(),
                groups.node.tolist(),
                groups.first.tolist(),
                groups.count.tolist(),
                strict=True,
            )
        ):
            self.now[node][template] = self.start[node][template] = count
            # The first to go is taken from the end.
            self._pods[template, node] = groups.pods[first : first + count][::-1].tolist()
            self._slot_of[template, node] = group
        self._count = len(groups)
        self.template[: self._count], self.node[: self._count] = groups.template, groups.node

    def __len__(self) -> int:
        return self._count

    @property
    def templates(self) -> Ints:
        """The template of each group."""
        return self.template[: self._count]

    @property
    def nodes(self) -> Ints:
        """The node of each group."""
        return self.node[: self._count]

    def shift(self, shift: Shift) -> None:
        """Let a pod go from one node to another."""
        template, source, target = shift
        pods = self._pods[template, source]
        pod = pods.pop()
        self._pods.setdefault((template, target), []).append(pod)
        self.checker.place_regardless_of_room(pod, source, target)
        if source != NO_NODE:
            self._leave(template, source)
        if target != NO_NODE:
            self._come(template, target)
        self.journal.append(shift)

    def rewind(self, length: int) -> None:
        """Take back what was done since the journal had this length."""
        while len(self.journal) > length:
            self.shift(self.journal.pop().back())
            self.journal.pop()

    def try_shifts(self, shifts: Sequence[Shift]) -> bool:
        """Make these shifts together if every plugin accepts the outcome, else none of them."""
        if not any(self.checker.depends_beyond_node[template] for template, _, _ in shifts):
            # The search has compared everything that counts for them.
            for shift in shifts:
                self.shift(shift)
            return True
        before = len(self.journal)
        for template, source, _ in shifts:
            self.shift(Shift(template, source, NO_NODE))
        for template, _, target in shifts:
            if target != NO_NODE:
                if self.checker.depends_beyond_node[template]:
                    refused = self.checker.refused_regardless_of_room(template)
                    if refused is not None and refused[target]:
                        self.rewind(before)
                        return False
                self.shift(Shift(template, NO_NODE, target))
        return True

    def _leave(self, template: int, node: int) -> None:
        here, at_start = self.now[node], self.start[node].get(template, 0)
        count = here[template]
        if count > at_start:
            self._count_move(template, node, -1)
        else:
            self.vacant[template][node] = at_start - count + 1
            self.allowances.count_on_node(node, 1)
        if count == 1:
            del here[template]
            self._drop_group(template, node)
        else:
            here[template] = count - 1
        self._change(template, node, -1)

    def _come(self, template: int, node: int) -> None:
        here, at_start = self.now[node], self.start[node].get(template, 0)
        count = here.get(template, 0)
        if count >= at_start:
            self._count_move(template, node, 1)
        else:
            self.allowances.count_on_node(node, -1)
            if at_start - count == 1:
                del self.vacant[template][node]
            else:
                self.vacant[template][node] = at_start - count - 1
        here[template] = count + 1
        if count == 0:
            self._add_group(template, node)
        self._change(template, node, 1)

    def _count_move(self, template: int, node: int, count: int) -> None:
        self.moves += count
        self.moved_of[template] += count
        self.allowances.count_on_node(node, count)
        self.allowances.count_move(template, count)
        self.move_cost += count * float(self.problem.move_prices[template])

    def _change(self, template: int, node: int, count: int) -> None:
        self.totals.add(template, node, count)
        self.conflicts.add(template, node, count)
        slot = self._slot_of.get((template, node))
        if slot is not None:
            more = self.now[node][template] > self.start[node].get(template, 0)
            self._surplus[slot] = more

    def _add_group(self, template: int, node: int) -> None:
        if self._count == len(self.template):
            self.template = np.concatenate([self.template, np.empty_like(self.template)])
            self.node = np.concatenate([self.node, np.empty_like(self.node)])
            self._surplus = np.concatenate([self._surplus, np.zeros_like(self._surplus)])
        self.template[self._count], self.node[self._count] = template, node
        self._slot_of[template, node] = self._count
        self._count += 1

    def _drop_group(self, template: int, node: int) -> None:
        slot = self._slot_of.pop((template, node))
        self._count -= 1
        if slot != self._count:
            last = int(self.template[self._count]), int(self.node[self._count])
            self.template[slot], self.node[slot] = last
            self._surplus[slot] = self._surplus[self._count]
            self._slot_of[last] = slot

    @property
    def surpluses(self) -> Bools:
        """Groups that have more pods than at the start: one that leaves is a move less."""
        return self._surplus[: self._count]

    def is_allowed(self) -> bool:
        """Whether all limits on moves are kept."""
        return self.moves <= self.problem.max_moves and self.allowances.are_kept()

    def value(self) -> float:
        """What this assignment costs: the nodes, broken rules, and the moves it takes."""
        violations = float(self.gains_of_leaving(self.templates, self.nodes).sum())
        return float(self.totals.costs.sum()) + violations + self.move_cost

    def gains_of_leaving(self, templates: Ints, nodes: Ints) -> Floats:
        """What leaving would resolve: rules that a pod of each template breaks on its node."""
        gains = np.zeros(len(templates))
        for term in self.problem.violation_terms:
            gains += term.gains_of_leaving(templates, nodes, self.conflicts)
        return gains

    def apply(self, steps: Sequence[SearchStep]) -> None:
        """Let these pods go where their steps lead."""
        for pod, source, target in steps:
            self.shift(Shift(int(self.problem.snapshot.pods.template[pod]), source, target))

    def steps(self) -> list[SearchStep]:
        """Which pods have to go where. Pods of a template take each other's place."""
        steps: list[SearchStep] = []
        for template in np.flatnonzero(self.moved_of).tolist():
            going = [
                (pod, node)
                for node, count in self.vacant[template].items()
                for pod in self._first_to_go(template, node, count)
            ]
            coming = [
                node
                for node in self._nodes_with(template)
                for _ in range(self.now[node][template] - self.start[node].get(template, 0))
            ]
            steps += [
                SearchStep(pod, source, target)
                for (pod, source), target in zip(going, coming, strict=True)
            ]
        return steps

    def _nodes_with(self, template: int) -> list[int]:
        return [int(node) for node in np.sort(self.nodes[self.templates == template])]

    def _first_to_go(self, template: int, node: int, count: int) -> list[int]:
        groups = self.problem.groups
        of_node = groups.of_node(node)
        group = of_node.start + int(np.searchsorted(groups.template[of_node], template))
        first = int(groups.first[group])
        return [int(pod) for pod in groups.pods[first : first + count]]
