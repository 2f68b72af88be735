"""What steps change on the nodes that they leave and come to, for all steps at once."""

from collections.abc import Sequence

import numpy as np

from rescheduler.model.snapshot import Floats
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.steps import SearchStep


class StepChanges:
    """Follows what nodes hold, step by step: rows of steps, in their order."""

    def __init__(self, problem: Problem, steps: Sequence[SearchStep]) -> None:
        pods, sources, targets = np.array(steps, np.int32).reshape(-1, 3).T
        templates = problem.snapshot.pods.template[pods]
        # Pods leave and come in turn: the two ends of a step are one after the other.
        nodes = np.column_stack([sources, targets]).ravel()
        signs = np.tile(np.array([-1, 1], np.int32), len(pods))
        amounts = problem.load.demand[:, np.repeat(templates, 2)] * signs
        self._nodes = nodes
        self._order = np.argsort(nodes, kind="stable")
        used = problem.load.used[:, nodes] + self._earlier(amounts)
        movable = problem.movable_on[nodes] + self._earlier(signs[None, :].astype(np.float64))[0]
        movable = movable.astype(np.int32)
        cost = problem.objective.stated_cost
        falls = cost(nodes, used, movable) - cost(nodes, used + amounts, movable + signs)
        self.gains: list[float] = falls.reshape(-1, 2).sum(axis=1).tolist()
        """By how much the two nodes of each step cost less after it."""
        loads = problem.load.loads_of(targets, used[:, 1::2])
        self.loads_before: list[float] = loads.tolist()
        """How loaded the target of each step is before it."""
        loads = problem.load.loads_of(targets, (used + amounts)[:, 1::2])
        self.loads_after: list[float] = loads.tolist()

    def _earlier(self, amounts: Floats) -> Floats:
        """For each end of a step, what earlier ones have added up to on its node."""
        by_node, nodes = amounts[:, self._order], self._nodes[self._order]
        before = np.cumsum(by_node, axis=1) - by_node
        before -= before[:, np.searchsorted(nodes, nodes)]
        earlier = np.empty_like(amounts)
        earlier[:, self._order] = before
        return earlier
