"""Scores nodes for a pod, from 0 to 10. Pure."""

import numpy as np
import numpy.typing as npt

from rescheduler.extender.live_node_loads import CandidateNodes, load
from rescheduler.extender.protocol import HIGHEST_SCORE
from rescheduler.model.snapshot import Floats
from rescheduler.settings import ScoreWeights

Scores = npt.NDArray[np.int64]

NARROWEST_SCALE = 0.1
"""The smallest difference that all ten points may stand for: ten percentage points of a node."""
HIGHEST_SCORE_OF_OTHERS = 5
"""The most that other nodes get when a migration has planned one."""


def node_scores(
    nodes: CandidateNodes,
    requests: Floats,
    weights: ScoreWeights,
    mean_load: float,
    target: int | None,
) -> Scores:
    """The score of each node. One that we cannot measure gets 0, as if we had not been asked.

    Ten points are few, so the scale is stretched from the worst node to the best. But not over
    less than ten percentage points: nodes that are nearly alike get nearly the same score, and
    leave the choice to the scheduler's own scores. A planned `target` gets the most, others at
    most half.
    """
    quality = node_quality(nodes, requests, weights, mean_load)
    scores = np.zeros(len(quality), np.int64)
    measurable = nodes.measurable
    if measurable.any():
        best, worst = quality[measurable].max(), quality[measurable].min()
        behind = (best - quality) / max(best - worst, NARROWEST_SCALE)
        scores[measurable] = np.rint(HIGHEST_SCORE * (1 - behind[measurable])).astype(np.int64)
    if target is not None:
        scores = scores * HIGHEST_SCORE_OF_OTHERS // HIGHEST_SCORE
        scores[target] = HIGHEST_SCORE
    return scores


def node_quality(
    nodes: CandidateNodes, requests: Floats, weights: ScoreWeights, mean_load: float
) -> Floats:
    """How good each node is for a pod, in shares of a node: what is left, and how it evens out.

    A pod evens out by as much as its node is closer to the mean load with it than without.
    """
    after = np.minimum(nodes.utilization(requests), 1.0)
    before = np.minimum(nodes.utilization(np.zeros_like(requests)), 1.0)
    closer = np.abs(load(before) - mean_load) - np.abs(load(after) - mean_load)
    cpu, memory, balance = weights.cpu, weights.memory, weights.balance
    quality = cpu * (1 - after[0]) + memory * (1 - after[1]) + balance * closer
    return np.asarray(quality / (cpu + memory + balance))
