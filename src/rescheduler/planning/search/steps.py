"""What searches return."""

from typing import NamedTuple


class SearchStep(NamedTuple):
    """A pod goes to a node."""

    pod: int
    source: int
    target: int
