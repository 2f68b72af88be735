"""Which nodes may be used for a pod, and why not the others. Pure.

Reasons are in the words and the form of the scheduler's own, which counts equal ones: `0/9 nodes
are available: 2 node(s) were under maintenance, 7 node(s) would have CPU above 80% with this pod`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rescheduler.extender.node_loads import Candidates, Rows
from rescheduler.model.snapshot import Bools, Floats

UNDER_MAINTENANCE = "node(s) were under maintenance"
PROMISED = "node(s) had promised their room to a migration under way"


@dataclass(frozen=True)
class FilterLimits:
    """How full a node may be with a new pod on it, and what is done when all would be fuller."""

    cpu_percent: float
    memory_percent: float
    strict: bool

    @property
    def fractions(self) -> Floats:
        """The most that each resource may be used, as a column."""
        return np.array([[self.cpu_percent], [self.memory_percent]]) / 100

    def reason(self, cpu: bool, memory: bool) -> str:
        """Why a node that would be fuller is refused."""
        too_full = [
            f"{resource} above {percent:g}%"
            for resource, percent, is_above in (
                ("CPU", self.cpu_percent, cpu),
                ("memory", self.memory_percent, memory),
            )
            if is_above
        ]
        return f"node(s) would have {' and '.join(too_full)} with this pod"


@dataclass(frozen=True, eq=False)
class Wanted:
    """What is sought: room for so much CPU and memory, on nodes that the pod may use."""

    demand: Floats
    """As a column."""
    endures_maintenance: bool
    """It tolerates a cordon, so nodes are not emptied of such pods either."""
    has_no_choice: bool
    """Its node is given: it is not refused for load."""


@dataclass(frozen=True, eq=False)
class Decision:
    """The nodes of a question that may be used, best first if they were let through."""

    passed: Rows
    """By their number in the question."""
    refused: dict[int, str]
    """Why the others may not be."""
    let_through: bool
    """They all are too loaded, and may be used for want of others."""


def decide(
    nodes: Candidates, wanted: Wanted, limits: FilterLimits, promised: Bools, target: int | None
) -> Decision:
    """Sort nodes into those that may be used and those that may not.

    `promised` are nodes that would have too little room left for what others were promised, and
    `target` is where a migration wants this very pod, which is not refused for load or promises.
    """
    utilization = nodes.utilization(wanted.demand)
    above = utilization > limits.fractions
    judged = np.ones(len(nodes.rows), bool)
    if target is not None:
        judged[target] = False
    closed = nodes.under_maintenance & (not wanted.endures_maintenance)
    taken = promised & judged & ~closed
    hot = above.any(axis=0) & judged & ~closed & ~taken & (not wanted.has_no_choice)
    passed = ~(closed | taken | hot)
    let_through = not limits.strict and not passed.any() and bool(hot.any())
    refused = dict.fromkeys(np.flatnonzero(closed).tolist(), UNDER_MAINTENANCE)
    refused |= dict.fromkeys(np.flatnonzero(taken).tolist(), PROMISED)
    if let_through:
        return Decision(_by_excess(utilization - limits.fractions, hot), refused, True)
    for cpu, memory in ((True, False), (False, True), (True, True)):
        alike = hot & (above[0] == cpu) & (above[1] == memory)
        refused |= dict.fromkeys(np.flatnonzero(alike).tolist(), limits.reason(cpu, memory))
    return Decision(np.flatnonzero(passed), refused, False)


def _by_excess(excess: Floats, chosen: Bools) -> Rows:
    """The chosen nodes, those first that go least above what they may."""
    worst, other = excess.max(axis=0), excess.min(axis=0)
    order = np.lexsort((other, worst))
    return order[chosen[order]]


def short_of_promised(
    free: Mapping[str, int], demand: Mapping[str, int], promised: Mapping[str, int]
) -> bool:
    """Whether a pod leaves too little of some resource for what is promised.

    A resource of which it takes nothing does not count: it cannot be to blame for that one.
    """
    return any(
        demand.get(resource, 0) > 0 and free[resource] < demand[resource] + amount
        for resource, amount in promised.items()
    )
