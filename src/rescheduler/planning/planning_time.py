"""How much of the time for a plan is over, and what there is still time for."""

from collections.abc import Callable

# Until when columns are generated, searches look for moves, and what was found is still chosen
# from.
_GENERATING, _SEARCHING, _CHOOSING = 0.5, 0.7, 0.8
# Until when columns are generated if a plan may have more moves than that: it takes long to bring
# them into order.
_MANY_MOVES, _GENERATING_FOR_MANY = 20_000, 0.3
# Until when single moves are looked for if there are hardly any yet. To prepare for a large cluster
# may take long, and what follows is quick.
_FIRST_MOVES = 0.9
# Until when it is looked into why other pods stay.
_EXPLAINING = 0.9
# When moves should be in words. Some take a little longer to explain than others.
_IN_WORDS = 0.85


class PlanningTime:
    """Is asked now and then; what has begun by then is finished in a short time."""

    def __init__(self, used: Callable[[], float]) -> None:
        """`used` returns which share of `planningTimeout` is over; 1 is all of it."""
        self._used = used

    def is_over_for_columns(self, most_moves: int) -> bool:
        """Whether to choose from the columns that there are, for so many moves at most."""
        return self._used() >= (_GENERATING if most_moves <= _MANY_MOVES else _GENERATING_FOR_MANY)

    def is_over_for_search(self) -> bool:
        """Whether to be content with the moves that were found."""
        return self._used() >= _SEARCHING

    def is_over_for_first_moves(self) -> bool:
        """Whether to be content even if hardly any move was found."""
        return self._used() >= _FIRST_MOVES

    def is_over_for_choosing(self) -> bool:
        """Whether to give up a choice that has begun."""
        return self._used() >= _CHOOSING

    def for_ordering(self) -> "OrderingTime":
        """How long moves may be brought into order."""
        return OrderingTime(self._used)

    def is_over_for_explaining(self) -> bool:
        """Whether to say of no more pods why they stay."""
        return self._used() >= _EXPLAINING


class OrderingTime:
    """Half of the time that is left: it takes about as long again to put moves into words."""

    def __init__(self, used: Callable[[], float]) -> None:
        self._used = used
        self.begin()

    def begin(self) -> None:
        """Other moves are brought into order from now on."""
        self._end = (self._used() + _IN_WORDS) / 2

    def is_over(self) -> bool:
        """Whether to leave out the moves that are not in order yet."""
        return self._used() >= self._end
