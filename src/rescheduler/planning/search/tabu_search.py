"""Tabu search: moves and swaps, some of them steps back, towards the best assignment in the limit.

Each iteration makes the best change there is, even if it is for the worse. What was changed is not
changed back for some iterations, so the search climbs out of a local optimum instead of falling
back into it. A move has a price, which rises while there are more moves than allowed and falls
while there are fewer: a hard limit would leave no room to climb.
"""

from collections import defaultdict
from collections.abc import Callable

import numpy as np

from rescheduler.planning.search.assignment import Assignment, Shift
from rescheduler.planning.search.best_plan import BestPlan
from rescheduler.planning.search.neighbourhood import Neighbour, Neighbourhood

# Changes looked at in an iteration, in case the best are not allowed.
_CONSIDERED = 24
# A node left is not returned to for so many iterations, at least and, in a phase, at most.
_SHORTEST_TABU, _LONGEST_TABUS = 3, (8, 12, 24)
# How strongly searches are nudged where the objective is flat, in a phase.
_NUDGES = (0.0, 1.0, 1.0, 4.0)
# A phase goes on from where the last one ended, from the best plan so far, or from the start.
_GO_ON, _FROM_BEST, _FROM_START = range(3)
_STARTS = (_GO_ON, _GO_ON, _FROM_BEST, _FROM_START)
# Random changes at a new start, at most.
_MOST_KICKS = 6
# After so many iterations, or as many as there are nodes, the price of a move is set again, and
# every change is computed again.
_ITERATIONS_PER_PHASE = 40
_RAISED, _LOWERED = 1.6, 0.75
_HIGHEST_FACTOR = 1e7


class TabuSearch:
    """Improves an assignment, iteration by iteration."""

    def __init__(
        self,
        assignment: Assignment,
        best_plan: BestPlan,
        seed: int,
        out_of_time: Callable[[], bool],
    ) -> None:
        self._problem = assignment.problem
        self._assignment = assignment
        self._best_plan = best_plan
        self._neighbourhood = Neighbourhood(assignment)
        self._random = np.random.default_rng(seed)
        self._out_of_time = out_of_time
        self._expiring: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        self._refused: set[tuple[Shift, ...]] = set()
        self._longest_tabu = _LONGEST_TABUS[0]
        self._factor = 1.0
        self._phase = 0
        self._iteration = 0

    def run(self, iterations: int) -> None:
        """Search for so many iterations, offering what is good on the way."""
        while self._iteration < iterations and not self._out_of_time():
            self._start_phase()
            self._run_phase(iterations)
        self._best_plan.offer(self._assignment)

    def _start_phase(self) -> None:
        """Set the price and the parameters of a phase: every one searches a little differently."""
        self._phase += 1
        if self._phase > 1:
            self._factor = self._next_factor()
        self._longest_tabu = int(self._random.choice(_LONGEST_TABUS))
        self._neighbourhood.direct_swaps_only = bool(self._random.random() < 0.5)
        nudge = float(self._random.choice(_NUDGES)) if self._phase > 1 else 1.0
        start = int(self._random.choice(_STARTS)) if self._phase > 1 else _GO_ON
        if start != _GO_ON:
            self._assignment.rewind(0)
        if start == _FROM_BEST:
            self._assignment.apply(self._best_plan.steps)
        self._assignment.totals.recomputed_total()
        self._neighbourhood.rebuild(self._factor, nudge)
        self._refused.clear()
        if start != _GO_ON:
            self._kick()

    def _kick(self) -> None:
        """Choose some good changes that are not the best."""
        for _ in range(int(self._random.integers(1, _MOST_KICKS))):
            changes = list(self._neighbourhood.best(_CONSIDERED, self._random))
            if changes:
                change = changes[int(self._random.integers(len(changes)))]
                if self._assignment.try_shifts(change.shifts):
                    self._forbid_return(change)
                    self._neighbourhood.refresh(tuple(sorted(change.nodes())))

    def _next_factor(self) -> float:
        """Higher while there are too many moves. A change must be worth its price in any case."""
        if self._assignment.moves > self._problem.max_moves:
            # A price that decides must be of the size of what is gained.
            least = 0.02 * self._typical_gain() / max(self._problem.objective.move_price, 1e-12)
            return min(max(self._factor * _RAISED, least, 1.0), _HIGHEST_FACTOR)
        return max(1.0, self._factor * _LOWERED)

    def _typical_gain(self) -> float:
        gained = self._problem.start_value - self._best_plan.value
        return max(gained, 0.0) / max(self._problem.max_moves, 1)

    def _run_phase(self, iterations: int) -> None:
        for _ in range(max(_ITERATIONS_PER_PHASE, len(self._assignment.now))):
            self._iteration += 1
            nodes = self._let_return()
            change = self._take_best_change()
            if change is not None:
                nodes |= change.nodes()
                self._forbid_return(change)
            self._neighbourhood.refresh(tuple(sorted(nodes)))
            if self._iteration >= iterations or self._out_of_time():
                break

    def _take_best_change(self) -> Neighbour | None:
        first = True
        for change in self._neighbourhood.best(_CONSIDERED, self._random):
            if first and change.delta > 0:
                # It goes uphill from here.
                self._best_plan.offer(self._assignment)
            first = False
            if change.shifts not in self._refused:
                if self._assignment.try_shifts(change.shifts):
                    return change
                self._refused.add(change.shifts)
        return None

    def _forbid_return(self, change: Neighbour) -> None:
        for template, source, _ in change.shifts:
            pause = int(self._random.integers(_SHORTEST_TABU, self._longest_tabu))
            until = self._iteration + pause
            self._expiring[until].append((template, source))
            self._neighbourhood.forbid(template, source)

    def _let_return(self) -> set[int]:
        """Nodes that pods may return to from now on."""
        expired = self._expiring.pop(self._iteration, [])
        for template, node in expired:
            self._neighbourhood.allow(template, node)
        return {node for _, node in expired}
