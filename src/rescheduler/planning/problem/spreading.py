"""How replicas lie over zones and nodes, and what could be better about it.

A *spread* is one wish: the pods that match a selector should differ by at most so many between the
domains of a topology. Its cost is how many pods are too many: beyond what the emptiest domain holds
plus the allowed difference, in every domain.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from rescheduler.model.objects import LabelSelector, TopologySpreadConstraint
from rescheduler.model.snapshot import Bools, Floats, Ints, Snapshot
from rescheduler.planning.feasibility.filter_plugin import key_of
from rescheduler.planning.feasibility.label_columns import LabelColumns
from rescheduler.planning.feasibility.plugins.pod_topology_spread import effective_selector
from rescheduler.planning.movability.workload_owners import WorkloadOwners

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"

# A constraint that must hold counts like overload, a wish like a fraction of a node; replicas of
# workloads that declare nothing are worth a move, and not much more.
_HARD, _SOFT, _UNDECLARED = 1000.0, 0.5, 0.1
_UNDECLARED_SKEW = 1


@dataclass(eq=False)
class Spread:
    """One wish, and how the pods that it means lie at the moment."""

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

    def relief(self, node: int) -> float:
        """What is gained if a pod leaves the node."""
        if self.domain_of_node[node] < 0:
            return 0.0
        return self.weight * (self.excess(self.counts) - self.excess(self.without(node)))

    def arrival(self, source: int) -> Floats:
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


class Spreading:
    """All the wishes about spread of a snapshot."""

    strategy = "TopologySpread"

    def __init__(
        self,
        snapshot: Snapshot,
        unusable: Callable[[int], Bools],
        workloads: WorkloadOwners,
        undeclared: bool,
    ) -> None:
        self._snapshot = snapshot
        self._unusable = unusable
        self._names = workloads.names
        self._nodes = LabelColumns([node.metadata.labels for node in snapshot.nodes.objects])
        self._labels = LabelColumns([each.labels for each in snapshot.templates])
        self._spreads_of: defaultdict[int, list[Spread]] = defaultdict(list)
        pods = snapshot.pods
        counted = np.flatnonzero(pods.placed & ~pods.deleting)
        by_template = counted[np.argsort(pods.template[counted], kind="stable")]
        self._pod_nodes = pods.node[by_template]
        self._first = np.searchsorted(
            pods.template[by_template], np.arange(len(snapshot.templates) + 1)
        )
        self._find_declared()
        if undeclared:
            self._find_undeclared()
        self._active = {
            template
            for template, spreads in self._spreads_of.items()
            if any(spread.excess(spread.counts) for spread in spreads)
        }

    # ------------------------------------------------------------ which wishes there are

    def _find_declared(self) -> None:
        known: set[bytes] = set()
        for template, pod in enumerate(self._snapshot.templates):
            for constraint in pod.spread if self._size(template) else ():
                selector = effective_selector(constraint, pod)
                key = key_of(pod.namespace, constraint, selector, pod.node_selector)
                if selector is not None and key not in known:
                    known.add(key)
                    self._make(template, constraint, selector)

    def _make(
        self, template: int, constraint: TopologySpreadConstraint, selector: LabelSelector
    ) -> None:
        namespace = self._snapshot.templates[template].namespace
        matching = [
            int(each)
            for each in np.flatnonzero(self._labels.selected_by(selector))
            if self._snapshot.templates[int(each)].namespace == namespace
        ]
        is_hard = constraint.when_unsatisfiable == "DoNotSchedule"
        weight = _HARD if is_hard else _SOFT
        self._count(template, matching, constraint.topology_key, weight, constraint.max_skew)

    def _find_undeclared(self) -> None:
        """Replicas of one owner, apart over zones and nodes, where nothing is said about it."""
        of_owner: defaultdict[str, list[int]] = defaultdict(list)
        for template, pod in enumerate(self._snapshot.templates):
            if pod.owner is not None and not pod.spread and pod.owner.kind != "DaemonSet":
                of_owner[self._names[template]].append(template)
        for templates in of_owner.values():
            replicas = sum(self._size(template) for template in templates)
            if replicas > 1:
                for key in (ZONE, HOST):
                    self._count(templates[0], templates, key, _UNDECLARED, _UNDECLARED_SKEW)

    def _size(self, template: int) -> int:
        return int(self._first[template + 1] - self._first[template])

    def _count(
        self, template: int, matching: list[int], key: str, weight: float, max_skew: int
    ) -> None:
        codes = self._nodes.column(key).codes
        usable = codes[~self._unusable(template)]
        domains = len(np.unique(usable[usable >= 0]))
        if domains < 2:
            return
        spread = Spread(
            what=self._names[template] or self._snapshot.templates[template].namespace,
            key=key,
            weight=weight,
            max_skew=max_skew,
            domain_of_node=codes,
            domains=domains,
        )
        for each in matching:
            nodes = self._pod_nodes[self._first[each] : self._first[each + 1]]
            held = codes[nodes]
            spread.counts.update(held[held >= 0].tolist())
            self._spreads_of[each].append(spread)

    # ------------------------------------------------------------ as a term of the objective

    def total(self) -> float:
        """What it costs that all pods are where they are."""
        spreads = {id(each): each for all_of in self._spreads_of.values() for each in all_of}
        return sum(each.weight * each.excess(each.counts) for each in spreads.values())

    def is_wanting(self) -> bool:
        """Whether some pods are too many where they are."""
        return bool(self._active)

    def promise(self, templates: Ints, nodes: Ints) -> Floats:
        """What is gained at most if a pod of each of these templates leaves its node."""
        promise = np.zeros(len(templates))
        for index, template in enumerate(templates.tolist()):
            if template in self._active:
                promise[index] = self.relief(template, int(nodes[index]))
        return promise

    def relief(self, template: int, node: int) -> float:
        """What is gained if such a pod leaves the node; less than nothing if it is missed."""
        return sum(each.relief(node) for each in self._spreads_of.get(template, ()))

    def arrival(self, template: int, source: int) -> Floats | None:
        """What it costs if such a pod goes from there to each node."""
        spreads = self._spreads_of.get(template)
        if not spreads:
            return None
        return np.asarray(sum(each.arrival(source) for each in spreads))

    def follow(self, template: int, source: int, target: int) -> set[int]:
        """A pod has moved; nodes whose pods now have more or less to gain by leaving."""
        touched: set[int] = set()
        for spread in self._spreads_of.get(template, ()):
            if spread.domain_of_node[source] >= 0:
                spread.counts = spread.without(source)
            if spread.domain_of_node[target] >= 0:
                spread.counts[int(spread.domain_of_node[target])] += 1
        for other in self._sharing(template):
            touched.update(self._pod_nodes[self._first[other] : self._first[other + 1]].tolist())
        return touched

    def _sharing(self, template: int) -> set[int]:
        mine = {id(each) for each in self._spreads_of.get(template, ())}
        return {
            other
            for other in self._active
            if any(id(each) in mine for each in self._spreads_of[other])
        }

    def reason(self, template: int, node: int) -> str:
        """Why such a pod should leave the node."""
        spread = max(self._spreads_of[template], key=lambda each: each.relief(node))
        value = self._snapshot.nodes.objects[node].metadata.labels[spread.key]
        count = spread.counts[int(spread.domain_of_node[node])]
        return (
            f"{spread.key}={value} holds {count} pods of {spread.what}, "
            f"the emptiest {spread.fewest(spread.counts)}"
        )
