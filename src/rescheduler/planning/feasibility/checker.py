"""Asks every filter plugin, and keeps their counts up to date while moves are planned."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import product

import numpy as np
import numpy.typing as npt

from rescheduler.model.pod_templates import PodTemplate, PooledTemplate
from rescheduler.model.snapshot import NO_NODE, Bools, NodeColumns, Snapshot
from rescheduler.planning.feasibility.filter_plugin import (
    FilterPlugin,
    NearbyPodsPlugin,
    PodCountingPlugin,
    PodLister,
    SharedLister,
    TemplateAwarePlugin,
)
from rescheduler.planning.feasibility.nominated_pods import NominatedPods
from rescheduler.planning.feasibility.plugins.inter_pod_affinity import (
    AffinityRelations,
    InterPodAffinity,
)
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
"""Per node: 0 where a pod is accepted, else the number of a plugin that refuses it, from 1."""


class FeasibilityChecker:
    """Where pods of each template may run, as the scheduler would say with the pods as placed.

    The pods are where the snapshot has them until `move` says otherwise. Room is kept for pods
    that the snapshot has as nominated.
    """

    def __init__(self, snapshot: Snapshot, pod_lister: PodLister | None = None) -> None:
        """`pod_lister`, if given, says where pods are; its owner then calls `count_pods`, and takes
        care of nominated pods."""
        self._nominated = NominatedPods(snapshot) if pod_lister is None else None
        self.lister = SharedLister(snapshot, pod_lister)
        unschedulable = NodeUnschedulable(self.lister)
        taints, affinity = TaintToleration(self.lister), NodeAffinity(self.lister)
        self._taints = taints
        ports, self.resources = NodePorts(self.lister), NodeResourcesFit(self.lister)
        restrictions, limits = VolumeRestrictions(self.lister), NodeVolumeLimits(self.lister)
        binding, zone = VolumeBinding(self.lister), VolumeZone(self.lister)
        self.topology_spread = PodTopologySpread(self.lister, affinity, taints)
        self.inter_pod_affinity = InterPodAffinity(self.lister)
        features = NodeDeclaredFeatures(self.lister)
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
            self.topology_spread,
            self.inter_pod_affinity,
            features,
        )
        """In the order in which the scheduler asks them; the first to refuse gives the reason."""
        # What a plugin says of nodes alone never changes. What it says of pods nearby changes with
        # few moves, and is cached in between. What it says of a node's own pods changes with
        # every move, and is asked each time.
        self._static = self._numbered(unschedulable, taints, affinity, binding, zone, features)
        self._nearby = self._numbered(self.topology_spread, self.inter_pod_affinity)
        self._local = self._numbered(ports, self.resources, restrictions, limits)
        self._occupying: tuple[PodCountingPlugin, ...] = (ports, restrictions, limits)
        self._occupying_numbered = self._numbered(ports, restrictions, limits)
        self._counting: tuple[PodCountingPlugin, ...] = (
            *self._occupying,
            self.resources,
            self.topology_spread,
            self.inter_pod_affinity,
        )
        self._counting_nearby: tuple[NearbyPodsPlugin, ...] = (
            self.topology_spread,
            self.inter_pod_affinity,
        )
        self._template_aware: tuple[TemplateAwarePlugin, ...] = (
            ports,
            restrictions,
            limits,
            binding,
            zone,
            self.topology_spread,
            self.inter_pod_affinity,
        )
        self._counting_but_resources = (*self._occupying, *self._counting_nearby)
        self._node_constraints = [number for number, _ in self._numbered(taints, affinity)]
        self._static_refusals: dict[int, Refusals | None] = {}
        # Most templates are refused by the same nodes: each answer is kept once.
        self._known_static: dict[bytes, tuple[Refusals, Bools]] = {}
        self._always_refused: dict[int, Bools | None] = {}
        self._nearby_refusals: dict[int, Refusals | None] = {}
        self._count_all_pods()

    @property
    def snapshot(self) -> Snapshot:
        """The cluster as it was, and every template that is known by now."""
        return self.lister.snapshot

    def add_templates(self, added: Sequence[PooledTemplate]) -> None:
        """Add templates that no pod had so far; their numbers follow those of the others."""
        first = len(self.snapshot.templates)
        self.lister.add_templates(added)
        for number in range(first, len(self.snapshot.templates)):
            for plugin in self._template_aware:
                plugin.add_template(number)
        for prepared in (
            "affinity_relations",
            "depends_on_pods",
            "depends_beyond_node",
            "_occupies",
        ):
            self.__dict__.pop(prepared, None)

    def update_taints(self, nodes: NodeColumns) -> None:
        """Go by new taints and cordons of the same nodes, of which all else is as it was."""
        self.lister.snapshot = replace(self.snapshot, nodes=nodes)
        self._taints.update()
        self.topology_spread.reset()
        self._static_refusals.clear()
        self._always_refused.clear()
        self._nearby_refusals.clear()

    def count_pods(self, template: int, node: int, count: int, terminating: bool) -> None:
        """Pods that need not be the snapshot's came to the node, or left it if negative."""
        for plugin in self._counting:
            plugin.count_pods(template, node, count, terminating)
        self._forget_affected_by(template)

    def refusals(self, template: int) -> Refusals:
        """Which plugin refuses each node to a new pod of this template, all others staying put."""
        refusals = self._refusals(template)
        if self._nominated is not None:
            for node in self._nominated.nodes(self.snapshot.templates[template].priority):
                with self._counting_nominated(template, node):
                    refused = self._refusals(template)[node]
                refusals[node] = refused or refusals[node]
        return refusals

    @contextmanager
    def _counting_nominated(self, template: int, node: int) -> Iterator[None]:
        """Answers about the node as they are with the pods that are nominated to it.

        The template must have been asked about before: plugins count from the lister when they are
        first asked, and nominated pods are not there.
        """
        priority = self.snapshot.templates[template].priority
        nominated = [] if self._nominated is None else self._nominated.ahead_of(priority, node)
        if not nominated:
            yield
            return
        known, self._nearby_refusals = self._nearby_refusals, {}
        skipped = self.inter_pod_affinity if self.inter_pod_affinity.is_skipped(template) else None
        plugins = [plugin for plugin in self._counting if plugin is not skipped]
        for pod, plugin in product(nominated, plugins):
            plugin.count_pods(pod.template, node, 1, pod.terminating)
        try:
            yield
        finally:
            for pod, plugin in product(nominated, plugins):
                plugin.count_pods(pod.template, node, -1, pod.terminating)
            self._nearby_refusals = known

    def _refusals(self, template: int) -> Refusals:
        """The same, without regard to nominated pods."""
        refusals = np.zeros(len(self.snapshot.nodes), np.int8)
        for known in (
            self._statically_refused(template),
            self._ask(self._local, template),
            self._refused_by_nearby_pods(template),
        ):
            if known is not None:
                np.copyto(refusals, known, where=refusals == 0)
        return refusals

    def _statically_refused(self, template: int) -> Refusals | None:
        if template not in self._static_refusals:
            refusals, mask = self._ask(self._static, template), None
            if refusals is not None:
                known = refusals, refusals > 0
                refusals, mask = self._known_static.setdefault(refusals.tobytes(), known)
            self._static_refusals[template] = refusals
            self._always_refused[template] = mask
        return self._static_refusals[template]

    def _refused_by_nearby_pods(self, template: int) -> Refusals | None:
        if template not in self._nearby_refusals:
            self._nearby_refusals[template] = self._ask(self._nearby, template)
        return self._nearby_refusals[template]

    def accepted(self, template: int) -> Bools:
        """Nodes that would take a new pod of this template, all others staying put."""
        return np.asarray(self.refusals(template) == 0)

    def refuses(self, template: int, node: int) -> bool:
        """Whether the node refuses a new pod of this template: faster than to ask about all."""
        priority = self.snapshot.templates[template].priority
        if self._nominated is not None and self._nominated.ahead_of(priority, node):
            return bool(self.refusals(template)[node])
        refused = self.always_refused(template)
        if (refused is not None and refused[node]) or self.resources.refuses(template, node):
            return True
        occupied = self._ask(self._occupying_numbered, template)
        if occupied is not None and occupied[node]:
            return True
        if template not in self._nearby_refusals:
            return any(plugin.refuses(template, node) for plugin in self._counting_nearby)
        nearby = self._nearby_refusals[template]
        return nearby is not None and bool(nearby[node])

    def refuses_without(self, pod: int, node: int) -> bool:
        """Whether the node refuses this pod if it starts anew after leaving its node."""
        with self.without(pod):
            return self.refuses(int(self.snapshot.pods.template[pod]), node)

    def refused_regardless_of_room(self, template: int) -> Bools | None:
        """Nodes that refuse such a pod however much room they have; None if there are none."""
        refused = self._ask(self._occupying_numbered, template)
        for known in (self._statically_refused(template), self._refused_by_nearby_pods(template)):
            if known is not None:
                refused = known if refused is None else refused | known
        return None if refused is None else refused > 0

    def always_refused(self, template: int) -> Bools | None:
        """Nodes that refuse such a pod whatever else is there; None if there are none.

        Templates with the same answer share one array. It is not to be written to.
        """
        self._statically_refused(template)
        return self._always_refused[template]

    def misplaced(self, template: int) -> Bools | None:
        """Nodes such a pod would not be on if it were placed today, by what it says of nodes.

        A cordoned node is none of these: cordoning says that pods may stay.
        """
        refused = self._statically_refused(template)
        return None if refused is None else np.isin(refused, self._node_constraints)

    def breaks_a_rule(self, pod: int) -> bool:
        """Whether the pod would be refused where it is, because of pods nearby."""
        node = self.node_of(pod)
        template = int(self.snapshot.pods.template[pod])
        self._put_nearby(pod, node, NO_NODE)
        refused = any(plugin.refuses(template, node) for plugin in self._counting_nearby)
        self._put_nearby(pod, NO_NODE, node)
        return refused

    def may_break_a_rule(self, template: int) -> Bools:
        """Nodes where such a pod may be refused, if it is there, because of pods nearby.

        Where one more of them is accepted, a pod breaks nothing: others of its kind, and those that
        it excludes, only become fewer without it. But it is no company for itself.
        """
        doubtful = np.zeros(len(self.snapshot.nodes), bool)
        refused = self._refused_by_nearby_pods(template)
        if refused is not None:
            doubtful |= refused > 0
        alone = self.inter_pod_affinity.lacking_company(template)
        if alone is not None:
            doubtful |= alone
        return doubtful

    def would_harm_others(self, pod: int, target: int) -> bool:
        """Whether pods that stay lose required affinity, or spread worse, if this one moves."""
        template, source = int(self.snapshot.pods.template[pod]), self.node_of(pod)
        return self.inter_pod_affinity.would_break_affinity(
            template, source, target
        ) or self.topology_spread.would_worsen_spread(template, source, target)

    @cached_property
    def affinity_relations(self) -> AffinityRelations:
        """Which templates exclude or require each other's pods."""
        return self.inter_pod_affinity.relations()

    @cached_property
    def depends_on_pods(self) -> Bools:
        """Templates whose answers depend on more than resources and the nodes themselves."""
        depends = np.zeros(len(self.snapshot.templates), bool)
        depends[list(self.affinity_relations.apart_on_node)] = True
        depends |= self.depends_beyond_node
        return depends

    @cached_property
    def depends_beyond_node(self) -> Bools:
        """Those that depend on more than which templates share their node."""
        templates = self.snapshot.templates
        spread = np.array([bool(hard_constraints(template)) for template in templates], bool)
        beyond = np.asarray(self._occupies | spread)
        beyond[list(self.affinity_relations.beyond_node)] = True
        return beyond

    @contextmanager
    def without(self, pod: int) -> Iterator[None]:
        """Answers as they would be with the pod gone from its node, or no longer nominated."""
        node = self.node_of(pod)
        if node == NO_NODE:
            with self._without_nomination(pod):
                yield
            return
        known, self._nearby_refusals = self._nearby_refusals, {}
        self._put(pod, node, NO_NODE)
        try:
            yield
        finally:
            self._put(pod, NO_NODE, node)
            self._nearby_refusals = known

    @contextmanager
    def _without_nomination(self, pod: int) -> Iterator[None]:
        node = int(self.snapshot.pods.nominated[pod])
        nominated = None if self._nominated is None else self._nominated.remove(pod, node)
        try:
            yield
        finally:
            if self._nominated is not None and nominated is not None:
                self._nominated.restore(pod, node, nominated)

    def refusals_without(self, pod: int) -> Refusals:
        """Which plugin refuses each node to this pod if it starts anew after leaving its node."""
        with self.without(pod):
            return self.refusals(int(self.snapshot.pods.template[pod]))

    def reason(self, template: int, node: int) -> str:
        """Why a new pod of this template may not run on the node, in a sentence."""
        without_nominated = int(self._refusals(template)[node])
        with self._counting_nominated(template, node):
            number = int(self._refusals(template)[node])
            if number:
                return self.plugins[number - 1].reason(template, node)
        assert without_nominated, "asked why of a node that is not refused"
        return self.plugins[without_nominated - 1].reason(template, node)

    def node_of(self, pod: int) -> int:
        """Where the pod is at the moment."""
        return self.lister.placed_pods.node_of(pod)

    def move(self, pod: int, node: int) -> None:
        """The pod is on `node` from now on."""
        self.place(pod, self.node_of(pod), node)

    def place(self, pod: int, source: int, target: int) -> None:
        """Like `move`, but to or from NO_NODE as well. Moving a pod back restores every answer."""
        self._put(pod, source, target)
        self._forget_affected_by(int(self.snapshot.pods.template[pod]))

    def place_regardless_of_room(self, pod: int, source: int, target: int) -> None:
        """Like `place`, for searches that count resources themselves.

        `refused_regardless_of_room` stays true; `refusals` does not.
        """
        template = int(self.snapshot.pods.template[pod])
        terminating = bool(self.snapshot.pods.deleting[pod])
        for plugin in (
            self._counting_but_resources if self._occupies[template] else self._counting_nearby
        ):
            _count_move(plugin, template, source, target, terminating)
        self.lister.placed_pods.put(pod, target)
        self._forget_affected_by(template)

    def _numbered(self, *plugins: FilterPlugin) -> tuple[tuple[int, FilterPlugin], ...]:
        return tuple((self.plugins.index(plugin) + 1, plugin) for plugin in plugins)

    def _ask(self, plugins: tuple[tuple[int, FilterPlugin], ...], template: int) -> Refusals | None:
        """The number of the first of these plugins to refuse each node; None if none does."""
        refusals: Refusals | None = None
        for number, plugin in plugins:
            refused = plugin.refused(template)
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
        for plugin in self._counting:
            _count_move(plugin, template, source, target, terminating)
        self.lister.placed_pods.put(pod, target)

    def _put_nearby(self, pod: int, source: int, target: int) -> None:
        """Like `_put`, for whoever only asks about pods nearby."""
        template = int(self.snapshot.pods.template[pod])
        terminating = bool(self.snapshot.pods.deleting[pod])
        for plugin in self._counting_nearby:
            _count_move(plugin, template, source, target, terminating)
        self.lister.placed_pods.put(pod, target)

    def _forget_affected_by(self, template: int) -> None:
        for affected in self.affected_by(template):
            self._nearby_refusals.pop(affected, None)

    def affected_by(self, template: int) -> set[int]:
        """Templates whose answers may change when a pod of this one moves."""
        return {
            *self.topology_spread.affected(template),
            *self.inter_pod_affinity.affected(template),
        }

    @cached_property
    def _occupies(self) -> Bools:
        """Templates whose pods take up more of a node than room: ports, or disks."""
        templates = self.snapshot.templates
        return np.array(
            [bool(_has_disks(template) or host_ports(template)) for template in templates], bool
        )

    def _count_all_pods(self) -> None:
        """Count the snapshot's pods where they are. The others count when first asked."""
        self.resources.place_all()
        pods = self.snapshot.pods
        rows = np.flatnonzero(pods.placed & self._occupies[pods.template])
        for pod in rows.tolist():
            template, node = int(pods.template[pod]), int(pods.node[pod])
            for plugin in self._occupying:
                plugin.count_pods(template, node, 1, bool(pods.deleting[pod]))


def _count_move(
    plugin: PodCountingPlugin, template: int, source: int, target: int, terminating: bool
) -> None:
    if source >= 0:
        plugin.count_pods(template, source, -1, terminating)
    if target >= 0:
        plugin.count_pods(template, target, 1, terminating)


def _has_disks(template: PodTemplate) -> bool:
    """Whether it has volumes other than directories of its node."""
    return any(volume.empty_dir is None and volume.host_path is None for volume in template.volumes)
