"""InterPodAffinity: pods that a pod must be near, and pods that it must not be near.

Three things can refuse a node, each within a *domain*: the nodes that share the value of a label,
such as a zone or the node itself.
- Affinity: every term's domain must hold a pod that matches all of the terms together. The first
  pod of a group that matches its own terms may start anywhere that has the labels.
- Anti-affinity: no term's domain may hold a pod that matches that term.
- The anti-affinity of pods already placed: they exclude the newcomer.

A namespace that was deleted a moment ago may still have pods. An empty namespace selector means
them, too. For the terms of pods already placed, so does a selector that would match a namespace
without labels.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from rescheduler.model.objects import LabelSelector, PodAffinityTerm
from rescheduler.model.pod_templates import PodTemplate
from rescheduler.model.selectors import selects
from rescheduler.model.snapshot import Bools, Ints
from rescheduler.planning.feasibility.filter_plugin import SharedLister, key_of


class DomainCounts:
    """How many of certain pods each domain of a topology holds; domains with none are absent."""

    def __init__(self, domain_of_node: Ints, domains: int, nodes: Ints) -> None:
        self._domain_of_node = domain_of_node
        self._domains = domains
        present, counts = np.unique(domain_of_node[nodes], return_counts=True)
        self._counts = dict(zip(present.tolist(), counts.tolist(), strict=True))
        # Nodes without the label are in no domain.
        self._counts.pop(-1, None)

    def add(self, node: int, count: int) -> None:
        """Count pods that came to the node or, if negative, left it."""
        domain = int(self._domain_of_node[node])
        if domain >= 0:
            self._counts[domain] = self._counts.get(domain, 0) + count
            if self._counts[domain] == 0:
                del self._counts[domain]

    def near(self, node: int) -> int:
        """How many there are in the domain of the node."""
        return int(self._counts.get(int(self._domain_of_node[node]), 0))

    def are_together(self, node: int, other: int) -> bool:
        """Whether two nodes are in the same domain."""
        return bool(self._domain_of_node[node] == self._domain_of_node[other])

    def __bool__(self) -> bool:
        return bool(self._counts)

    def occupied(self, at_least: int = 1) -> Bools:
        """Nodes whose domain holds at least so many of the pods."""
        is_occupied = np.zeros(self._domains + 1, bool)
        is_occupied[[domain for domain, pods in self._counts.items() if pods >= at_least]] = True
        return is_occupied[self._domain_of_node]


@dataclass
class _Affinity:
    """The required affinity of some templates: counts of the pods that match all of its terms."""

    namespace: str
    terms: tuple[PodAffinityTerm, ...]
    matching: Bools
    counts_by_key: dict[str, DomainCounts]
    has_labels: Bools
    """Nodes that carry the labels of all terms."""
    used_by: list[int] = field(default_factory=list)
    users_by_key: dict[str, DomainCounts] | None = None
    """Counts of the pods that have this affinity, built when first asked for."""

    def would_be_broken(self, template: int, source: int, target: int) -> bool:
        """Whether some pod would lack a matching pod once such a pod has gone to the target."""
        assert self.users_by_key is not None
        for key, counts in self.counts_by_key.items():
            if counts.are_together(source, target):
                continue
            left = counts.near(source) - 1
            users = self.users_by_key[key].near(source) - (template in self.used_by)
            # A pod that matches its own terms is no company for itself while there are others.
            is_alone = left == 1 and users == 1 and bool(self.matching[self.used_by].any())
            if users > 0 and (left == 0 or is_alone):
                return True
        return False


@dataclass
class _AntiAffinity:
    """One term of required anti-affinity: counts of the pods that match it, or that have it."""

    namespace: str
    term: PodAffinityTerm
    counts: DomainCounts
    used_by: list[int] = field(default_factory=list)


@dataclass
class _ExistingAntiAffinity:
    """An anti-affinity term of placed pods: whose it is, and which templates it keeps away."""

    namespace: str
    term: PodAffinityTerm
    owners: list[int]
    keeps_away: list[int]
    counts: DomainCounts | None = None


@dataclass(frozen=True)
class AffinityRelations:
    """Which templates require or exclude each other's pods, known without counting."""

    apart_on_node: dict[int, set[int]]
    """For a template, those whose pods must not be on one node with its own."""
    beyond_node: set[int]
    """Templates that exclude, or are excluded by, pods in wider domains, or require affinity."""


class InterPodAffinity:
    """Refuses nodes by the pods nearby."""

    name = "InterPodAffinity"

    def __init__(self, lister: SharedLister) -> None:
        self._lister = lister
        self._affinity: dict[bytes, _Affinity] = {}
        self._affinity_of: dict[int, _Affinity] = {}
        self._has_counted_every_affinity = False
        self._one_node_keys: dict[str, bool] = {}
        self._anti: dict[bytes, _AntiAffinity] = {}
        self._anti_of: dict[int, list[_AntiAffinity]] = {}
        # Which counts a pod of a template enters, filled in as counts are built.
        self._affinity_counting: defaultdict[int, list[_Affinity]] = defaultdict(list)
        self._anti_counting: defaultdict[int, list[_AntiAffinity]] = defaultdict(list)
        self._existing_of: defaultdict[int, list[_ExistingAntiAffinity]] = defaultdict(list)
        self._kept_away_by: defaultdict[int, list[_ExistingAntiAffinity]] = defaultdict(list)
        self._existing: dict[bytes, _ExistingAntiAffinity] = {}
        for number in range(len(lister.snapshot.templates)):
            self._add_existing(number)

    def add_template(self, template: int) -> None:
        """Let existing counts count pods of a new template, too, and add its own terms."""
        newcomer = self._lister.snapshot.templates[template]
        for affinity in self._affinity.values():
            meant = all(self.means(term, affinity.namespace, newcomer) for term in affinity.terms)
            affinity.matching = np.append(affinity.matching, meant)
            if meant:
                self._affinity_counting[template].append(affinity)
        for anti in self._anti.values():
            if self.means(anti.term, anti.namespace, newcomer):
                self._anti_counting[template].append(anti)
        for existing in self._existing.values():
            if self.is_meant(newcomer, existing.term, existing.namespace):
                existing.keeps_away.append(template)
                self._kept_away_by[template].append(existing)
        self._add_existing(template)

    def refused(self, template: int) -> Bools | None:
        return _any_of([part for part in self.refused_by_part(template) if part is not None])

    def refuses(self, template: int, node: int) -> bool:
        """Whether `refused` has this node, without asking about all others."""
        return (
            self._lacks_affinity(template, node)
            or any(anti.counts.near(node) > 0 for anti in self._anti_for(template))
            or any(counts.near(node) > 0 for counts in self._existing_counts(template))
        )

    def lacking_company(self, template: int) -> Bools | None:
        """Nodes where such a pod may have no other that its affinity requires; None: none."""
        affinity = self._affinity_for(template)
        if affinity is None or not affinity.matching[template]:
            return None
        counts = affinity.counts_by_key.values()
        return np.asarray(~np.logical_and.reduce([each.occupied(at_least=2) for each in counts]))

    def is_skipped(self, template: int) -> bool:
        """Whether the scheduler does not ask this plugin about such a pod.

        It decides that from placed pods. Then the anti-affinity of a pod that is only nominated
        keeps nobody away.
        """
        newcomer = self._lister.snapshot.templates[template]
        if required_affinity(newcomer) or required_anti_affinity(newcomer):
            return False
        return self._against_existing_anti_affinity(template) is None

    def refused_by_part(self, template: int) -> tuple[Bools | None, Bools | None, Bools | None]:
        """Nodes refused by affinity, by anti-affinity, and by anti-affinity of existing pods."""
        return (
            self._lacking_affinity(template),
            self._against_anti_affinity(template),
            self._against_existing_anti_affinity(template),
        )

    def reason(self, template: int, node: int) -> str:
        lacking = self._lacking_affinity(template)
        if lacking is not None and lacking[node]:
            return "no pod that the pod's required affinity asks for is near the node"
        unwanted = self._against_anti_affinity(template)
        if unwanted is not None and unwanted[node]:
            return "a pod that the pod's anti-affinity excludes is near the node"
        return "a pod near the node has an anti-affinity that excludes this pod"

    def count_pods(self, template: int, node: int, count: int, terminating: bool) -> None:
        """Pods of this template came to the node, or left it if `count` is negative."""
        for affinity in self._affinity_counting[template]:
            for counts in affinity.counts_by_key.values():
                counts.add(node, count)
        own = self._affinity_of.get(template)
        if own is not None and own.users_by_key is not None:
            for counts in own.users_by_key.values():
                counts.add(node, count)
        for anti in self._anti_counting[template]:
            anti.counts.add(node, count)
        for existing in self._existing_of[template]:
            if existing.counts is not None:
                existing.counts.add(node, count)

    def affected(self, template: int) -> Iterable[int]:
        """Templates whose answers may change when a pod of this one comes or goes."""
        for affinity in self._affinity_counting[template]:
            yield from affinity.used_by
        for anti in self._anti_counting[template]:
            yield from anti.used_by
        for existing in self._existing_of[template]:
            yield from existing.keeps_away

    def relations(self) -> AffinityRelations:
        """Which templates require or exclude each other's pods, known without counting."""
        apart: defaultdict[int, set[int]] = defaultdict(set)
        elsewhere = {
            number
            for number, template in enumerate(self._lister.snapshot.templates)
            if required_affinity(template)
        }
        for existing in {
            id(term): term for terms in self._existing_of.values() for term in terms
        }.values():
            if self._is_of_one_node(existing.term.topology_key):
                for owner in existing.owners:
                    apart[owner].update(existing.keeps_away)
                for template in existing.keeps_away:
                    apart[template].update(existing.owners)
            else:
                elsewhere.update(existing.owners, existing.keeps_away)
        return AffinityRelations(dict(apart), elsewhere)

    def _is_of_one_node(self, topology_key: str) -> bool:
        """Whether every domain of the topology is one node, as it is for host names."""
        if topology_key not in self._one_node_keys:
            codes = self._lister.node_labels.column(topology_key).codes
            labelled = bool((codes >= 0).all())
            self._one_node_keys[topology_key] = labelled and len(np.unique(codes)) == len(codes)
        return self._one_node_keys[topology_key]

    def would_break_affinity(self, template: int, source: int, target: int) -> bool:
        """Whether a pod that stays loses its required affinity if such a pod moves there."""
        self._count_every_affinity()
        return any(
            affinity.would_be_broken(template, source, target)
            for affinity in self._affinity_counting[template]
        )

    def _count_every_affinity(self) -> None:
        """Build the counts of every required affinity, not only of those asked about so far."""
        if self._has_counted_every_affinity:
            return
        self._has_counted_every_affinity = True
        for number, template in enumerate(self._lister.snapshot.templates):
            if required_affinity(template):
                self._affinity_for(number)
        for affinity in self._affinity.values():
            users = np.zeros(len(self._lister.snapshot.templates), bool)
            users[affinity.used_by] = True
            affinity.users_by_key = {
                key: self._counts(key, users) for key in affinity.counts_by_key
            }

    # ------------------------------------------------------------ the three reasons to refuse

    def _lacking_affinity(self, template: int) -> Bools | None:
        affinity = self._affinity_for(template)
        if affinity is None:
            return None
        counts = affinity.counts_by_key.values()
        if affinity.matching[template] and not any(counts):
            return np.logical_not(affinity.has_labels)
        return np.asarray(~np.logical_and.reduce([domains.occupied() for domains in counts]))

    def _lacks_affinity(self, template: int, node: int) -> bool:
        affinity = self._affinity_for(template)
        if affinity is None:
            return False
        counts = affinity.counts_by_key.values()
        if affinity.matching[template] and not any(counts):
            return not affinity.has_labels[node]
        return any(domains.near(node) == 0 for domains in counts)

    def _against_anti_affinity(self, template: int) -> Bools | None:
        occupied = [anti.counts.occupied() for anti in self._anti_for(template) if anti.counts]
        return _any_of(occupied)

    def _against_existing_anti_affinity(self, template: int) -> Bools | None:
        return _any_of([counts.occupied() for counts in self._existing_counts(template) if counts])

    def _existing_counts(self, template: int) -> Iterator[DomainCounts]:
        """Counts of the pods that keep those of the template away."""
        for existing in self._kept_away_by[template]:
            if existing.counts is None:
                owners = np.zeros(len(self._lister.snapshot.templates), bool)
                owners[existing.owners] = True
                existing.counts = self._counts(existing.term.topology_key, owners)
            yield existing.counts

    # ------------------------------------------------------------ building counts, each once

    def _affinity_for(self, template: int) -> _Affinity | None:
        if template in self._affinity_of:
            return self._affinity_of[template]
        newcomer = self._lister.snapshot.templates[template]
        terms = required_affinity(newcomer)
        if not terms:
            return None
        key = key_of(newcomer.namespace, *terms)
        affinity = self._affinity.get(key)
        if affinity is None:
            affinity = self._affinity[key] = self._build_affinity(newcomer.namespace, terms)
            for counted in np.flatnonzero(affinity.matching):
                self._affinity_counting[int(counted)].append(affinity)
        affinity.used_by.append(template)
        self._affinity_of[template] = affinity
        return affinity

    def _build_affinity(self, namespace: str, terms: tuple[PodAffinityTerm, ...]) -> _Affinity:
        matching = np.logical_and.reduce([self.matching(term, namespace) for term in terms])
        keys = {term.topology_key for term in terms}
        domains = [self._lister.node_labels.column(key).codes for key in keys]
        return _Affinity(
            namespace,
            terms,
            matching,
            {key: self._counts(key, matching) for key in keys},
            np.logical_and.reduce([codes >= 0 for codes in domains]),
        )

    def _anti_for(self, template: int) -> list[_AntiAffinity]:
        terms = self._anti_of.get(template)
        if terms is None:
            newcomer = self._lister.snapshot.templates[template]
            terms = [
                self._build_anti(template, newcomer.namespace, term)
                for term in required_anti_affinity(newcomer)
            ]
            self._anti_of[template] = terms
        return terms

    def _build_anti(self, template: int, namespace: str, term: PodAffinityTerm) -> _AntiAffinity:
        key = key_of(namespace, term)
        anti = self._anti.get(key)
        if anti is None:
            matching = self.matching(term, namespace)
            counts = self._counts(term.topology_key, matching)
            anti = self._anti[key] = _AntiAffinity(namespace, term, counts)
            for counted in np.flatnonzero(matching):
                self._anti_counting[int(counted)].append(anti)
        anti.used_by.append(template)
        return anti

    def _counts(self, topology_key: str, templates: Bools) -> DomainCounts:
        column = self._lister.node_labels.column(topology_key)
        nodes = self._lister.pod_lister.nodes_of(templates, with_terminating=True)
        return DomainCounts(column.codes, len(column.code_of), nodes)

    def _add_existing(self, owner: int) -> None:
        """Keep every anti-affinity term that some pod has, once, with the templates it excludes."""
        template = self._lister.snapshot.templates[owner]
        # A pod may have the same term twice; it still counts once.
        terms = {
            key_of(template.namespace, term): term for term in required_anti_affinity(template)
        }
        for key, term in terms.items():
            existing = self._existing.get(key)
            if existing is None:
                existing = self._existing[key] = self._build_existing(template.namespace, term)
            existing.owners.append(owner)
            self._existing_of[owner].append(existing)

    def _build_existing(self, namespace: str, term: PodAffinityTerm) -> _ExistingAntiAffinity:
        keeps_away = self._lister.template_labels.selected_by(term.label_selector)
        keeps_away = keeps_away & self._in_namespaces_seen_by_owner(term, namespace)
        existing = _ExistingAntiAffinity(namespace, term, [], np.flatnonzero(keeps_away).tolist())
        for template in existing.keeps_away:
            self._kept_away_by[template].append(existing)
        return existing

    # ------------------------------------------------------------ which pods a term means

    def matching(self, term: PodAffinityTerm, namespace: str) -> Bools:
        """Templates whose pods a newcomer's term means."""
        selected = self._lister.template_labels.selected_by(term.label_selector)
        selector = term.namespace_selector
        if selector is not None and _selects_everything(selector):
            return selected
        return selected & self._lister.templates_in(
            self._named(term, namespace) | self._namespaces_selected_by(selector)
        )

    def means(self, term: PodAffinityTerm, namespace: str, template: PodTemplate) -> bool:
        """Whether a newcomer's term means pods of this one template."""
        if not selects(term.label_selector, template.labels):
            return False
        selector = term.namespace_selector
        if selector is not None and _selects_everything(selector):
            return True
        named = self._named(term, namespace)
        return template.namespace in named | self._namespaces_selected_by(selector)

    def is_meant(self, template: PodTemplate, term: PodAffinityTerm, owner_namespace: str) -> bool:
        """Whether a placed pod's term means pods of this one template."""
        if not selects(term.label_selector, template.labels):
            return False
        selector = term.namespace_selector
        namespaces = self._named(term, owner_namespace)
        if template.namespace in namespaces | self._namespaces_selected_by(selector):
            return True
        is_unknown = template.namespace not in self._lister.snapshot.namespaces
        return is_unknown and selects(selector, {})

    def _in_namespaces_seen_by_owner(self, term: PodAffinityTerm, namespace: str) -> Bools:
        """Templates in a namespace that a placed pod's term means."""
        selector = term.namespace_selector
        namespaces = self._named(term, namespace) | self._namespaces_selected_by(selector)
        if selector is not None and selects(selector, {}):
            used = {template.namespace for template in self._lister.snapshot.templates}
            namespaces |= used.difference(self._lister.snapshot.namespaces)
        return self._lister.templates_in(namespaces)

    def _named(self, term: PodAffinityTerm, namespace: str) -> frozenset[str]:
        if not term.namespaces and term.namespace_selector is None:
            return frozenset([namespace])
        return frozenset(term.namespaces)

    def _namespaces_selected_by(self, selector: LabelSelector | None) -> frozenset[str]:
        if selector is None:
            return frozenset()
        return frozenset(
            name
            for name, namespace in self._lister.snapshot.namespaces.items()
            if selects(selector, namespace.metadata.labels)
        )


def _selects_everything(selector: LabelSelector) -> bool:
    return not selector.match_labels and not selector.match_expressions


def _any_of(masks: list[Bools]) -> Bools | None:
    return np.asarray(np.logical_or.reduce(masks)) if masks else None


def required_affinity(template: PodTemplate) -> tuple[PodAffinityTerm, ...]:
    """Terms of which each must find a matching pod nearby."""
    if template.affinity is None or template.affinity.pod_affinity is None:
        return ()
    return template.affinity.pod_affinity.required


def required_anti_affinity(template: PodTemplate) -> tuple[PodAffinityTerm, ...]:
    """Terms of which none may find a matching pod nearby."""
    if template.affinity is None or template.affinity.pod_anti_affinity is None:
        return ()
    return template.affinity.pod_anti_affinity.required


def preferred_terms(template: PodTemplate) -> Iterator[tuple[PodAffinityTerm, int]]:
    """The preferred terms of a template and their weights, negative for anti-affinity."""
    affinity = template.affinity
    if affinity is not None and affinity.pod_affinity is not None:
        for weighted_term in affinity.pod_affinity.preferred:
            yield weighted_term.pod_affinity_term, weighted_term.weight
    if affinity is not None and affinity.pod_anti_affinity is not None:
        for weighted_term in affinity.pod_anti_affinity.preferred:
            yield weighted_term.pod_affinity_term, -weighted_term.weight
