"""Random choices with a seed, in the few shapes that the generators need."""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw(random.Random):
    """The same seed gives the same choices, on every machine."""

    def chance(self, probability: float) -> bool:
        """True this often."""
        return self.random() < probability

    def one(self, options: Sequence[T]) -> T:
        """Any of the options."""
        return options[self.randrange(len(options))]

    def some(self, options: Sequence[T], least: int = 1, most: int = 2) -> list[T]:
        """Between `least` and `most` different options, in any order."""
        return self.sample(options, min(self.randint(least, most), len(options)))
