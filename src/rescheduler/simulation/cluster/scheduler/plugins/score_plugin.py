"""The interface of score plugins: a score from 0 to 100 for each feasible node."""

from typing import Protocol

import numpy as np
import numpy.typing as npt

from rescheduler.model.snapshot import Int64s

MAX_SCORE = 100
"""The highest score of a plugin."""

Nodes = npt.NDArray[np.int64]
"""Rows of the feasible nodes."""


class ScorePlugin(Protocol):
    """A score plugin of kube-scheduler."""

    name: str
    """The plugin's name, as the scheduler's configuration has it."""
    weight: int
    """The weight of its score in the sum."""

    def score(self, template: int, nodes: Nodes) -> Int64s | None:
        """The score of each node for a pod of this template; None to skip it."""


def default_normalize_score(raw: Int64s, reverse: bool = False) -> Int64s:
    """Raw counts scaled to 0 to 100; with `reverse`, the highest count scores 0."""
    highest = int(raw.max(initial=0))
    if highest == 0:
        return np.full(len(raw), MAX_SCORE if reverse else 0, np.int64)
    scores = MAX_SCORE * raw // highest
    return np.asarray(MAX_SCORE - scores if reverse else scores)
