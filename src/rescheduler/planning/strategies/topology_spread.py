"""TopologySpread: replicas lie over zones and nodes as their constraints ask for.

Hard constraints come first, then soft ones; where nothing is declared, replicas of one workload
are kept apart over zones and nodes, unless the option `undeclared` is off.

Every constraint is one sum over its domains. A pod beyond what the emptiest domain holds plus the
allowed difference is one too many, and the second one too many in the same domain counts twice. So
a pod that cannot go to the emptiest domain still goes to one that is less crowded. Domains that the
pods cannot use, such as cordoned nodes, do not count.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from rescheduler.labels import HOSTNAME, ZONE
from rescheduler.model.objects import LabelSelector, TopologySpreadConstraint
from rescheduler.model.snapshot import Floats, Ints
from rescheduler.planning.feasibility.filter_plugin import key_of
from rescheduler.planning.feasibility.label_columns import LabelColumns
from rescheduler.planning.feasibility.plugins.pod_topology_spread import effective_selector
from rescheduler.planning.strategies.pod_term import PodTerm
from rescheduler.planning.strategies.strategy import RULE_VIOLATIONS, Strategy
from rescheduler.planning.strategies.strategy_context import StrategyContext
from rescheduler.planning.strategies.urgency import Urgency

# A constraint that must hold counts like overload, a soft one like a fraction of a node; replicas
# of workloads that declare nothing are worth a move, and not much more.
_HARD, _SOFT, _UNDECLARED = 1000.0, 0.5, 0.1
_UNDECLARED_SKEW = 1


class TopologySpread(Strategy):
    """Wants something of workloads, not of nodes."""

    name = "TopologySpread"
    measures = (RULE_VIOLATIONS,)

    def pod_terms(self, context: StrategyContext) -> Iterator[PodTerm]:
        weight = self.policy.strategy_weights.get(self.name, 1.0)
        self._uneven = UnevenSpread(context, self.policy.topology_spread.undeclared, weight)
        yield self._uneven

    def measured(self, used: Floats, movable: Ints, rule_cost: float) -> tuple[float]:
        return (self._uneven.surplus_pods(),)

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
    """-1 for nodes in no domain that the pods could use."""
    domains: int
    """How many there are that the pods could use."""
    counts: dict[int, int] = field(default_factory=dict)
    """By domain. Those without a pod are absent."""

    def add(self, node: int, count: int) -> None:
        """So many pods come to the node, or leave it."""
        domain = int(self.domain_of_node[node])
        if domain >= 0:
            self.counts[domain] = self.counts.get(domain, 0) + count
            if not self.counts[domain]:
                del self.counts[domain]

    @property
    def fewest(self) -> int:
        """What the emptiest domain holds."""
        return 0 if len(self.counts) < self.domains else min(self.counts.values())

    @property
    def is_uneven(self) -> bool:
        """Whether some domain holds too many pods."""
        return max(self.counts.values(), default=0) > self.fewest + self.max_skew

    @property
    def surplus(self) -> int:
        """How many pods are too many in their domains."""
        most = self.fewest + self.max_skew
        return sum(max(count - most, 0) for count in self.counts.values())

    def cost(self) -> float:
        """What it costs that the pods are where they are."""
        counts = np.fromiter(self.counts.values(), np.float64, len(self.counts))
        return self.weight * float(_crowding(counts - self.fewest - self.max_skew).sum())

    def gain_of_leaving(self, node: int) -> float:
        """What is gained if a pod leaves the node."""
        if self.domain_of_node[node] < 0:
            return 0.0
        before = self.cost()
        self.add(node, -1)
        after = self.cost()
        self.add(node, 1)
        return before - after

    def arrival_costs(self, source: int) -> Floats:
        """What it costs, on each node, if a pod comes there from the source."""
        self.add(source, -1)
        # Nodes in no domain look up the last entry.
        by_domain = np.zeros(int(self.domain_of_node.max(initial=-1)) + 2)
        most = self.fewest + self.max_skew
        held = np.fromiter(self.counts, np.int64, len(self.counts))
        over = np.fromiter(self.counts.values(), np.float64, len(self.counts)) - most
        by_domain[:-1] = self.weight * float(_crowding(np.array(1.0 - most)))
        by_domain[held] = self.weight * (_crowding(over + 1.0) - _crowding(over))
        for domain in self._only_emptiest():
            # The others may then hold one more.
            by_domain[domain] = self.weight * float((_crowding(over - 1.0) - _crowding(over)).sum())
        self.add(source, 1)
        return np.asarray(by_domain[self.domain_of_node])

    def _only_emptiest(self) -> list[int]:
        """The emptiest domain, if there is only one."""
        if len(self.counts) < self.domains - 1:
            return []
        if len(self.counts) == self.domains:
            fewest = self.fewest
            emptiest = [domain for domain, count in self.counts.items() if count == fewest]
        else:
            usable = np.unique(self.domain_of_node[self.domain_of_node >= 0]).tolist()
            emptiest = [domain for domain in usable if domain not in self.counts]
        return emptiest if len(emptiest) == 1 else []


def _crowding(over: Floats) -> Floats:
    """1 for one pod too many in a domain, 1 + 2 for two, 1 + 2 + 3 for three."""
    over = np.maximum(over, 0.0)
    return np.asarray(over * (over + 1.0) / 2.0)


class UnevenSpread(PodTerm):
    """The pods that are too many where they are, over all constraints."""

    urgency = Urgency.AT_RISK

    def __init__(self, context: StrategyContext, undeclared: bool, weight: float) -> None:
        """`weight` is that of the strategy; what must hold counts in full."""
        self._context = context
        self._weight = weight
        self._snapshot = context.snapshot
        self._names = context.workloads.names
        nodes, templates = self._snapshot.nodes.objects, self._snapshot.templates
        self._nodes = LabelColumns([node.metadata.labels for node in nodes])
        self._labels = LabelColumns([template.labels for template in templates])
        self._constraints_of: defaultdict[int, list[SpreadConstraint]] = defaultdict(list)
        self._find_declared()
        if undeclared:
            self._find_undeclared()
        self._uneven = {
            template
            for template, constraints in self._constraints_of.items()
            if any(constraint.is_uneven for constraint in constraints)
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
        weight = _HARD if is_hard else self._weight * _SOFT
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
                    weight = self._weight * _UNDECLARED
                    self._add(templates[0], templates, key, weight, _UNDECLARED_SKEW)

    def _pod_count(self, template: int) -> int:
        return len(self._context.nodes_of(template))

    def _add(
        self, template: int, matching: list[int], key: str, weight: float, max_skew: int
    ) -> None:
        codes = self._nodes.column(key).codes
        usable = np.unique(codes[~self._context.always_refused(template) & (codes >= 0)])
        if len(usable) < 2:
            return
        constraint = SpreadConstraint(
            what=self._names[template] or self._snapshot.templates[template].namespace,
            key=key,
            weight=weight,
            max_skew=max_skew,
            domain_of_node=np.where(np.isin(codes, usable), codes, -1).astype(np.int32),
            domains=len(usable),
        )
        for other in matching:
            for node in self._context.nodes_of(other).tolist():
                constraint.add(node, 1)
            self._constraints_of[other].append(constraint)

    # ------------------------------------------------------------ as a term of the objective

    def total(self) -> float:
        return sum(constraint.cost() for constraint in self._constraints())

    def surplus_pods(self) -> int:
        """How many pods are too many where they are now; one may count for several constraints."""
        return sum(constraint.surplus for constraint in self._constraints())

    def _constraints(self) -> Iterable[SpreadConstraint]:
        return {
            id(constraint): constraint
            for of_template in self._constraints_of.values()
            for constraint in of_template
        }.values()

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
            constraint.add(source, -1)
            constraint.add(target, 1)
        changed: set[int] = set()
        for other in self._sharing(template):
            changed.update(self._context.nodes_of(other).tolist())
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
            f"the emptiest {constraint.fewest}"
        )
