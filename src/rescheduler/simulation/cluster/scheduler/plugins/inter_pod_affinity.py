"""InterPodAffinity: prefers nodes by preferred pod affinity and anti-affinity.

Preferences count in both directions: those of existing pods about the new pod count as much as its
own. Required affinity of an existing pod to the new one counts as a preference of weight 1.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from rescheduler.model.objects import PodAffinityTerm
from rescheduler.model.pod_templates import PodTemplate
from rescheduler.model.snapshot import Int64s
from rescheduler.planning.feasibility.filter_plugin import key_of
from rescheduler.planning.feasibility.plugins.inter_pod_affinity import (
    preferred_terms,
    required_affinity,
)
from rescheduler.simulation.cluster.scheduler.plugins.score_plugin import MAX_SCORE, Nodes
from rescheduler.simulation.cluster.scheduler.scheduler_cache import SchedulerCache

_WEIGHT_OF_REQUIRED = 1


@dataclass
class PodPreference:
    """A term, and the templates whose pods have it."""

    namespace: str
    term: PodAffinityTerm
    weight_of: dict[int, int] = field(default_factory=dict)
    """By template: the weight, negative for anti-affinity."""


@dataclass
class MatchingPreferences:
    """Preferences about pods of one template, among the first `examined`."""

    examined: int = 0
    preferences: list[PodPreference] = field(default_factory=list)


class InterPodAffinity:
    """Scores the pods in a node's topology domains by their terms and the new pod's."""

    name = "InterPodAffinity"
    weight = 2

    def __init__(self, cache: SchedulerCache) -> None:
        self._cache = cache
        self._known_templates = 0
        self._by_term: dict[bytes, PodPreference] = {}
        self._in_order: list[PodPreference] = []
        self._about_template: dict[int, MatchingPreferences] = {}

    def score(self, template: int, nodes: Nodes) -> Int64s | None:
        self._add_preferences()
        total = np.zeros(len(nodes), np.int64)
        for key, weighted in self._weighted_pods(template):
            total += self._per_domain(key, weighted)[nodes]
        least, most = int(total.min()), int(total.max())
        if least == most:
            return None
        return (MAX_SCORE * ((total - least) / (most - least))).astype(np.int64)

    def _weighted_pods(self, template: int) -> Iterator[tuple[str, Int64s]]:
        """Topology keys, and per node the pods that count, times their weights."""
        new_pod = self._cache.templates[template]
        counts = self._cache.counts
        for term, weight in preferred_terms(new_pod):
            matching = self._matching(term, new_pod)
            if matching:
                yield term.topology_key, weight * counts.per_node(matching, with_terminating=True)
        for preference in self._preferences_about(template):
            for owner, weight in preference.weight_of.items():
                pods = counts.per_node([owner], with_terminating=True)
                yield preference.term.topology_key, weight * pods

    def _per_domain(self, key: str, weighted: Int64s) -> Int64s:
        """For each node, the sum over all nodes of its topology domain."""
        codes, code_of = self._cache.checker.lister.node_labels.column(key)
        # Nodes without the label, coded -1, share the first entry, which counts for nothing.
        per_domain = np.bincount(codes + 1, weighted, minlength=len(code_of) + 1).astype(np.int64)
        per_domain[0] = 0
        return np.asarray(per_domain[codes + 1])

    def _matching(self, term: PodAffinityTerm, new_pod: PodTemplate) -> list[int]:
        neighbours, templates = self._cache.checker.inter_pod_affinity, self._cache.templates
        return [
            number
            for number in self._cache.cached_templates.index.selected_by(term.label_selector)
            if neighbours.means(term, new_pod.namespace, templates[number])
        ]

    def _preferences_about(self, template: int) -> list[PodPreference]:
        """The preferences whose term matches pods of this template; each is matched once."""
        about = self._about_template.setdefault(template, MatchingPreferences())
        new_pod, neighbours = (
            self._cache.templates[template],
            self._cache.checker.inter_pod_affinity,
        )
        for preference in self._in_order[about.examined :]:
            if neighbours.is_meant(new_pod, preference.term, preference.namespace):
                about.preferences.append(preference)
        about.examined = len(self._in_order)
        return about.preferences

    def _add_preferences(self) -> None:
        templates = self._cache.templates
        for owner in range(self._known_templates, len(templates)):
            required = ((term, _WEIGHT_OF_REQUIRED) for term in required_affinity(templates[owner]))
            for term, weight in (*required, *preferred_terms(templates[owner])):
                key = key_of(templates[owner].namespace, term)
                if key not in self._by_term:
                    self._by_term[key] = PodPreference(templates[owner].namespace, term)
                    self._in_order.append(self._by_term[key])
                weight_of = self._by_term[key].weight_of
                weight_of[owner] = weight_of.get(owner, 0) + weight
        self._known_templates = len(templates)
