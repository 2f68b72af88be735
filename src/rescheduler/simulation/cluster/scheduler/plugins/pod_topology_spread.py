"""PodTopologySpread: the fewer matching pods there are in a node's domains, the better.

The constraints are the pod's own wishes (`ScheduleAnyway`). A pod without any constraint at all is
spread over nodes and zones together with the pods that its Services and its owner select.

Small domains such as nodes count for less than large ones such as zones: a count is multiplied by
the logarithm of how many domains there are. With the pod's own constraints, nodes that lack one of
the labels get no points; with those by default, they are merely not spread over that label.
"""

from collections.abc import Sequence
from math import log
from typing import NamedTuple

import numpy as np

from rescheduler.model.objects import LabelSelector, TopologySpreadConstraint
from rescheduler.model.pod_templates import PodTemplate
from rescheduler.model.snapshot import Amounts, Bools, Floats
from rescheduler.planning.feasibility.plugins.pod_topology_spread import (
    effective_selector,
    is_empty,
)
from rescheduler.planning.feasibility.volume_claims import ZONE
from rescheduler.simulation.cluster.scheduler.default_selectors import DefaultSelectors
from rescheduler.simulation.cluster.scheduler.plugins.score_plugin import MAX_SCORE, Nodes
from rescheduler.simulation.cluster.scheduler.scheduler_cache import SchedulerCache

_HOSTNAME = "kubernetes.io/hostname"
_BY_DEFAULT = (
    TopologySpreadConstraint(max_skew=3, topology_key=_HOSTNAME),
    TopologySpreadConstraint(max_skew=5, topology_key=ZONE),
)


class SoftConstraint(NamedTuple):
    """A constraint, and the selector of the pods that it spreads."""

    constraint: TopologySpreadConstraint
    selector: LabelSelector | None


class PodTopologySpread:
    """Prefers nodes in domains with fewer of the pods to be spread."""

    name = "PodTopologySpread"
    weight = 2

    def __init__(self, cluster: SchedulerCache, groups: DefaultSelectors) -> None:
        self._cluster = cluster
        self._groups = groups

    def points(self, template: int, nodes: Nodes) -> Amounts | None:
        newcomer = self._cluster.templates[template]
        wishes = self._wishes(newcomer)
        if not wishes:
            return None
        has_labels = self._has_labels(wishes, needs_all=bool(newcomer.spread))
        scored = has_labels[nodes]
        crowd: Floats = np.zeros(len(nodes), np.float64)
        for wish in wishes:
            crowd += self._crowd(template, wish, has_labels, nodes)
        return normalized_scores(np.floor(crowd + 0.5).astype(np.int64), scored)

    def _wishes(self, newcomer: PodTemplate) -> Sequence[SoftConstraint]:
        if newcomer.spread:
            return [
                SoftConstraint(each, effective_selector(each, newcomer))
                for each in newcomer.spread
                if each.when_unsatisfiable == "ScheduleAnyway"
            ]
        selector = self._groups.selector_for(newcomer)
        return [] if selector is None else [SoftConstraint(each, selector) for each in _BY_DEFAULT]

    def _has_labels(self, wishes: Sequence[SoftConstraint], needs_all: bool) -> Bools:
        labels = self._cluster.checker.view.node_labels
        has_labels = np.ones(len(labels), bool)
        if needs_all:
            for wish in wishes:
                has_labels &= labels.column(wish.constraint.topology_key).codes >= 0
        return has_labels

    def _crowd(
        self, template: int, wish: SoftConstraint, has_labels: Bools, nodes: Nodes
    ) -> Floats:
        """How many of the pods share a domain with each of the nodes, in the plugin's measure."""
        key = wish.constraint.topology_key
        domain_of = self._cluster.checker.view.node_labels.column(key).codes
        matching = self._matching(template, wish.selector)
        if key == _HOSTNAME:
            counts = matching[nodes]
            domains = int(has_labels[nodes].sum())
        else:
            # A node without the label is in a domain with all others of that kind.
            domains = len(np.unique(domain_of[nodes[has_labels[nodes]]]))
            counted = has_labels & self._cluster.checker.spread.nodes_by_policy(
                template, wish.constraint
            )
            per_domain = np.bincount(
                domain_of[counted] + 1, matching[counted], minlength=domain_of.max(initial=0) + 2
            )
            counts = per_domain[domain_of[nodes] + 1]
        crowd = counts * log(domains + 2) + (wish.constraint.max_skew - 1)
        return np.where(domain_of[nodes] >= 0, crowd, 0.0)

    def _matching(self, template: int, selector: LabelSelector | None) -> Amounts:
        """How many of the pods to be spread each node has. An empty selector means none."""
        templates = self._cluster.templates
        namespace = templates[template].namespace
        found = [] if selector is None or is_empty(selector) else self._selected(selector)
        return self._cluster.counts.per_node(
            [each for each in found if templates[each].namespace == namespace],
            with_terminating=False,
        )

    def _selected(self, selector: LabelSelector) -> list[int]:
        return self._cluster.known_templates.index.selected_by(selector)


def normalized_scores(crowd: Amounts, scored: Bools) -> Amounts:
    """Points by how much less crowded a node is than the most crowded; none if not `scored`."""
    if not scored.any():
        return np.zeros(len(crowd), np.int64)
    least, most = int(crowd[scored].min()), int(crowd[scored].max())
    if most == 0:
        return np.where(scored, MAX_SCORE, 0)
    return np.where(scored, MAX_SCORE * (most + least - crowd) // most, 0)
