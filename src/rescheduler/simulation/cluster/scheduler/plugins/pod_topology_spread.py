"""PodTopologySpread: prefers topology domains with fewer matching pods.

The constraints are the pod's own soft ones (`ScheduleAnyway`). A pod without any constraint is
spread over nodes and zones together with the pods that its Services and its owner select.

A count is multiplied by the logarithm of the number of domains. With the pod's own constraints,
nodes that lack one of the labels score 0; with the default ones, that label is left out for them.
"""

from collections.abc import Sequence
from math import log
from typing import NamedTuple

import numpy as np

from rescheduler.labels import HOSTNAME, ZONE
from rescheduler.model.objects import LabelSelector, TopologySpreadConstraint
from rescheduler.model.pod_templates import PodTemplate
from rescheduler.model.snapshot import Bools, Floats, Int64s
from rescheduler.planning.feasibility.plugins.pod_topology_spread import (
    effective_selector,
    is_empty,
)
from rescheduler.simulation.cluster.scheduler.default_selectors import DefaultSelectors
from rescheduler.simulation.cluster.scheduler.plugins.score_plugin import MAX_SCORE, Nodes
from rescheduler.simulation.cluster.scheduler.scheduler_cache import SchedulerCache

_DEFAULT_CONSTRAINTS = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME),
    TopologySpreadConstraint(max_skew=5, topology_key=ZONE),
)


class SoftConstraint(NamedTuple):
    """A constraint, and the selector of the pods that it spreads."""

    constraint: TopologySpreadConstraint
    selector: LabelSelector | None


class PodTopologySpread:
    """Scores the matching pods in a node's domains, fewer being better."""

    name = "PodTopologySpread"
    weight = 2

    def __init__(self, cache: SchedulerCache, selectors: DefaultSelectors) -> None:
        self._cache = cache
        self._selectors = selectors

    def score(self, template: int, nodes: Nodes) -> Int64s | None:
        new_pod = self._cache.templates[template]
        constraints = self._constraints(new_pod)
        if not constraints:
            return None
        has_labels = self._has_labels(constraints, needs_all=bool(new_pod.spread))
        scored = has_labels[nodes]
        crowd: Floats = np.zeros(len(nodes), np.float64)
        for soft in constraints:
            crowd += self._crowd(template, soft, has_labels, nodes)
        return normalized_scores(np.floor(crowd + 0.5).astype(np.int64), scored)

    def _constraints(self, new_pod: PodTemplate) -> Sequence[SoftConstraint]:
        if new_pod.spread:
            return [
                SoftConstraint(constraint, effective_selector(constraint, new_pod))
                for constraint in new_pod.spread
                if constraint.when_unsatisfiable == "ScheduleAnyway"
            ]
        selector = self._selectors.selector_for(new_pod)
        return (
            []
            if selector is None
            else [SoftConstraint(constraint, selector) for constraint in _DEFAULT_CONSTRAINTS]
        )

    def _has_labels(self, constraints: Sequence[SoftConstraint], needs_all: bool) -> Bools:
        labels = self._cache.checker.lister.node_labels
        has_labels = np.ones(len(labels), bool)
        if needs_all:
            for soft in constraints:
                has_labels &= labels.column(soft.constraint.topology_key).codes >= 0
        return has_labels

    def _crowd(
        self, template: int, soft: SoftConstraint, has_labels: Bools, nodes: Nodes
    ) -> Floats:
        """The weighted number of matching pods in the domain of each node."""
        key = soft.constraint.topology_key
        domain_of = self._cache.checker.lister.node_labels.column(key).codes
        matching = self._matching(template, soft.selector)
        if key == HOSTNAME:
            counts = matching[nodes]
            domains = int(has_labels[nodes].sum())
        else:
            # A node without the label is in a domain with all others of that kind.
            domains = len(np.unique(domain_of[nodes[has_labels[nodes]]]))
            counted = has_labels & self._cache.checker.topology_spread.nodes_by_policy(
                template, soft.constraint
            )
            per_domain = np.bincount(
                domain_of[counted] + 1, matching[counted], minlength=domain_of.max(initial=0) + 2
            )
            counts = per_domain[domain_of[nodes] + 1]
        crowd = counts * log(domains + 2) + (soft.constraint.max_skew - 1)
        return np.where(domain_of[nodes] >= 0, crowd, 0.0)

    def _matching(self, template: int, selector: LabelSelector | None) -> Int64s:
        """How many matching pods each node has. An empty selector matches none."""
        templates = self._cache.templates
        namespace = templates[template].namespace
        found = [] if selector is None or is_empty(selector) else self._selected(selector)
        return self._cache.counts.per_node(
            [number for number in found if templates[number].namespace == namespace],
            with_terminating=False,
        )

    def _selected(self, selector: LabelSelector) -> list[int]:
        return self._cache.cached_templates.index.selected_by(selector)


def normalized_scores(crowd: Int64s, scored: Bools) -> Int64s:
    """Scores from 0 to 100: less crowded nodes score higher; nodes not `scored` get 0."""
    if not scored.any():
        return np.zeros(len(crowd), np.int64)
    least, most = int(crowd[scored].min()), int(crowd[scored].max())
    if most == 0:
        return np.where(scored, MAX_SCORE, 0)
    return np.where(scored, MAX_SCORE * (most + least - crowd) // most, 0)
