"""InterPodAffinity: near the pods that the pod would like to be near, away from those it would not.

Wishes go both ways: what pods that are already placed say about the newcomer counts as much as
what it says about them, and if they *need* such company, that counts for 1.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from rescheduler.model.objects import PodAffinityTerm
from rescheduler.model.pod_templates import PodTemplate
from rescheduler.model.snapshot import Amounts
from rescheduler.planning.feasibility.filter_plugin import key_of
from rescheduler.planning.feasibility.plugins.inter_pod_affinity import required_affinity
from rescheduler.simulation.cluster.scheduler.plugins.score_plugin import MAX_SCORE, Nodes
from rescheduler.simulation.cluster.scheduler.scheduler_cache import SchedulerCache

_WEIGHT_OF_NEED = 1


@dataclass
class PodPreference:
    """What pods of some templates say about others near them."""

    namespace: str
    term: PodAffinityTerm
    weight_of: dict[int, int] = field(default_factory=dict)
    """By template: how much it means to its pods, negative if they would rather be apart."""


@dataclass
class MatchingPreferences:
    """The wishes that mean pods of one template, among those looked at so far."""

    looked_at: int = 0
    preferred_terms: list[PodPreference] = field(default_factory=list)


class InterPodAffinity:
    """Prefers nodes by the company there."""

    name = "InterPodAffinity"
    weight = 2

    def __init__(self, cluster: SchedulerCache) -> None:
        self._cluster = cluster
        self._known_templates = 0
        self._owned: dict[bytes, PodPreference] = {}
        self._in_order: list[PodPreference] = []
        self._admirers: dict[int, MatchingPreferences] = {}

    def points(self, template: int, nodes: Nodes) -> Amounts | None:
        self._learn_wishes()
        total = np.zeros(len(nodes), np.int64)
        for key, company in self._company(template):
            total += self._near(key, company)[nodes]
        least, most = int(total.min()), int(total.max())
        if least == most:
            return None
        return (MAX_SCORE * ((total - least) / (most - least))).astype(np.int64)

    def _company(self, template: int) -> Iterator[tuple[str, Amounts]]:
        """Topology keys, and how welcome the pods on each node are or make the newcomer."""
        newcomer = self._cluster.templates[template]
        counts = self._cluster.counts
        for term, weight in preferred_terms(newcomer):
            meant = self._meant_by(term, newcomer)
            if meant:
                yield term.topology_key, weight * counts.per_node(meant, with_terminating=True)
        for wish in self._wishes_about(template):
            for owner, weight in wish.weight_of.items():
                pods = counts.per_node([owner], with_terminating=True)
                yield wish.term.topology_key, weight * pods

    def _near(self, key: str, company: Amounts) -> Amounts:
        """What the company on all nodes of a domain adds up to, for each node of the domain."""
        codes, code_of = self._cluster.checker.view.node_labels.column(key)
        # Nodes without the label, coded -1, share the first entry, which counts for nothing.
        per_domain = np.bincount(codes + 1, company, minlength=len(code_of) + 1).astype(np.int64)
        per_domain[0] = 0
        return np.asarray(per_domain[codes + 1])

    def _meant_by(self, term: PodAffinityTerm, newcomer: PodTemplate) -> list[int]:
        neighbours, templates = self._cluster.checker.neighbours, self._cluster.templates
        return [
            number
            for number in self._cluster.known_templates.index.selected_by(term.label_selector)
            if neighbours.means(term, newcomer.namespace, templates[number])
        ]

    def _wishes_about(self, template: int) -> list[PodPreference]:
        """Wishes that mean pods of this template; each wish is looked at once."""
        admirers = self._admirers.setdefault(template, MatchingPreferences())
        newcomer, neighbours = self._cluster.templates[template], self._cluster.checker.neighbours
        for wish in self._in_order[admirers.looked_at :]:
            if neighbours.is_meant(newcomer, wish.term, wish.namespace):
                admirers.wishes.append(wish)
        admirers.looked_at = len(self._in_order)
        return admirers.wishes

    def _learn_wishes(self) -> None:
        templates = self._cluster.templates
        for owner in range(self._known_templates, len(templates)):
            needs = ((term, _WEIGHT_OF_NEED) for term in required_affinity(templates[owner]))
            for term, weight in (*needs, *preferred_terms(templates[owner])):
                key = key_of(templates[owner].namespace, term)
                if key not in self._owned:
                    self._owned[key] = PodPreference(templates[owner].namespace, term)
                    self._in_order.append(self._owned[key])
                weight_of = self._owned[key].weight_of
                weight_of[owner] = weight_of.get(owner, 0) + weight
        self._known_templates = len(templates)


def preferred_terms(template: PodTemplate) -> Iterator[tuple[PodAffinityTerm, int]]:
    """The terms of a template about company that its pods would like, or rather not have."""
    affinity = template.affinity
    if affinity is not None and affinity.pod_affinity is not None:
        for each in affinity.pod_affinity.preferred:
            yield each.pod_affinity_term, each.weight
    if affinity is not None and affinity.pod_anti_affinity is not None:
        for each in affinity.pod_anti_affinity.preferred:
            yield each.pod_affinity_term, -each.weight
