"""The judge: asks every rule, and keeps their counts true while moves are planned."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rescheduler.model.pod_templates import PodTemplate, PooledTemplate
from rescheduler.model.snapshot import NO_NODE, Bools, NodeColumns, Snapshot
from rescheduler.planning.feasibility.filter_plugin import (
    ClusterView,
    CountingRule,
    FilterPlugin,
    KnowingRule,
    Whereabouts,
)
from rescheduler.planning.feasibility.plugins.inter_pod_affinity import Company, InterPodAffinity
from rescheduler.planning.feasibility.plugins.node_affinity import NodeAffinity
from rescheduler.planning.feasibility.plugins.node_declared_features import NodeDeclaredFeatures
from rescheduler.planning.feasibility.plugins.node_ports import NodePorts, host_ports
from rescheduler.planning.feasibility.plugins.node_resources_fit import NodeResourcesFit
from rescheduler.planning.feasibility.plugins.node_unschedulable import NodeUnschedulable
from rescheduler.planning.feasibility.plugins.node_volume_limits import NodeVolumeLimits
from rescheduler.planning.feasibility.plugins.pod_topology_spread import (
    PodTopologySpread,
    hard_constraints,
)
from rescheduler.planning.feasibility.plugins.taint_toleration import TaintToleration
from rescheduler.planning.feasibility.plugins.volume_binding import VolumeBinding
from rescheduler.planning.feasibility.plugins.volume_restrictions import VolumeRestrictions
from rescheduler.planning.feasibility.plugins.volume_zone import VolumeZone

Refusals = npt.NDArray[np.int8]
"""Per node: 0 where a pod is accepted, else the number of a rule that refuses it, from 1."""


class _Step(NamedTuple):
    """A planned move that can be taken back."""

    pod: int
    node: int


class FeasibilityChecker:
    """Where pods of each template may run, as the scheduler would say with the pods as placed.

    The pods are where the snapshot has them until `move` says otherwise.
    """

    def __init__(self, snapshot: Snapshot, whereabouts: Whereabouts | None = None) -> None:
        """`whereabouts` knows where pods are in place of the snapshot; whoever has one `count`s."""
        self.view = ClusterView(snapshot, whereabouts)
        unschedulable = NodeUnschedulable(self.view)
        taints, affinity = TaintToleration(self.view), NodeAffinity(self.view)
        self._taints = taints
        ports, self.resources = NodePorts(self.view), NodeResourcesFit(self.view)
        restrictions, limits = VolumeRestrictions(self.view), NodeVolumeLimits(self.view)
        binding, zone = VolumeBinding(self.view), VolumeZone(self.view)
        self.spread = PodTopologySpread(self.view, affinity, taints)
        self.neighbours = InterPodAffinity(self.view)
        features = NodeDeclaredFeatures(self.view)
        self.plugins: tuple[FilterPlugin, ...] = (
            unschedulable,
            taints,
            affinity,
            ports,
            self.resources,
            restrictions,
            limits,
            binding,
            zone,
            self.spread,
            self.neighbours,
            features,
        )
        """In the order in which the scheduler asks them; the first to refuse gives the reason."""
        # What a rule says of nodes alone never changes. What it says of neighbours changes with
        # a few moves, and is remembered in between. What it says of a node's own pods changes
        # with every move, and is asked anew.
        self._lasting = self._numbered(unschedulable, taints, affinity, binding, zone, features)
        self._neighbourly = self._numbered(self.spread, self.neighbours)
        self._local = self._numbered(ports, self.resources, restrictions, limits)
        self._occupying: tuple[CountingRule, ...] = (ports, restrictions, limits)
        self._occupancy = self._numbered(ports, restrictions, limits)
        self._counting: tuple[CountingRule, ...] = (
            *self._occupying,
            self.resources,
            self.spread,
            self.neighbours,
        )
        self._among_neighbours: tuple[CountingRule, ...] = (self.spread, self.neighbours)
        self._knowing: tuple[KnowingRule, ...] = (
            ports,
            restrictions,
            limits,
            binding,
            zone,
            self.spread,
            self.neighbours,
        )
        self._but_room = (*self._occupying, *self._among_neighbours)
        self._about_nodes = [number for number, _ in self._numbered(taints, affinity)]
        self._lasting_refusals: dict[int, Refusals | None] = {}
        self._neighbourly_refusals: dict[int, Refusals | None] = {}
        self._steps: list[_Step] = []
        self._count_all_pods()

    @property
    def snapshot(self) -> Snapshot:
        """The cluster as it was, and every template that is known by now."""
        return self.view.snapshot

    def add_templates(self, added: Sequence[PooledTemplate]) -> None:
        """Know templates that no pod had so far; their numbers follow those of the others."""
        first = len(self.snapshot.templates)
        self.view.add_templates(added)
        for number in range(first, len(self.snapshot.templates)):
            for rule in self._knowing:
                rule.know(number)
        for prepared in ("company", "minding", "beyond_nodes", "_occupies"):
            self.__dict__.pop(prepared, None)

    def see_taints(self, nodes: NodeColumns) -> None:
        """Go by new taints and cordons of the same nodes, of which all else is as it was."""
        self.view.snapshot = replace(self.snapshot, nodes=nodes)
        self._taints.look_again()
        self.spread.look_again()
        self._lasting_refusals.clear()
        self._neighbourly_refusals.clear()

    def count(self, template: int, node: int, count: int, terminating: bool) -> None:
        """Pods that need not be the snapshot's came to the node, or left it if negative."""
        for rule in self._counting:
            rule.placed(template, node, count, terminating)
        self._forget_affected_by(template)

    def refusals(self, template: int) -> Refusals:
        """Which rule refuses each node to a new pod of this template, all others staying put."""
        refusals = np.zeros(len(self.snapshot.nodes), np.int8)
        for known in (
            self._refused_for_good(template),
            self._ask(self._local, template),
            self._refused_by_neighbours(template),
        ):
            if known is not None:
                np.copyto(refusals, known, where=refusals == 0)
        return refusals

    def _refused_for_good(self, template: int) -> Refusals | None:
        if template not in self._lasting_refusals:
            self._lasting_refusals[template] = self._ask(self._lasting, template)
        return self._lasting_refusals[template]

    def _refused_by_neighbours(self, template: int) -> Refusals | None:
        if template not in self._neighbourly_refusals:
            self._neighbourly_refusals[template] = self._ask(self._neighbourly, template)
        return self._neighbourly_refusals[template]

    def accepted(self, template: int) -> Bools:
        """Nodes that would take a new pod of this template, all others staying put."""
        return np.asarray(self.refusals(template) == 0)

    def closed(self, template: int) -> Bools | None:
        """Nodes that refuse such a pod however much room they have; None if there are none."""
        closed = self._ask(self._occupancy, template)
        for known in (self._refused_for_good(template), self._refused_by_neighbours(template)):
            if known is not None:
                closed = known if closed is None else closed | known
        return None if closed is None else closed > 0

    def never(self, template: int) -> Bools | None:
        """Nodes that refuse such a pod whatever else is there; None if there are none."""
        refused = self._refused_for_good(template)
        return None if refused is None else refused > 0

    def misplaced(self, template: int) -> Bools | None:
        """Nodes such a pod would not be on if it were placed today, by what it says of nodes.

        A cordoned node is none of these: cordoning says that pods may stay.
        """
        refused = self._refused_for_good(template)
        return None if refused is None else np.isin(refused, self._about_nodes)

    def breaks_a_rule(self, pod: int) -> bool:
        """Whether the pod would be refused where it is, because of its neighbours."""
        node = self.node_of(pod)
        with self.without(pod):
            refused = self._refused_by_neighbours(int(self.snapshot.pods.template[pod]))
        return refused is not None and bool(refused[node])

    def would_harm_others(self, pod: int, target: int) -> bool:
        """Whether pods that stay lose required company, or even spread, if this one moves there."""
        template, source = int(self.snapshot.pods.template[pod]), self.node_of(pod)
        return self.neighbours.would_be_missed(
            template, source, target
        ) or self.spread.would_be_uneven(template, source, target)

    @cached_property
    def company(self) -> Company:
        """Which templates mind each other's pods."""
        return self.neighbours.company()

    @cached_property
    def minding(self) -> Bools:
        """Templates of which more must be asked than room and what nodes say by themselves."""
        minding = np.zeros(len(self.snapshot.templates), bool)
        minding[list(self.company.apart_on_nodes)] = True
        minding |= self.beyond_nodes
        return minding

    @cached_property
    def beyond_nodes(self) -> Bools:
        """Those that mind more than whom they share a node with."""
        templates = self.snapshot.templates
        spread = np.array([bool(hard_constraints(each)) for each in templates], bool)
        beyond = np.asarray(self._occupies | spread)
        beyond[list(self.company.otherwise)] = True
        return beyond

    @contextmanager
    def without(self, pod: int) -> Iterator[None]:
        """Answers as they would be with the pod gone from its node."""
        node = self.node_of(pod)
        known, self._neighbourly_refusals = self._neighbourly_refusals, {}
        self._put(pod, node, NO_NODE)
        try:
            yield
        finally:
            self._put(pod, NO_NODE, node)
            self._neighbourly_refusals = known

    def refusals_without(self, pod: int) -> Refusals:
        """Which rule refuses each node to this pod if it starts anew after leaving its node."""
        with self.without(pod):
            return self.refusals(int(self.snapshot.pods.template[pod]))

    def reason(self, template: int, node: int) -> str:
        """Why a new pod of this template may not run on the node, in a sentence."""
        number = int(self.refusals(template)[node])
        assert number, "asked why of a node that is not refused"
        return self.plugins[number - 1].reason(template, node)

    def node_of(self, pod: int) -> int:
        """Where the pod is at the moment."""
        return self.view.placed_pods.node_of(pod)

    def move(self, pod: int, node: int) -> None:
        """The pod is on `node` from now on."""
        source = self.node_of(pod)
        self._steps.append(_Step(pod, source))
        self._put(pod, source, node)
        self._forget_affected_by(int(self.snapshot.pods.template[pod]))

    def place(self, pod: int, source: int, target: int) -> None:
        """Like `move`, but to or from nowhere as well, and not to be undone."""
        self._put(pod, source, target)
        self._forget_affected_by(int(self.snapshot.pods.template[pod]))

    def rearrange(self, pod: int, source: int, target: int) -> None:
        """Like `place`, for whoever keeps account of room by himself: `closed` stays true."""
        template = int(self.snapshot.pods.template[pod])
        terminating = bool(self.snapshot.pods.deleting[pod])
        for rule in self._but_room if self._occupies[template] else self._among_neighbours:
            if source >= 0:
                rule.placed(template, source, -1, terminating)
            if target >= 0:
                rule.placed(template, target, 1, terminating)
        self.view.placed_pods.put(pod, target)
        self._forget_affected_by(template)

    def undo(self) -> None:
        """Take the last move back."""
        pod, node = self._steps.pop()
        self._put(pod, self.node_of(pod), node)
        self._forget_affected_by(int(self.snapshot.pods.template[pod]))

    def _numbered(self, *rules: FilterPlugin) -> tuple[tuple[int, FilterPlugin], ...]:
        return tuple((self.plugins.index(rule) + 1, rule) for rule in rules)

    def _ask(self, rules: tuple[tuple[int, FilterPlugin], ...], template: int) -> Refusals | None:
        """The number of the first of these rules to refuse each node; None if none refuses any."""
        refusals: Refusals | None = None
        for number, rule in rules:
            refused = rule.refused(template)
            if refused is None:
                continue
            if refusals is None:
                refusals = refused.astype(np.int8)
                refusals *= number
            else:
                refusals[refused & (refusals == 0)] = number
        return refusals

    def _put(self, pod: int, source: int, target: int) -> None:
        template = int(self.snapshot.pods.template[pod])
        terminating = bool(self.snapshot.pods.deleting[pod])
        for rule in self._counting:
            if source >= 0:
                rule.placed(template, source, -1, terminating)
            if target >= 0:
                rule.placed(template, target, 1, terminating)
        self.view.placed_pods.put(pod, target)

    def _forget_affected_by(self, template: int) -> None:
        for affected in self.affected_by(template):
            self._neighbourly_refusals.pop(affected, None)

    def affected_by(self, template: int) -> set[int]:
        """Templates whose neighbours change, for better or worse, when a pod of this one moves."""
        return {*self.spread.affected(template), *self.neighbours.affected(template)}

    @cached_property
    def _occupies(self) -> Bools:
        """Templates whose pods take up more of a node than room: ports, or disks."""
        templates = self.snapshot.templates
        return np.array([bool(_has_disks(each) or host_ports(each)) for each in templates], bool)

    def _count_all_pods(self) -> None:
        """Count the snapshot's pods where they are. Rules about company count when first asked."""
        self.resources.place_all()
        pods = self.snapshot.pods
        rows = np.flatnonzero(pods.placed & self._occupies[pods.template])
        for pod in rows.tolist():
            template, node = int(pods.template[pod]), int(pods.node[pod])
            for rule in self._occupying:
                rule.placed(template, node, 1, bool(pods.deleting[pod]))


def _has_disks(template: PodTemplate) -> bool:
    """Whether it has volumes other than directories of its node."""
    return any(volume.empty_dir is None and volume.host_path is None for volume in template.volumes)
