"""Terms of the objective that depend on which pod is where, not only on how much nodes hold."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from rescheduler.model.snapshot import Floats, Ints, Snapshot
from rescheduler.planning.strategies.urgency import Urgency


class PodTerm(ABC):
    """What a strategy wants of single pods, kept up to date as the search moves them.

    Pods of one template are interchangeable, so all questions are about templates. Whoever moves
    pods calls `moved` for each of them, also when they go back.
    """

    urgency: ClassVar[Urgency] = Urgency.IMPROVEMENT
    """If a pod gains by several terms, the most urgent one is the reason for its move."""
    strategy = ""
    """The name of the strategy that wants it; set by the planner."""

    @abstractmethod
    def total(self) -> float:
        """What it costs that all pods are where they are at the start."""

    def is_active(self) -> bool:
        """Whether there is anything to gain at the start.

        If not, the strategy does not act for it, but what would cost something later counts.
        """
        return self.total() > 0

    def gain_bounds(self, templates: Ints, nodes: Ints) -> Floats:
        """What is gained at most if a pod of each of these templates leaves its node."""
        pods = zip(templates.tolist(), nodes.tolist(), strict=True)
        return np.array([self.gain_of_leaving(template, node) for template, node in pods])

    @abstractmethod
    def gain_of_leaving(self, template: int, node: int) -> float:
        """What is gained if such a pod leaves the node; negative if it is missed there."""

    def arrival_costs(self, template: int, source: int) -> Floats | None:
        """What it costs, on each node, if such a pod comes there from the source.

        None if it costs nothing anywhere.
        """
        return None

    def arrival_cost(self, template: int, source: int, target: int) -> float:
        """What it costs if such a pod comes from the source to this one node."""
        costs = self.arrival_costs(template, source)
        return 0.0 if costs is None else float(costs[target])

    def moved(self, template: int, source: int, target: int) -> set[int]:
        """A pod has moved. Returns nodes whose pods now gain more or less by leaving."""
        return set()

    @abstractmethod
    def reason(self, template: int, node: int) -> str:
        """Why such a pod should leave the node, if it gains by leaving."""

    def change(self, moves: Iterable[tuple[int, int, int]]) -> float:
        """By how much these moves of a template from a node to another raise the cost.

        The term itself is as before afterwards.
        """
        moves = list(moves)
        change = 0.0
        for template, source, target in moves:
            change += self.arrival_cost(template, source, target)
            change -= self.gain_of_leaving(template, source)
            self.moved(template, source, target)
        for template, source, target in reversed(moves):
            self.moved(template, target, source)
        return change


class NodePreferenceTerm(PodTerm):
    """A term for pods that prefer some nodes to others, wherever other pods are."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._costs: dict[int, Floats | None] = {}

    @abstractmethod
    def node_costs(self, template: int) -> Floats | None:
        """What it costs, on each node, that such a pod is there; None if nothing anywhere."""

    def _known_costs(self, template: int) -> Floats | None:
        if template not in self._costs:
            self._costs[template] = self.node_costs(template)
        return self._costs[template]

    def total(self) -> float:
        pods = self.snapshot.pods
        rows = np.flatnonzero(pods.placed)
        return float(self.gain_bounds(pods.template[rows], pods.node[rows]).sum())

    def gain_bounds(self, templates: Ints, nodes: Ints) -> Floats:
        bounds = np.zeros(len(templates))
        for template in np.unique(templates).tolist():
            costs = self._known_costs(template)
            if costs is not None:
                chosen = templates == template
                bounds[chosen] = costs[nodes[chosen]]
        return bounds

    def gain_of_leaving(self, template: int, node: int) -> float:
        costs = self._known_costs(template)
        return 0.0 if costs is None else float(costs[node])

    def arrival_costs(self, template: int, source: int) -> Floats | None:
        return self._known_costs(template)
