"""Terms of the objective for rules that pods break where they are.

The search never breaks a rule that holds, so the cost of a violation only falls: when a pod that
breaks a rule leaves its node. There are two sorts. Violations on one node are counted by the
search as it goes. Violations of rules that reach beyond the node, such as required affinity within
a zone, may be resolved by any pod that moves, so pods suspected of one are checked again.
"""

from abc import ABC, abstractmethod
from collections.abc import Set

import numpy as np

from rescheduler.model.snapshot import Bools, Floats, Ints
from rescheduler.planning.feasibility.checker import FeasibilityChecker
from rescheduler.planning.feasibility.node_conflicts import NodeConflicts


class ViolationTerm(ABC):
    """What it costs that pods break rules. It has no state: whoever asks says how things are."""

    strategy = ""
    """The name of the strategy that wants it; set by the planner."""
    suspect_gain = 0.0
    """What is gained if a suspected pod leaves its node and did break a rule."""

    @abstractmethod
    def total(self) -> float:
        """What all violations at the start cost."""

    def is_active(self) -> bool:
        """Whether any pod breaks a rule at the start."""
        return self.total() > 0

    def gains_of_leaving(self, templates: Ints, nodes: Ints, conflicts: NodeConflicts) -> Floats:
        """What is gained if a pod of each of these templates leaves its node.

        Counts violations on the node alone, with the pods that `conflicts` has counted there.
        """
        return np.zeros(len(templates))

    def suspects(self) -> Bools | None:
        """Equivalence groups whose pods break, at the start, a rule that reaches beyond a node.

        None: there are no such rules.
        """
        return None

    def is_violated(self, checker: FeasibilityChecker, pod: int) -> bool:
        """Whether a suspected pod breaks its rule, with the pods where the checker has them."""
        return False

    def remaining_cost(self, checker: FeasibilityChecker) -> float:
        """What the violations of suspects cost, with the pods where the checker has them."""
        return 0.0

    def remaining_cost_among(self, checker: FeasibilityChecker, templates: Set[int]) -> float:
        """At least that part of it which pods of these templates cost.

        It is asked before and after a move that makes a difference only to them.
        """
        return self.remaining_cost(checker)

    @abstractmethod
    def reason(self, node: str) -> str:
        """Why a pod that breaks a rule should leave the node of this name."""
