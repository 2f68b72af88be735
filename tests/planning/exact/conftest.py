"""A table at the end of the test run: how close plans come to the optimum."""

from collections.abc import Callable, Iterator

import pytest

from tests.planning.exact.comparison import Compared, table


@pytest.fixture(scope="module")
def everything_compared(say_at_the_end: Callable[[str], None]) -> Iterator[list[Compared]]:
    """What goes into the table."""
    compared: list[Compared] = []
    yield compared
    if compared:
        say_at_the_end("Plans beside the exact optimum:")
        for line in table(compared):
            say_at_the_end(line)
