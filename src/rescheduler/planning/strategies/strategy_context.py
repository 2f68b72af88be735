"""What strategies can ask about pods: which could move, which nodes take them, whose they are.

Nothing here depends on what any strategy wants. The costly parts are computed when first asked
for: most plans of a balanced cluster need none of them.
"""

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rescheduler.model.rules.immovable_pods import belongs_to_node
from rescheduler.model.snapshot import Bools, Ints, Snapshot
from rescheduler.planning.feasibility.checker import FeasibilityChecker
from rescheduler.planning.feasibility.node_conflicts import NodeConflicts
from rescheduler.planning.movability.equivalence_groups import EquivalenceGroups
from rescheduler.planning.movability.movability import Movability
from rescheduler.planning.movability.workload_owners import WorkloadOwners
from rescheduler.planning.node_load import NodeLoad


class NodeMasks(NamedTuple):
    """Answers about nodes. Few masks cover all templates: each once, and which one each has."""

    masks: Bools
    mask_of: Ints


class StrategyContext:
    """The pods of a snapshot at the start of a plan, for strategies and for the search."""

    def __init__(
        self,
        snapshot: Snapshot,
        load: NodeLoad,
        movability: Movability,
        groups: EquivalenceGroups,
    ) -> None:
        self.snapshot = snapshot
        self.load = load
        self.movability = movability
        self.groups = groups
        """The movable pods, by node and template."""
        self._unusable: dict[int, Bools] = {}

    @property
    def workloads(self) -> WorkloadOwners:
        """Who pods belong to."""
        return self.movability.workloads

    # The most expensive part of all this.
    @cached_property
    def checker(self) -> FeasibilityChecker:
        """Which nodes accept which pods. The search moves the checker's pods as it goes."""
        return FeasibilityChecker(self.snapshot)

    @cached_property
    def conflicts(self) -> NodeConflicts:
        """Pods that must not share a node, as they are at the start."""
        return NodeConflicts(self.snapshot, self.checker)

    @cached_property
    def kept_in_use(self) -> Bools:
        """Nodes with pods that stay and do not belong to them: in use, whatever is moved."""
        templates = self.snapshot.templates
        belongs = np.array([belongs_to_node(pod.owner_kind) for pod in templates], bool)
        pods = self.snapshot.pods
        stays = pods.placed & ~self.movability.movable & ~belongs[pods.template]
        counts = np.bincount(pods.node[stays], minlength=len(self.snapshot.nodes))
        return np.asarray(counts > 0)

    def nodes_of(self, template: int) -> Ints:
        """The nodes of the template's pods at the start, a node as often as it has such pods."""
        return self._pod_nodes[self._first[template] : self._first[template + 1]]

    @cached_property
    def _by_template(self) -> npt.NDArray[np.int64]:
        """The placed pods that are not being deleted, template by template."""
        pods = self.snapshot.pods
        counted = np.flatnonzero(pods.placed & ~pods.deleting)
        return counted[np.argsort(pods.template[counted], kind="stable")]

    @cached_property
    def _pod_nodes(self) -> Ints:
        return self.snapshot.pods.node[self._by_template]

    @cached_property
    def _first(self) -> npt.NDArray[np.int64]:
        templates = self.snapshot.pods.template[self._by_template]
        return np.searchsorted(templates, np.arange(len(self.snapshot.templates) + 1))

    # ------------------------------------------------------------ what nodes alone decide

    def always_refused(self, template: int) -> Bools:
        """Nodes that will not do for the template, whatever else is there.

        Templates with the same answer share one array. It is not to be written to.
        """
        refused = self.checker.always_refused(template)
        known = self._unusable.get(id(refused))
        if known is None:
            takes_none = ~self.load.takes_pods
            known = takes_none if refused is None else refused | takes_none
            self._unusable[id(refused)] = known
        return known

    def closed_to(self, template: int, may_return: bool = False) -> Bools:
        """Nodes that the template's pods do not come to, whatever else is there.

        Unless there is an urgent cause, they do not return to nodes that they left. Where a move
        has just failed, another node is tried.
        """
        closed = self.always_refused(template)
        avoided = [self.movability.failed_targets.get(template)]
        if not may_return:
            avoided.append(self.movability.left_nodes.get(template))
        for nodes in avoided:
            if nodes is not None:
                closed = closed.copy()
                closed[nodes] = True
        return closed

    def has_past_moves(self, template: int) -> bool:
        """Whether some nodes are closed to the template because of where its pods were before."""
        return template in self.movability.failed_targets or template in self.movability.left_nodes

    def refused_masks(self, templates: Ints) -> Bools:
        """For each of these templates, nodes that its pods do not come to without urgent cause."""
        return self._refused.masks[self._refused.mask_of[templates]]

    def usable_by_some(self, nodes: Bools) -> Bools:
        """Those of the nodes that some movable pod could be on, as far as nodes alone decide."""
        usable = np.zeros(len(nodes), bool)
        for template in np.unique(self.groups.template).tolist():
            usable |= nodes & ~self.always_refused(template)
            if (usable == nodes).all():
                break
        return usable

    def misplaced(self, templates: Ints, nodes: Ints) -> Bools:
        """Pods of these templates that the nodes they are on would not take by themselves."""
        return self._misplaced.masks[self._misplaced.mask_of[templates], nodes]

    @cached_property
    def _refused(self) -> NodeMasks:
        return self._node_masks(self.closed_to, self.groups.template)

    @cached_property
    def _misplaced(self) -> NodeMasks:
        pods = self.snapshot.pods
        return self._node_masks(self.checker.misplaced, pods.template[pods.placed])

    def _node_masks(self, mask_for: Callable[[int], Bools | None], templates: Ints) -> NodeMasks:
        nowhere = np.zeros(len(self.snapshot.nodes), bool)
        number_of: dict[bytes, int] = {}
        masks: list[Bools] = []
        mask_of = np.zeros(len(self.snapshot.templates), np.int32)
        for template in np.unique(templates).tolist():
            found = mask_for(template)
            mask = nowhere if found is None else found
            number = mask_of[template] = number_of.setdefault(mask.tobytes(), len(number_of))
            if number == len(masks):
                masks.append(mask)
        return NodeMasks(np.array(masks, bool).reshape(len(masks), len(nowhere)), mask_of)
