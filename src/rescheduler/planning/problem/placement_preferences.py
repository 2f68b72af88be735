"""What decides between targets, for every strategy: preferences of pods, and replicas apart.

A pod that moves should not come to a place that it likes less than the one it leaves: a node with a
taint that prefers no pods, or one beside a sibling that it would rather not meet. That has a price.
None of this is a reason to move a pod, and coming to a better place gains next to nothing: just
enough to choose it among equals.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rescheduler.model.objects import PodAffinityTerm
from rescheduler.model.snapshot import Floats, Ints
from rescheduler.planning.feasibility.filter_plugin import key_of
from rescheduler.planning.feasibility.label_columns import LabelColumns
from rescheduler.planning.feasibility.plugins.inter_pod_affinity import preferred_terms
from rescheduler.planning.strategies.node_preferences import PREFERENCE_WORTH, MissedPreferences
from rescheduler.planning.strategies.pod_term import PodTerm
from rescheduler.planning.strategies.strategy_context import StrategyContext

# Of what a preference is worth, so that one that is met decides between equals.
_BETWEEN_EQUALS = 1e-4
# Below the price of any move.
_REPLICA_BESIDE = 1e-5


def placement_preferences(
    context: StrategyContext, pod_terms: Sequence[PodTerm]
) -> Iterator[PodTerm]:
    """The terms about targets that count whatever is enabled, beside those of strategies."""
    if not any(isinstance(term, MissedPreferences) for term in pod_terms):
        yield PreferredNodes(context)
    yield PreferredNeighbours(context)
    yield ReplicasBeside(context)


class _TargetTerm(PodTerm):
    """A term that is never a reason to leave a node."""

    def total(self) -> float:
        return 0.0

    def gain_bounds(self, templates: Ints, nodes: Ints) -> Floats:
        return np.zeros(len(templates))

    def gain_of_leaving(self, template: int, node: int) -> float:
        return 0.0

    def reason(self, template: int, node: int) -> str:
        return "it prefers another node"


def _compared(costs: Floats, source: int) -> Floats:
    """What it costs to come from the source to each node, if it costs so much to be there."""
    worse = costs - costs[source]
    return np.asarray(np.where(worse > 0, worse, _BETWEEN_EQUALS * worse))


class PreferredNodes(_TargetTerm):
    """Preferred node affinity, and taints that prefer no pods."""

    def __init__(self, context: StrategyContext) -> None:
        self._missed = MissedPreferences(context.snapshot)

    def arrival_costs(self, template: int, source: int) -> Floats | None:
        costs = self._missed.node_costs(template)
        return None if costs is None else _compared(costs, source)

    def change(self, moves: Iterable[tuple[int, int, int]]) -> float:
        # It does not matter for it where other pods are, so all of a template are one question.
        ends: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for template, source, target in moves:
            ends[template].append((source, target))
        change = 0.0
        for template, pairs in ends.items():
            costs = self._missed.node_costs(template)
            if costs is not None:
                change += sum(float(_compared(costs, source)[target]) for source, target in pairs)
        return change


@dataclass
class _Neighbours:
    """The pods that a term is about: how many of them each domain of its topology holds."""

    term: PodAffinityTerm
    domain_of_node: Ints
    domains: int
    matching: frozenset[int]
    """The templates that the term selects."""
    counts: dict[int, int]

    def add(self, node: int, count: int) -> None:
        domain = int(self.domain_of_node[node])
        if domain >= 0:
            self.counts[domain] = self.counts.get(domain, 0) + count

    def present(self) -> Floats:
        """For each node, 1 if its domain holds one of the pods, and 0 otherwise."""
        held = np.zeros(self.domains + 1)
        held[[domain for domain, count in self.counts.items() if count > 0]] = 1.0
        return held[self.domain_of_node]


class PreferredNeighbours(_TargetTerm):
    """Preferred affinity and anti-affinity to other pods, as pods say it themselves."""

    def __init__(self, context: StrategyContext) -> None:
        self._context = context
        self._snapshot = context.snapshot
        nodes = self._snapshot.nodes.objects
        self._labels = LabelColumns([node.metadata.labels for node in nodes])
        self._known: dict[bytes, _Neighbours] = {}
        self._preferences_of: dict[int, list[tuple[_Neighbours, int]]] = {}
        self._changes = _Changes()

    def arrival_costs(self, template: int, source: int) -> Floats | None:
        preferences = self._preferences(template)
        if not preferences:
            return None
        costs = np.zeros(len(self._snapshot.nodes))
        for neighbours, weight in preferences:
            itself = template in neighbours.matching
            if itself:
                neighbours.add(source, -1)
            present = neighbours.present()
            if itself:
                neighbours.add(source, 1)
            costs += -weight * present if weight < 0 else weight * (1.0 - present)
        return _compared(PREFERENCE_WORTH * costs, source)

    def change(self, moves: Iterable[tuple[int, int, int]]) -> float:
        moves = list(moves)
        is_asked = any(self._preferences(template) for template in {move[0] for move in moves})
        return super().change(moves) if is_asked else 0.0

    def _preferences(self, template: int) -> list[tuple[_Neighbours, int]]:
        if template not in self._preferences_of:
            pod = self._snapshot.templates[template]
            self._preferences_of[template] = [
                (self._neighbours(pod.namespace, term), weight)
                for term, weight in preferred_terms(pod)
            ]
        return self._preferences_of[template]

    def _neighbours(self, namespace: str, term: PodAffinityTerm) -> _Neighbours:
        key = key_of(namespace, term)
        if key not in self._known:
            selected = self._context.checker.inter_pod_affinity.matching(term, namespace)
            matching = frozenset(np.flatnonzero(selected).tolist())
            codes, code_of = self._labels.column(term.topology_key)
            found = _Neighbours(term, codes, len(code_of), matching, {})
            for template in matching:
                for node in self._context.nodes_of(template).tolist():
                    found.add(node, 1)
                for node, count in self._changes.of(template).items():
                    found.add(node, count)
            self._known[key] = found
        return self._known[key]

    def moved(self, template: int, source: int, target: int) -> set[int]:
        self._changes.moved(template, source, target)
        for neighbours in self._known.values():
            if template in neighbours.matching:
                neighbours.add(source, -1)
                neighbours.add(target, 1)
        return set()


class ReplicasBeside(_TargetTerm):
    """How many replicas of its workload a pod meets on a node."""

    def __init__(self, context: StrategyContext) -> None:
        self._context = context
        self._names = context.workloads.names
        self._templates_of: defaultdict[str, list[int]] = defaultdict(list)
        for template, name in enumerate(self._names):
            self._templates_of[name].append(template)
        self._on_node: dict[str, Ints] = {}
        self._changes = _Changes()

    def arrival_costs(self, template: int, source: int) -> Floats | None:
        workload = self._names[template]
        if not workload:
            return None
        return np.asarray(_REPLICA_BESIDE * self._counts(workload), np.float64)

    def arrival_cost(self, template: int, source: int, target: int) -> float:
        workload = self._names[template]
        return _REPLICA_BESIDE * float(self._counts(workload)[target]) if workload else 0.0

    def _counts(self, workload: str) -> Ints:
        if workload not in self._on_node:
            templates = self._templates_of[workload]
            counts = np.zeros(len(self._context.snapshot.nodes), np.int32)
            for template in templates:
                np.add.at(counts, self._context.nodes_of(template), 1)
                for node, count in self._changes.of(template).items():
                    counts[node] += count
            self._on_node[workload] = counts
        return self._on_node[workload]

    def moved(self, template: int, source: int, target: int) -> set[int]:
        self._changes.moved(template, source, target)
        counts = self._on_node.get(self._names[template])
        if counts is not None:
            counts[source] -= 1
            counts[target] += 1
        return set()


class _Changes:
    """How many more pods of a template a node has than at the start, where it is not as many."""

    def __init__(self) -> None:
        self._of_template: defaultdict[int, dict[int, int]] = defaultdict(dict)

    def moved(self, template: int, source: int, target: int) -> None:
        """A pod has moved, or moved back."""
        changes = self._of_template[template]
        for node, count in ((source, -1), (target, 1)):
            change = changes.pop(node, 0) + count
            if change:
                changes[node] = change

    def of(self, template: int) -> Mapping[int, int]:
        """By node, how many more pods of the template it has."""
        return self._of_template.get(template, {})
