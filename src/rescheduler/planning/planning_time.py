"""How much of the time for a plan is over, and what there is still time for."""

from collections.abc import Callable

# Until when columns are generated, searches look for moves, and moves are brought into order. The
# rest is for putting the plan into words.
_GENERATING, _SEARCHING, _ORDERING = 0.45, 0.6, 0.88


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

    def is_over_for_ordering(self) -> bool:
        """Whether to leave out the moves that are not in order yet."""
        return self._used() >= _ORDERING
