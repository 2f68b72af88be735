"""TopologySpread: replicas lie over zones and nodes as their constraints ask for.

Hard constraints come first, then soft ones; where nothing is declared, replicas of one workload
are kept apart over zones and nodes, unless the option `undeclared` is off.

Every constraint is one sum: how many of its pods are too many. That are those beyond what the
emptiest domain holds plus the allowed difference, in every domain.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from rescheduler.labels import HOSTNAME, ZONE
from rescheduler.model.objects import LabelSelector, TopologySpreadConstraint
from rescheduler.model.snapshot import Floats, Ints
from rescheduler.planning.feasibility.filter_plugin import key_of
from rescheduler.planning.feasibility.label_columns import LabelColumns
from rescheduler.planning.feasibility.plugins.pod_topology_spread import effective_selector
from rescheduler.planning.strategies.pod_term import PodTerm
from rescheduler.planning.strategies.strategy import Strategy
from rescheduler.planning.strategies.strategy_context import StrategyContext
from rescheduler.planning.strategies.urgency import Urgency

# A constraint that must hold counts like overload, a soft one like a fraction of a node; replicas
# of workloads that declare nothing are worth a move, and not much more.
_HARD, _SOFT, _UNDECLARED = 1000.0, 0.5, 0.1
_UNDECLARED_SKEW = 1


class TopologySpread(Strategy):
    """Wants something of workloads, not of nodes."""

    name = "TopologySpread"
    urgency = Urgency.AT_RISK

    def pod_terms(self, context: StrategyContext) -> Iterator[PodTerm]:
        yield UnevenSpread(context, self.policy.topology_spread.undeclared)

    def idle_reason(self, used: Floats) -> str:
        return "replicas lie over zones and nodes as evenly as asked for"


@dataclass(eq=False)
class SpreadConstraint:
    """One constraint, and how many of its pods each domain holds at the moment."""

    what: str
    """For people: whose replicas."""
    key: str
    weight: float
    max_skew: int
    domain_of_node: Ints
    domains: int
    """How many there are that the pods could use."""
    counts: Counter[int] = field(default_factory=Counter)

    def fewest(self, counts: Counter[int]) -> int:
        """What the emptiest domain holds."""
        return 0 if len(counts) < self.domains else min(counts.values())

    def excess(self, counts: Counter[int]) -> int:
        """How many pods are too many where they are."""
        most = self.fewest(counts) + self.max_skew
        return sum(count - most for count in counts.values() if count > most)

    def without(self, node: int) -> Counter[int]:
        """The counts as they would be with a pod of the node less."""
        counts = self.counts.copy()
        domain = int(self.domain_of_node[node])
        counts[domain] -= 1
        if not counts[domain]:
            del counts[domain]
        return counts

    def gain_of_leaving(self, node: int) -> float:
        """What is gained if a pod leaves the node."""
        if self.domain_of_node[node] < 0:
            return 0.0
        return self.weight * (self.excess(self.counts) - self.excess(self.without(node)))

    def arrival_costs(self, source: int) -> Floats:
        """What it costs, on each node, if a pod comes there from the source."""
        counts = self.without(source) if self.domain_of_node[source] >= 0 else self.counts
        before = self.excess(counts)
        by_domain = np.full(int(self.domain_of_node.max(initial=-1)) + 2, self._new_domain(counts))
        for domain in list(counts):
            more = counts.copy()
            more[domain] += 1
            by_domain[domain] = self.excess(more) - before
        # Nodes without the label look up the last entry.
        by_domain[-1] = 0.0
        return np.asarray(self.weight * by_domain[self.domain_of_node])

    def _new_domain(self, counts: Counter[int]) -> float:
        """What it costs if a pod comes to a domain that holds none."""
        more = counts.copy()
        more[-1] += 1
        return self.excess(more) - self.excess(counts)


class UnevenSpread(PodTerm):
    """The pods that are too many where they are, over all constraints."""

    urgency = Urgency.AT_RISK

    def __init__(self, context: StrategyContext, undeclared: bool) -> None:
        self._context = context
        self._snapshot = context.snapshot
        self._names = context.workloads.names
        nodes, templates = self._snapshot.nodes.objects, self._snapshot.templates
        self._nodes = LabelColumns([node.metadata.labels for node in nodes])
        self._labels = LabelColumns([template.labels for template in templates])
        self._constraints_of: defaultdict[int, list[SpreadConstraint]] = defaultdict(list)
        pods = self._snapshot.pods
        counted = np.flatnonzero(pods.placed & ~pods.deleting)
        by_template = counted[np.argsort(pods.template[counted], kind="stable")]
        self._pod_nodes = pods.node[by_template]
        self._first = np.searchsorted(pods.template[by_template], np.arange(len(templates) + 1))
        self._find_declared()
        if undeclared:
            self._find_undeclared()
        self._uneven = {
            template
            for template, constraints in self._constraints_of.items()
            if any(constraint.excess(constraint.counts) for constraint in constraints)
        }

    # ------------------------------------------------------------ which constraints there are

    def _find_declared(self) -> None:
        known: set[bytes] = set()
        for template, pod in enumerate(self._snapshot.templates):
            for constraint in pod.spread if self._pod_count(template) else ():
                selector = effective_selector(constraint, pod)
                key = key_of(pod.namespace, constraint, selector, pod.node_selector)
                if selector is not None and key not in known:
                    known.add(key)
                    self._add_declared(template, constraint, selector)

    def _add_declared(
        self, template: int, declared: TopologySpreadConstraint, selector: LabelSelector
    ) -> None:
        namespace = self._snapshot.templates[template].namespace
        matching = [
            int(other)
            for other in np.flatnonzero(self._labels.selected_by(selector))
            if self._snapshot.templates[int(other)].namespace == namespace
        ]
        is_hard = declared.when_unsatisfiable == "DoNotSchedule"
        weight = _HARD if is_hard else _SOFT
        self._add(template, matching, declared.topology_key, weight, declared.max_skew)

    def _find_undeclared(self) -> None:
        """Replicas of one owner, apart over zones and nodes, where nothing is said about it."""
        of_owner: defaultdict[str, list[int]] = defaultdict(list)
        for template, pod in enumerate(self._snapshot.templates):
            if pod.owner is not None and not pod.spread and pod.owner.kind != "DaemonSet":
                of_owner[self._names[template]].append(template)
        for templates in of_owner.values():
            replicas = sum(self._pod_count(template) for template in templates)
            if replicas > 1:
                for key in (ZONE, HOSTNAME):
                    self._add(templates[0], templates, key, _UNDECLARED, _UNDECLARED_SKEW)

    def _pod_count(self, template: int) -> int:
        return int(self._first[template + 1] - self._first[template])

    def _nodes_of(self, template: int) -> Ints:
        """The nodes of the template's pods at the start, a node as often as it has such pods."""
        return self._pod_nodes[self._first[template] : self._first[template + 1]]

    def _add(
        self, template: int, matching: list[int], key: str, weight: float, max_skew: int
    ) -> None:
        codes = self._nodes.column(key).codes
        usable = codes[~self._context.always_refused(template)]
        domains = len(np.unique(usable[usable >= 0]))
        if domains < 2:
            return
        constraint = SpreadConstraint(
            what=self._names[template] or self._snapshot.templates[template].namespace,
            key=key,
            weight=weight,
            max_skew=max_skew,
            domain_of_node=codes,
            domains=domains,
        )
        for other in matching:
            held = codes[self._nodes_of(other)]
            constraint.counts.update(held[held >= 0].tolist())
            self._constraints_of[other].append(constraint)

    # ------------------------------------------------------------ as a term of the objective

    def total(self) -> float:
        constraints = {
            id(constraint): constraint
            for of_template in self._constraints_of.values()
            for constraint in of_template
        }
        return sum(
            constraint.weight * constraint.excess(constraint.counts)
            for constraint in constraints.values()
        )

    def is_active(self) -> bool:
        return bool(self._uneven)

    def gain_bounds(self, templates: Ints, nodes: Ints) -> Floats:
        bounds = np.zeros(len(templates))
        for index, template in enumerate(templates.tolist()):
            if template in self._uneven:
                bounds[index] = self.gain_of_leaving(template, int(nodes[index]))
        return bounds

    def gain_of_leaving(self, template: int, node: int) -> float:
        constraints = self._constraints_of.get(template, ())
        return sum(constraint.gain_of_leaving(node) for constraint in constraints)

    def arrival_costs(self, template: int, source: int) -> Floats | None:
        constraints = self._constraints_of.get(template)
        if not constraints:
            return None
        return np.asarray(sum(constraint.arrival_costs(source) for constraint in constraints))

    def moved(self, template: int, source: int, target: int) -> set[int]:
        for constraint in self._constraints_of.get(template, ()):
            if constraint.domain_of_node[source] >= 0:
                constraint.counts = constraint.without(source)
            if constraint.domain_of_node[target] >= 0:
                constraint.counts[int(constraint.domain_of_node[target])] += 1
        changed: set[int] = set()
        for other in self._sharing(template):
            changed.update(self._nodes_of(other).tolist())
        return changed

    def _sharing(self, template: int) -> set[int]:
        """Uneven templates under one of the constraints of this one."""
        own = {id(constraint) for constraint in self._constraints_of.get(template, ())}
        return {
            other
            for other in self._uneven
            if any(id(constraint) in own for constraint in self._constraints_of[other])
        }

    def reason(self, template: int, node: int) -> str:
        constraint = max(
            self._constraints_of[template],
            key=lambda constraint: constraint.gain_of_leaving(node),
        )
        value = self._snapshot.nodes.objects[node].metadata.labels[constraint.key]
        count = constraint.counts[int(constraint.domain_of_node[node])]
        return (
            f"{constraint.key}={value} holds {count} pods of {constraint.what}, "
            f"the emptiest {constraint.fewest(constraint.counts)}"
        )
