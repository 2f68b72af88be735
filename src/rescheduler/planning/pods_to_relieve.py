"""Pods that should leave their nodes for their own sake: by a rule that they break, or a wish.

Nodes that pods should leave, whichever pods those are, are known by what they hold. The pods here
are reported besides, with what keeps them where they are.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rescheduler.model.snapshot import Bools, Floats, Ints
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.problem.remaining_violations import RemainingViolations

# Templates on a node; what is wanted most comes first. Nobody reads more.
_MOST_LISTED = 100
_NOTHING = 1e-9


class PodToRelieve(NamedTuple):
    """A pod that should leave its node, and the strategy that wants it."""

    pod: int
    node: int
    strategy: str
    gain: float
    """What is gained if it leaves; 1 is about a node."""


class PodsToRelieve:
    """Looks at the pods of a plan that stay, on nodes that nobody is to leave for other reasons."""

    def __init__(
        self, problem: Problem, violations: RemainingViolations, moved: set[int], known: Bools
    ) -> None:
        """`known`: nodes whose pods are not asked for. What follows the plan is at its end."""
        self._problem = problem
        self._violations = violations
        pods = problem.snapshot.pods
        stays = pods.placed & ~pods.deleting
        stays[list(moved)] = False
        rows = np.flatnonzero(stays)
        self._rows = rows[~known[pods.node[rows]]]
        acting = {strategy.name for strategy in problem.objective.strategies}
        self._terms = [term for term in problem.pod_terms if term.strategy in acting]

    def __iter__(self) -> Iterator[PodToRelieve]:
        if not self._terms and not self._problem.rule_terms:
            return
        pods, nodes = self._problem.snapshot.pods, len(self._problem.snapshot.nodes)
        places = pods.template[self._rows].astype(np.int64) * nodes + pods.node[self._rows]
        kinds, kind_of = np.unique(places, return_inverse=True)
        templates, nodes_of = (kinds // nodes).astype(np.int32), (kinds % nodes).astype(np.int32)
        wanted = [*self._broken(templates, nodes_of), *self._wished(templates, nodes_of)]
        wanted.sort(key=lambda found: -found[1])
        seen: set[int] = set()
        for kind, gain, strategy in wanted[:_MOST_LISTED]:
            if kind not in seen:
                seen.add(kind)
                for pod in self._rows[kind_of == kind].tolist():
                    yield PodToRelieve(pod, int(nodes_of[kind]), strategy, gain)
        yield from self._suspected()

    def _broken(self, templates: Ints, nodes: Ints) -> Iterator[tuple[int, float, str]]:
        """Pods that break a rule on their node: which, what is gained, and the strategy."""
        for term in self._problem.rule_terms:
            conflicts = self._violations.conflicts or self._problem.conflicts
            yield from _largest(term.gains_of_leaving(templates, nodes, conflicts), term.strategy)

    def _wished(self, templates: Ints, nodes: Ints) -> Iterator[tuple[int, float, str]]:
        for term in self._terms:
            for kind, _, strategy in _largest(term.gain_bounds(templates, nodes), term.strategy):
                gain = term.gain_of_leaving(int(templates[kind]), int(nodes[kind]))
                if gain > _NOTHING:
                    yield kind, gain, strategy

    def _suspected(self) -> Iterator[PodToRelieve]:
        """Pods that break a rule which reaches beyond their node."""
        pods = self._problem.snapshot.pods
        suspected = self._violations.suspected_pods
        for pod in self._rows[np.isin(self._rows, list(suspected))][:_MOST_LISTED].tolist():
            template, node = int(pods.template[pod]), int(pods.node[pod])
            term = self._violations.broken_by(pod, template, node)
            if term is not None:
                yield PodToRelieve(pod, node, term.strategy, term.suspect_gain)


def _largest(gains: Floats, strategy: str) -> Iterator[tuple[int, float, str]]:
    found: npt.NDArray[np.int64] = np.flatnonzero(gains > _NOTHING)
    for kind in found[np.argsort(-gains[found], kind="stable")][:_MOST_LISTED].tolist():
        yield kind, float(gains[kind]), strategy
