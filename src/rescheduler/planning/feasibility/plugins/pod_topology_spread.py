"""PodTopologySpread: matching pods lie evenly over the domains of a label, such as zones.

A node is refused if its domain would then hold more than `maxSkew` matching pods more than the
domain that holds the fewest. Only domains with a node that the pod could use are compared; with
fewer of them than `minDomains`, the fewest counts as none. All of a pod's constraints are checked
together: a node without one of their labels counts for none of them.

Pods that are being deleted do not count. An empty selector counts no pod but the newcomer.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rescheduler.model.objects import LabelSelector, Requirement, TopologySpreadConstraint
from rescheduler.model.pod_templates import PodTemplate
from rescheduler.model.selectors import selects
from rescheduler.model.snapshot import Bools, Ints
from rescheduler.planning.feasibility.filter_plugin import SharedLister
from rescheduler.planning.feasibility.plugins.node_affinity import NodeAffinity
from rescheduler.planning.feasibility.plugins.taint_toleration import TaintToleration


@dataclass(eq=False)
class SpreadCounts:
    """One constraint of one template, and how matching pods lie at the moment."""

    constraint: TopologySpreadConstraint
    selector: LabelSelector | None
    used_by: int
    matches_itself: bool
    domain_of_node: Ints
    counted_nodes: Bools
    """Nodes whose pods count: the pod could use them, as far as the constraint's policies say."""
    counted_domains: Bools
    counts: npt.NDArray[np.int32]

    def add(self, node: int, count: int) -> None:
        if self.counted_nodes[node]:
            self.counts[self.domain_of_node[node]] += count

    def fewest(self) -> int:
        """What the emptiest domain holds."""
        counts = self.counts[self.counted_domains]
        if len(counts) < (self.constraint.min_domains or 1):
            return 0
        return int(counts.min())

    def is_worse_after(self, source: int, target: int) -> bool:
        """Whether a matching pod that moves leaves more pods too many in some domain."""
        counts = self.counts.copy()
        if self.counted_nodes[source]:
            counts[self.domain_of_node[source]] -= 1
        if self.counted_nodes[target]:
            counts[self.domain_of_node[target]] += 1
        return bool((self._too_many(counts) > self._too_many(self.counts)).any())

    def _too_many(self, counts: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """By domain, how many pods are beyond the allowed difference."""
        counts = counts[self.counted_domains]
        is_short = len(counts) < (self.constraint.min_domains or 1)
        fewest = 0 if is_short else int(counts.min())
        return np.maximum(counts - fewest - self.constraint.max_skew, 0)

    def refuses(self, node: int) -> bool:
        domain = self.domain_of_node[node]
        if domain < 0:
            return True
        most = self.constraint.max_skew + self.fewest() - self.matches_itself
        return bool(self.counts[domain] > most)

    def refused(self) -> Bools:
        most = self.constraint.max_skew + self.fewest() - self.matches_itself
        # One entry more than there are domains: nodes without the label, coded -1, look it up.
        is_refused = np.append(self.counts > most, True)
        return is_refused[self.domain_of_node]


class PodTopologySpread:
    """Refuses nodes where one more pod would exceed the allowed skew."""

    name = "PodTopologySpread"

    def __init__(
        self, lister: SharedLister, node_affinity: NodeAffinity, taint_toleration: TaintToleration
    ) -> None:
        self._lister = lister
        self._node_affinity = node_affinity
        self._taint_toleration = taint_toleration
        self._spreads_of: dict[int, list[SpreadCounts]] = {}
        # Which counts a pod of a template enters, filled in as counts are built.
        self._counting: defaultdict[int, list[SpreadCounts]] = defaultdict(list)
        self._spreads_in: defaultdict[str, list[SpreadCounts]] = defaultdict(list)

    def reset(self) -> None:
        """Count again when next asked: other nodes may count now."""
        self._spreads_of.clear()
        self._counting.clear()
        self._spreads_in.clear()

    def add_template(self, template: int) -> None:
        """Let existing counts count pods of a new template, too."""
        newcomer = self._lister.snapshot.templates[template]
        for spread in self._spreads_in[newcomer.namespace]:
            if selects(spread.selector, newcomer.labels):
                self._counting[template].append(spread)
        self.__dict__.pop("_constrained_in", None)

    def refused(self, template: int) -> Bools | None:
        spreads = self._spreads_for(template)
        if not spreads:
            return None
        return np.asarray(np.logical_or.reduce([spread.refused() for spread in spreads]))

    def refuses(self, template: int, node: int) -> bool:
        """Whether `refused` has this node, without asking about all others."""
        return any(spread.refuses(node) for spread in self._spreads_for(template))

    def reason(self, template: int, node: int) -> str:
        for spread in self._spreads_for(template):
            key = spread.constraint.topology_key
            domain = int(spread.domain_of_node[node])
            if domain < 0:
                return f"the node has no label {key}, over which the pod must be spread"
            if spread.refused()[node]:
                value = self._lister.snapshot.nodes.objects[node].metadata.labels[key]
                return (
                    f"{key}={value} would hold {spread.counts[domain] + spread.matches_itself} "
                    f"matching pods where the fewest is {spread.fewest()} "
                    f"and the most allowed difference {spread.constraint.max_skew}"
                )
        raise AssertionError("asked why of a node that is not refused")

    def count_pods(self, template: int, node: int, count: int, terminating: bool) -> None:
        """Pods of this template came to the node, or left it if `count` is negative."""
        if not terminating:
            for spread in self._counting[template]:
                spread.add(node, count)

    def would_worsen_spread(self, template: int, source: int, target: int) -> bool:
        """Whether such a pod's move makes the spread of some pods worse than it is."""
        namespace = self._lister.snapshot.templates[template].namespace
        for other in self._constrained_in[namespace]:
            self._spreads_for(other)
        return any(spread.is_worse_after(source, target) for spread in self._counting[template])

    @cached_property
    def _constrained_in(self) -> defaultdict[str, list[int]]:
        """Templates with hard constraints, by namespace: they count pods of their own only."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for number, template in enumerate(self._lister.snapshot.templates):
            if hard_constraints(template):
                found[template.namespace].append(number)
        return found

    def spreads(self, templates: Iterable[int]) -> dict[int, list[SpreadCounts]]:
        """For each of these templates, the hard constraints of any of them that count its pods."""
        templates = list(templates)
        known = [spread for template in templates for spread in self._spreads_for(template)]
        return {
            template: [spread for spread in self._counting[template] if spread in known]
            for template in templates
        }

    def affected(self, template: int) -> Iterable[int]:
        """Templates whose answers may change when a pod of this one comes or goes."""
        return [spread.used_by for spread in self._counting[template]]

    def _spreads_for(self, template: int) -> list[SpreadCounts]:
        spreads = self._spreads_of.get(template)
        if spreads is None:
            hard = hard_constraints(self._lister.snapshot.templates[template])
            usable = self._nodes_with_all_labels(hard)
            spreads = [self._build(template, constraint, usable) for constraint in hard]
            self._spreads_of[template] = spreads
        return spreads

    def _build(
        self, template: int, constraint: TopologySpreadConstraint, usable: Bools
    ) -> SpreadCounts:
        newcomer = self._lister.snapshot.templates[template]
        selector = effective_selector(constraint, newcomer)
        selected = self._lister.template_labels.selected_by(selector)
        counted_nodes = usable & self.nodes_by_policy(template, constraint)
        codes, code_of = self._lister.node_labels.column(constraint.topology_key)
        counted_domains = np.zeros(len(code_of), bool)
        counted_domains[codes[counted_nodes]] = True
        spread = SpreadCounts(
            constraint=constraint,
            selector=selector,
            used_by=template,
            matches_itself=bool(selected[template]),
            domain_of_node=codes,
            counted_nodes=counted_nodes,
            counted_domains=counted_domains,
            counts=np.zeros(len(code_of), np.int32),
        )
        if selector is not None and not is_empty(selector):
            self._spreads_in[newcomer.namespace].append(spread)
            self._count(
                spread, selected & self._lister.templates_in(frozenset([newcomer.namespace]))
            )
        return spread

    def _count(self, spread: SpreadCounts, matching: Bools) -> None:
        for template in np.flatnonzero(matching):
            self._counting[int(template)].append(spread)
        nodes = self._lister.pod_lister.nodes_of(matching, with_terminating=False)
        domains = spread.domain_of_node[nodes[spread.counted_nodes[nodes]]]
        spread.counts += np.bincount(domains, minlength=len(spread.counts)).astype(np.int32)

    def _nodes_with_all_labels(self, constraints: list[TopologySpreadConstraint]) -> Bools:
        usable = np.ones(len(self._lister.snapshot.nodes), bool)
        for constraint in constraints:
            usable &= self._lister.node_labels.column(constraint.topology_key).codes >= 0
        return usable

    def nodes_by_policy(self, template: int, constraint: TopologySpreadConstraint) -> Bools:
        """Nodes whose pods count, by what the constraint says of affinity and taints."""
        usable = np.ones(len(self._lister.snapshot.nodes), bool)
        if (constraint.node_affinity_policy or "Honor") == "Honor":
            refused = self._node_affinity.refused(template)
            usable &= True if refused is None else ~refused
        if (constraint.node_taints_policy or "Ignore") == "Honor":
            refused = self._taint_toleration.refused(template)
            usable &= True if refused is None else ~refused
        return usable


def hard_constraints(template: PodTemplate) -> list[TopologySpreadConstraint]:
    """Constraints that must hold; the others are preferences."""
    return [
        constraint
        for constraint in template.spread
        if constraint.when_unsatisfiable == "DoNotSchedule"
    ]


def effective_selector(
    constraint: TopologySpreadConstraint, template: PodTemplate
) -> LabelSelector | None:
    """The constraint's selector, narrowed to pods that share the labels in matchLabelKeys."""
    selector = constraint.label_selector
    if selector is None:
        return None
    shared = tuple(
        Requirement(key, "In", (template.labels[key],))
        for key in constraint.match_label_keys
        if key in template.labels
    )
    return LabelSelector(selector.match_labels, selector.match_expressions + shared)


def is_empty(selector: LabelSelector) -> bool:
    """Whether a selector would select everything."""
    return not selector.match_labels and not selector.match_expressions
