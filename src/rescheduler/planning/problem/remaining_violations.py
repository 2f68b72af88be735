"""The rules that pods still break while a search or a plan moves them, move by move."""

from collections import defaultdict
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rescheduler.model.snapshot import Floats, Ints
from rescheduler.planning.feasibility.node_conflicts import NodeConflicts
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.strategies.violation_term import ViolationTerm


class RemainingViolations:
    """Follows moves, beginning with the pods as they are at the start of a plan."""

    def __init__(self, problem: Problem) -> None:
        self._checker = problem.checker if problem.violation_terms else None
        self._groups = problem.groups
        self._terms = problem.violation_terms
        nothing = np.zeros(len(problem.groups), bool)
        found = [term.suspects() for term in self._terms]
        self._suspects = [nothing if suspects is None else suspects.copy() for suspects in found]
        self._conflicts = problem.conflicts.copy() if self._terms else None

    @property
    def conflicts(self) -> NodeConflicts | None:
        """Pods that must not share a node, as they are now; None if no rule was broken."""
        return self._conflicts

    def on_nodes(self, templates: Ints, nodes: Ints) -> Floats:
        """What leaving gains a pod of each of these templates, by violations on its node alone."""
        gains = np.zeros(len(templates))
        if self._conflicts is not None:
            for term in self._terms:
                gains += term.gains_of_leaving(templates, nodes, self._conflicts)
        return gains

    def gains_by_strategy(self, template: int, node: int) -> dict[str, float]:
        """What leaving its node gains a pod, as far as violations on the node alone go."""
        gains: defaultdict[str, float] = defaultdict(float)
        if self._conflicts is not None:
            one, here = np.array([template], np.int32), np.array([node], np.int32)
            for term in self._terms:
                gains[term.strategy] += float(term.gains_of_leaving(one, here, self._conflicts)[0])
        return dict(gains)

    def suspected(self, groups: npt.NDArray[np.int64]) -> Floats:
        """What leaving gains a pod of each of these groups in addition, if suspicions are true."""
        gains = np.zeros(len(groups))
        for term, suspects in zip(self._terms, self._suspects, strict=True):
            gains += term.suspect_gain * suspects[groups]
        return gains

    def clear_suspicion(self, group: int, pod: int) -> bool:
        """Whether a pod of a suspected group breaks its rule no more: another one has resolved it.

        The group is then no longer suspected.
        """
        is_cleared = False
        for term, suspects in zip(self._terms, self._suspects, strict=True):
            if suspects[group] and not self._is_violated(term, pod):
                suspects[group] = False
                is_cleared = True
        return is_cleared

    def moved(self, template: int, source: int, target: int) -> None:
        """A pod has moved."""
        if self._conflicts is not None:
            self._conflicts.add(template, source, -1)
            self._conflicts.add(template, target, 1)

    # ------------------------------------------------------------ one pod, for people

    def broken_by(self, pod: int, template: int, node: int) -> ViolationTerm | None:
        """The term of a rule that the pod breaks on its node now."""
        if self._conflicts is None:
            return None
        one, here = np.array([template], np.int32), np.array([node], np.int32)
        for term, suspected in zip(self._terms, self._suspected_pods, strict=True):
            if term.gains_of_leaving(one, here, self._conflicts)[0] > 0:
                return term
            if pod in suspected and self._is_violated(term, pod):
                return term
        return None

    @property
    def suspected_pods(self) -> set[int]:
        """Pods that broke a rule at the start which reaches beyond their node."""
        return set().union(*self._suspected_pods)

    @cached_property
    def _suspected_pods(self) -> list[set[int]]:
        return [
            {pod for group in np.flatnonzero(suspects) for pod in self._groups.pods_of(int(group))}
            for suspects in self._suspects
        ]

    def _is_violated(self, term: ViolationTerm, pod: int) -> bool:
        assert self._checker is not None, "there is a term, so there is a checker"
        return term.is_violated(self._checker, pod)
