"""How good a place each node is for a pod, from 0 to 10. Pure."""

import numpy as np
import numpy.typing as npt

from rescheduler.extender.node_loads import Candidates, load
from rescheduler.extender.protocol import HIGHEST_SCORE
from rescheduler.model.snapshot import Floats
from rescheduler.settings import ScoreWeights

Scores = npt.NDArray[np.int64]

NARROWEST_SCALE = 0.1
"""What all points are worth at least, as a share of a node: ten percentage points."""
BESIDE_A_TARGET = 5
"""The most that other nodes get when a migration has planned one."""


def scores(
    nodes: Candidates,
    demand: Floats,
    weights: ScoreWeights,
    mean_load: float,
    target: int | None,
) -> Scores:
    """Points for each node. One that we cannot measure gets none, as if we had not been asked.

    Ten points are few, so the scale is stretched from the worst node to the best. But not over
    less than ten percentage points: nodes that are nearly alike get nearly the same, and leave
    the choice to the scheduler's own scores. A planned `target` gets the most, others at most
    half.
    """
    worth = worth_of(nodes, demand, weights, mean_load)
    made = np.zeros(len(worth), np.int64)
    measurable = nodes.measurable
    if measurable.any():
        best, worst = worth[measurable].max(), worth[measurable].min()
        behind = (best - worth) / max(best - worst, NARROWEST_SCALE)
        made[measurable] = np.rint(HIGHEST_SCORE * (1 - behind[measurable])).astype(np.int64)
    if target is not None:
        made = made * BESIDE_A_TARGET // HIGHEST_SCORE
        made[target] = HIGHEST_SCORE
    return made


def worth_of(nodes: Candidates, demand: Floats, weights: ScoreWeights, mean_load: float) -> Floats:
    """How good each node is, in shares of a node: what is left of it, and how it evens out.

    A pod evens out by as much as its node is closer to the mean with it than without.
    """
    after = np.minimum(nodes.utilization(demand), 1.0)
    before = np.minimum(nodes.utilization(np.zeros_like(demand)), 1.0)
    closer = np.abs(load(before) - mean_load) - np.abs(load(after) - mean_load)
    cpu, memory, balance = weights.cpu, weights.memory, weights.balance
    worth = cpu * (1 - after[0]) + memory * (1 - after[1]) + balance * closer
    return np.asarray(worth / (cpu + memory + balance))
