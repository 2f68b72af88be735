"""Exchange: moves and swaps, some of them steps back, towards the best state within the limit.

Each turn makes the best change there is, even if it is for the worse. What was changed is not
changed back for some turns, so the search climbs out of a hollow instead of falling back into
it (tabu search). A move has a price, which rises while there are more moves than allowed and falls
while there are fewer: a hard limit would leave no room to climb.
"""

from collections import defaultdict
from collections.abc import Callable

import numpy as np

from rescheduler.planning.search.best_plan import BestPlan
from rescheduler.planning.search.neighbourhood import CandidateChange, Neighbourhood
from rescheduler.planning.search.placement import Placement, Shift

# Changes looked at in a turn, in case the best are not allowed.
_CONSIDERED = 24
# A place left is not returned to for so many turns, at least and, in a phase, at most.
_SHORTEST_TABU, _LONGEST_TABUS = 3, (8, 12, 24)
# How strongly searches are nudged where the objective is flat, in a phase.
_NUDGES = (0.0, 1.0, 1.0, 4.0)
# A phase goes on from where the last one ended, from the best plan so far, or from the start.
_GO_ON, _FROM_BEST, _FROM_START = range(3)
_BEGINNINGS = (_GO_ON, _GO_ON, _FROM_BEST, _FROM_START)
# Changes made by chance at a new beginning, at most.
_MOST_KICKS = 6
# After so many turns, or as many as there are nodes, the price of a move is set anew, and
# everything is looked at afresh.
_TURNS_PER_PHASE = 40
_DEARER, _CHEAPER = 1.6, 0.75
_HIGHEST_FACTOR = 1e7


class Exchange:
    """Improves a placement, turn by turn."""

    def __init__(
        self, placement: Placement, best_plan: BestPlan, seed: int, out_of_time: Callable[[], bool]
    ) -> None:
        self._problem = placement.problem
        self._placement = placement
        self._best_plan = best_plan
        self._neighbourhood = Neighbourhood(placement)
        self._random = np.random.default_rng(seed)
        self._out_of_time = out_of_time
        self._expiring: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        self._refused: set[tuple[Shift, ...]] = set()
        self._longest_tabu = _LONGEST_TABUS[0]
        self._factor = 1.0
        self._phase = 0
        self._turn = 0

    def run(self, turns: int) -> None:
        """Search for so many turns, offering what is good on the way."""
        while self._turn < turns and not self._out_of_time():
            self._start_phase()
            self._run_phase(turns)
        self._best_plan.offer(self._placement)

    def _start_phase(self) -> None:
        """Set the price anew, and how turns are taken: in every phase a little differently."""
        self._phase += 1
        if self._phase > 1:
            self._factor = self._next_factor()
        self._longest_tabu = int(self._random.choice(_LONGEST_TABUS))
        self._neighbourhood.direct_swaps_only = bool(self._random.random() < 0.5)
        nudge = float(self._random.choice(_NUDGES)) if self._phase > 1 else 1.0
        beginning = int(self._random.choice(_BEGINNINGS)) if self._phase > 1 else _GO_ON
        if beginning != _GO_ON:
            self._placement.rewind(0)
        if beginning == _FROM_BEST:
            self._placement.go(self._best_plan.steps)
        self._placement.occupancy.total()
        self._neighbourhood.rebuild(self._factor, nudge)
        self._refused.clear()
        if beginning != _GO_ON:
            self._kick()

    def _kick(self) -> None:
        """Make some good changes that are not the best."""
        for _ in range(int(self._random.integers(1, _MOST_KICKS))):
            changes = list(self._neighbourhood.best(_CONSIDERED, self._random))
            if changes:
                change = changes[int(self._random.integers(len(changes)))]
                if self._placement.accepts(change.shifts):
                    self._forbid_return(change)
                    self._neighbourhood.refresh(tuple(sorted(change.nodes())))

    def _next_factor(self) -> float:
        """Dearer while there are too many moves. A change must be worth its price in any case."""
        if self._placement.moves > self._problem.max_moves:
            # A price that decides must be of the size of what is gained.
            least = 0.02 * self._typical_gain() / max(self._problem.objective.move_price, 1e-12)
            return min(max(self._factor * _DEARER, least, 1.0), _HIGHEST_FACTOR)
        return max(1.0, self._factor * _CHEAPER)

    def _typical_gain(self) -> float:
        gained = self._problem.start_value - self._best_plan.value
        return max(gained, 0.0) / max(self._problem.max_moves, 1)

    def _run_phase(self, turns: int) -> None:
        for _ in range(max(_TURNS_PER_PHASE, len(self._placement.now))):
            self._turn += 1
            nodes = self._let_return()
            change = self._make_best_change()
            if change is not None:
                nodes |= change.nodes()
                self._forbid_return(change)
            self._neighbourhood.refresh(tuple(sorted(nodes)))
            if self._turn >= turns or self._out_of_time():
                break

    def _make_best_change(self) -> CandidateChange | None:
        first = True
        for change in self._neighbourhood.best(_CONSIDERED, self._random):
            if first and change.delta > 0:
                # It goes uphill from here.
                self._best_plan.offer(self._placement)
            first = False
            if change.shifts not in self._refused:
                if self._placement.accepts(change.shifts):
                    return change
                self._refused.add(change.shifts)
        return None

    def _forbid_return(self, change: CandidateChange) -> None:
        for template, source, _ in change.shifts:
            pause = int(self._random.integers(_SHORTEST_TABU, self._longest_tabu))
            until = self._turn + pause
            self._expiring[until].append((template, source))
            self._neighbourhood.forbid(template, source)

    def _let_return(self) -> set[int]:
        """Nodes that pods may return to from now on."""
        expired = self._expiring.pop(self._turn, [])
        for template, node in expired:
            self._neighbourhood.allow(template, node)
        return {node for _, node in expired}
