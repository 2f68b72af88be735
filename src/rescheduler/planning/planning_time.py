"""How much of the time for a plan is over, and what there is still time for."""

from collections.abc import Callable

# Until when columns are generated, searches look for moves, and what was found is still chosen
# from; the rest is for bringing moves into order and putting them into words. A packing in half its
# order gains nothing: so that may take a little longer.
_GENERATING, _SEARCHING, _CHOOSING, _ORDERING = 0.4, 0.6, 0.8, 1.2
# Until when single moves are looked for if there are hardly any yet. To prepare for a large cluster
# may take long, and what follows is quick.
_FIRST_MOVES = 0.9
# Until when it is looked into why other pods stay.
_EXPLAINING = 0.9


class PlanningTime:
    """Is asked now and then; what has begun by then is finished in a short time."""

    def __init__(self, used: Callable[[], float]) -> None:
        """`used` returns which share of `planningTimeout` is over; 1 is all of it."""
        self._used = used

    def is_over_for_columns(self) -> bool:
        """Whether to choose from the columns that there are."""
        return self._used() >= _GENERATING

    def is_over_for_search(self) -> bool:
        """Whether to be content with the moves that were found."""
        return self._used() >= _SEARCHING

    def is_over_for_first_moves(self) -> bool:
        """Whether to be content even if hardly any move was found."""
        return self._used() >= _FIRST_MOVES

    def is_over_for_choosing(self) -> bool:
        """Whether to give up a choice that has begun."""
        return self._used() >= _CHOOSING

    def is_over_for_ordering(self) -> bool:
        """Whether to leave out the moves that are not in order yet."""
        return self._used() >= _ORDERING

    def is_over_for_explaining(self) -> bool:
        """Whether to say of no more pods why they stay."""
        return self._used() >= _EXPLAINING
