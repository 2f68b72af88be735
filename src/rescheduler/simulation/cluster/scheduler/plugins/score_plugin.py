"""What score plugins have in common: points from 0 to 100 for each node that would do."""

from typing import Protocol

import numpy as np
import numpy.typing as npt

from rescheduler.model.snapshot import Amounts

MAX_SCORE = 100
"""The points of the best node."""

Nodes = npt.NDArray[np.int64]
"""Rows of the nodes that would take the pod."""


class ScorePlugin(Protocol):
    """A plugin of the scheduler: says how well a pod of some template would do on each node."""

    name: str
    """The plugin's name, as the scheduler's configuration has it."""
    weight: int
    """How much its points count beside those of the others."""

    def points(self, template: int, nodes: Nodes) -> Amounts | None:
        """Points for each of the nodes; None if the plugin has nothing to say."""


def default_normalize_score(raw: Amounts, reverse: bool = False) -> Amounts:
    """Counts turned into points by their share of the highest; with `reverse` that gets none."""
    highest = int(raw.max(initial=0))
    if highest == 0:
        return np.full(len(raw), MAX_SCORE if reverse else 0, np.int64)
    points = MAX_SCORE * raw // highest
    return np.asarray(MAX_SCORE - points if reverse else points)
