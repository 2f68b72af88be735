"""Which nodes a pod may use, and why not the others. Pure.

Reasons are written as the scheduler writes its own, because it counts equal ones: `0/9 nodes are
available: 2 node(s) were under maintenance, 7 node(s) would have CPU above 80% with this pod`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rescheduler.extender.live_node_loads import CandidateNodes, NodeRows
from rescheduler.model.snapshot import Bools, Floats

UNDER_MAINTENANCE = "node(s) were under maintenance"
PROMISED = "node(s) had their free capacity reserved for a migration in progress"


@dataclass(frozen=True)
class FilterLimits:
    """How full a node may be with the new pod, and whether a pod must wait if all are fuller."""

    cpu_percent: float
    memory_percent: float
    strict: bool

    @property
    def fractions(self) -> Floats:
        """The highest allowed utilisation of each resource, as a column."""
        return np.array([[self.cpu_percent], [self.memory_percent]]) / 100

    def reason(self, *, cpu: bool, memory: bool) -> str:
        """Why a node is refused that would be above the limit of these resources."""
        above = [
            f"{resource} above {percent:g}%"
            for resource, percent, is_above in (
                ("CPU", self.cpu_percent, cpu),
                ("memory", self.memory_percent, memory),
            )
            if is_above
        ]
        return f"node(s) would have {' and '.join(above)} with this pod"


@dataclass(frozen=True, eq=False)
class PodDemand:
    """What a pod needs, as far as it matters for filter and prioritize."""

    requests: Floats
    """CPU and memory, as a column."""
    tolerates_cordon: bool
    """Such pods may use nodes under maintenance: a drain leaves them there, too."""
    has_fixed_node: bool
    """Whether there is no choice of nodes, as for a DaemonSet's pods: load does not matter then."""


@dataclass(frozen=True, eq=False)
class FilterDecision:
    """The nodes of a request that passed, and why the others did not."""

    passed: NodeRows
    """Their indexes in the request; least loaded first if all nodes were overloaded."""
    refused: dict[int, str]
    """The reasons, by index in the request."""
    all_overloaded: bool
    """Whether the nodes that passed are all above the limits, and passed for want of others."""


def filter_nodes(
    nodes: CandidateNodes,
    demand: PodDemand,
    limits: FilterLimits,
    promised: Bools,
    target: int | None,
) -> FilterDecision:
    """Split nodes into those that the pod may use and those that it may not.

    `promised` marks nodes that would have too little room left for what others were promised.
    `target` is where a migration wants this very pod: load and promises do not count there.
    """
    utilization = nodes.utilization(demand.requests)
    above = utilization > limits.fractions
    is_other = np.ones(len(nodes.rows), bool)
    if target is not None:
        is_other[target] = False
    closed = nodes.under_maintenance & (not demand.tolerates_cordon)
    taken = promised & is_other & ~closed
    overloaded = above.any(axis=0) & is_other & ~closed & ~taken & (not demand.has_fixed_node)
    passed = ~(closed | taken | overloaded)
    refused = dict.fromkeys(np.flatnonzero(closed).tolist(), UNDER_MAINTENANCE)
    refused |= dict.fromkeys(np.flatnonzero(taken).tolist(), PROMISED)
    if not limits.strict and not passed.any() and overloaded.any():
        least_loaded_first = _by_excess(utilization - limits.fractions, overloaded)
        return FilterDecision(least_loaded_first, refused, all_overloaded=True)
    for cpu, memory in ((True, False), (False, True), (True, True)):
        same_reason = overloaded & (above[0] == cpu) & (above[1] == memory)
        reason = limits.reason(cpu=cpu, memory=memory)
        refused |= dict.fromkeys(np.flatnonzero(same_reason).tolist(), reason)
    return FilterDecision(np.flatnonzero(passed), refused, all_overloaded=False)


def _by_excess(excess: Floats, chosen: Bools) -> NodeRows:
    """The chosen nodes, those first that are least above their limits."""
    worst, other = excess.max(axis=0), excess.min(axis=0)
    order = np.lexsort((other, worst))
    return order[chosen[order]]


def leaves_too_little(
    free: Mapping[str, int], requests: Mapping[str, int], promised: Mapping[str, int]
) -> bool:
    """Whether a pod leaves too little of some resource for what is promised to others.

    Only resources that it requests count: it cannot be the cause for the others.
    """
    return any(
        requests.get(resource, 0) > 0 and free[resource] < requests[resource] + amount
        for resource, amount in promised.items()
    )
