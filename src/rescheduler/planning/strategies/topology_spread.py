"""TopologySpread: replicas lie over zones and nodes as their constraints ask for.

Hard constraints come first, then soft ones; where nothing is declared, replicas of one workload
are kept apart over zones and nodes, unless the option `undeclared` is off.

Every constraint is one sum over its domains. A pod beyond what the emptiest domain holds plus the
allowed difference is one too many, and the second one too many in the same domain counts twice. So
a pod that cannot go to the emptiest domain still goes to one that is less crowded. Domains that the
pods cannot use, such as cordoned nodes, do not count.
"""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from rescheduler.labels import HOSTNAME, ZONE
from rescheduler.model.objects import LabelSelector, TopologySpreadConstraint
from rescheduler.model.snapshot import Bools, Floats, Ints
from rescheduler.planning.feasibility.filter_plugin import key_of
from rescheduler.planning.feasibility.label_columns import LabelColumns
from rescheduler.planning.feasibility.plugins.pod_topology_spread import effective_selector
from rescheduler.planning.strategies.pod_term import PodTerm
from rescheduler.planning.strategies.spread_table import Rows, SpreadConstraint, SpreadTable
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
        self._known_domains: dict[tuple[str, int], tuple[Ints, int]] = {}
        self._found: list[tuple[SpreadConstraint, list[int]]] = []
        """The constraints, and the templates of the pods that each of them counts."""
        self._find_declared()
        if undeclared:
            self._find_undeclared()
        self._table = SpreadTable(
            [constraint for constraint, _ in self._found],
            [self._nodes_of(matching) for _, matching in self._found],
        )
        self._index_by_template()

    def _nodes_of(self, templates: list[int]) -> Ints:
        if len(templates) == 1:
            return self._context.nodes_of(templates[0])
        nodes = [self._context.nodes_of(template) for template in templates]
        return np.concatenate(nodes) if nodes else np.empty(0, np.int32)

    def _index_by_template(self) -> None:
        """Find out which constraints each template has, and which are uneven."""
        sizes = [len(matching) for _, matching in self._found]
        constraint = np.repeat(np.arange(len(sizes)), sizes)
        listed = [template for _, matching in self._found for template in matching]
        template = np.array(listed, np.int64)
        order = np.argsort(template, kind="stable")
        self._constraint_of = constraint[order]
        count = len(self._snapshot.templates)
        self._first_of = np.searchsorted(template[order], np.arange(count + 1))
        uneven = template[self._table.is_uneven[constraint]]
        # By template: of its constraints, those that are uneven, or were so at the start.
        self._uneven_constraints = np.bincount(uneven, minlength=count)
        self._became_uneven: set[int] = set()

    def _constraints(self, template: int) -> Rows:
        return self._constraint_of[self._first_of[template] : self._first_of[template + 1]]

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
        domain_of_node, domains = self._domains(key, self._context.always_refused(template))
        if domains < 2:
            return
        constraint = SpreadConstraint(
            what=self._names[template] or self._snapshot.templates[template].namespace,
            key=key,
            weight=weight,
            max_skew=max_skew,
            domain_of_node=domain_of_node,
            domains=domains,
        )
        self._found.append((constraint, matching))

    def _domains(self, key: str, refused: Bools) -> tuple[Ints, int]:
        """The domain of each node, -1 if pods that are refused by these nodes cannot use it, and
        how many domains there are. Most pods are refused by the same nodes."""
        known = key, id(refused)
        if known not in self._known_domains:
            codes = self._nodes.column(key).codes
            usable = np.unique(codes[~refused & (codes >= 0)])
            domains = np.where(np.isin(codes, usable), codes, -1).astype(np.int32)
            self._known_domains[known] = domains, len(usable)
        return self._known_domains[known]

    # ------------------------------------------------------------ as a term of the objective

    def total(self) -> float:
        return self._table.cost()

    def surplus_pods(self) -> int:
        """How many pods are too many where they are now; one may count for several constraints."""
        return self._table.surplus()

    def is_active(self) -> bool:
        return bool(self._table.is_uneven.any())

    def gain_bounds(self, templates: Ints, nodes: Ints) -> Floats:
        rows = np.flatnonzero(self._uneven_constraints[templates])
        first = self._first_of[templates[rows]]
        sizes = self._first_of[templates[rows] + 1] - first
        # The constraints of the first row, then those of the second, and so on.
        begin = np.cumsum(sizes) - sizes
        of_row = np.arange(int(sizes.sum())) + np.repeat(first - begin, sizes)
        pods = np.repeat(rows, sizes)
        gains = self._table.gains_of_leaving(self._constraint_of[of_row], nodes[pods])
        return np.bincount(pods, gains, len(templates)).astype(np.float64)

    def gain_of_leaving(self, template: int, node: int) -> float:
        constraints = self._constraints(template)
        if not len(constraints):
            return 0.0
        nodes = np.full(len(constraints), node)
        return float(self._table.gains_of_leaving(constraints, nodes).sum())

    def arrival_costs(self, template: int, source: int) -> Floats | None:
        constraints = self._constraints(template).tolist()
        if not constraints:
            return None
        return np.asarray(sum(self._table.arrival_costs(each, source) for each in constraints))

    def moved(self, template: int, source: int, target: int) -> set[int]:
        changed: set[int] = set()
        for constraint in self._constraints(template).tolist():
            self._table.add(constraint, source, -1)
            self._table.add(constraint, target, 1)
            is_other_now = self._note_unevenness(constraint)
            for other in self._found[constraint][1]:
                if is_other_now or self._uneven_constraints[other]:
                    changed.update(self._context.nodes_of(other).tolist())
        return changed

    def _note_unevenness(self, constraint: int) -> bool:
        """Note whether moves have made a constraint uneven; returns whether that has changed."""
        if self._table.is_uneven[constraint]:
            return False
        is_uneven = self._table.surplus_of(constraint) > 0
        if is_uneven == (constraint in self._became_uneven):
            return False
        self._became_uneven ^= {constraint}
        self._uneven_constraints[self._found[constraint][1]] += 1 if is_uneven else -1
        return True

    def reason(self, template: int, node: int) -> str:
        constraints = self._constraints(template)
        gains = self._table.gains_of_leaving(constraints, np.full(len(constraints), node))
        number = int(constraints[gains.argmax()])
        constraint = self._table.constraints[number]
        value = self._snapshot.nodes.objects[node].metadata.labels[constraint.key]
        return (
            f"{constraint.key}={value} holds {self._table.held_at(number, node)} pods of "
            f"{constraint.what}, the emptiest {self._table.fewest(number)}"
        )
