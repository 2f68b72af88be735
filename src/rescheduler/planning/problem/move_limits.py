"""How many pods a plan may move of one kind.

Templates that share a limit are in one scope: those of a namespace, of a workload, or under a
disruption budget. A scope's allowance is how many of its pods may still be moved; migrations that
are under way have had their share already. There is no scope where nothing is limited.

Migrations under way may end at any moment, or not. So what counts for the same spread or affinity
rules as one of them does not move beside it, and neither does a workload one of whose moves waits:
the next one would wait for the same.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Set
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np

from rescheduler.model.moves import Mode
from rescheduler.model.resources import PODS
from rescheduler.model.snapshot import Ints, Snapshot
from rescheduler.planning.context import DEFAULT_CONTEXT, PlanningContext
from rescheduler.planning.movability.blocker import (
    MOVE_UNDER_WAY,
    NAMESPACE_LIMIT,
    NODE_LIMIT,
    ONE_AT_A_TIME,
    WORKLOAD_LIMIT,
    WORKLOAD_WAITS,
    Blocker,
)
from rescheduler.planning.movability.movability import Movability
from rescheduler.settings import Limit, Policy

_MOST = 2**31 - 1


class _LimitKind(NamedTuple):
    """The blocker's name, and its text with room for a name and a number."""

    blocker: str
    sentence: str

    def reason(self, name: str, most: int) -> Blocker:
        """Why no more pods move of whoever has this name, of which so many may."""
        pods = "1 pod" if most == 1 else f"{most or 'no'} pods"
        return Blocker(self.blocker, self.sentence.format(name, pods))


_NAMESPACE = _LimitKind(
    NAMESPACE_LIMIT, "of namespace {}, maxMovesPerNamespace lets {} move at once"
)
_WORKLOAD = _LimitKind(WORKLOAD_LIMIT, "of {}, maxMovesPerWorkload lets {} move at once")
_EVICTION = _LimitKind(ONE_AT_A_TIME, "of {}, {} is evicted at a time")
_BUDGET = _LimitKind("Budget", "disruption budget {} lets {} go at once, and no more are left")
_SAME_RULES = _LimitKind(
    MOVE_UNDER_WAY, "{}: a move is under way that counts for the same spread or affinity rules"
)
_WAITING = _LimitKind(WORKLOAD_WAITS, "an earlier move of {}")
_NODE = _LimitKind(NODE_LIMIT, "of node {}, maxMovesPerNode lets {} go or come at once")


class MoveLimits:
    """The limits that a policy, budgets and migrations under way put on one plan."""

    scopes_of: list[tuple[int, ...]]
    """The scopes that each template is in. Templates of which no pod can move are in none."""
    allowance: Ints
    """How many pods of each scope may be moved."""

    def __init__(
        self,
        snapshot: Snapshot,
        policy: Policy,
        movability: Movability,
        context: PlanningContext = DEFAULT_CONTEXT,
        beside_in_flight: Set[int] = frozenset(),
    ) -> None:
        """`beside_in_flight`: templates that count for the same rules as a pod in flight."""
        self._snapshot = snapshot
        self._policy = policy
        self._movability = movability
        self._context = context
        self._beside_in_flight = beside_in_flight
        self._per_namespace = _counted(policy.max_moves_per_namespace)
        self._per_workload = _counted(policy.max_moves_per_workload)
        self._scopes: list[tuple[_LimitKind, str, int]] = []
        self._number_of: dict[tuple[str, str], int] = {}
        self.scopes_of = self._scopes_of_templates()
        self.allowance = self._what_is_left()

    def reason(self, scope: int) -> Blocker:
        """Why no more pods of a scope move."""
        kind, name, most = self._scopes[scope]
        return kind.reason(name, most)

    def per_node(self, node: int) -> int | None:
        """How many pods may leave this node or come to it; None: as many as there are."""
        if self._policy.max_moves_per_node is None:
            return None
        return max(self._most_per_node[node] - self._in_flight_at[node], 0)

    def node_reason(self, node: int) -> Blocker:
        """Why no more pods leave a node or come to it."""
        return _NODE.reason(self._snapshot.nodes.names[node], self._most_per_node[node])

    # ------------------------------------------------------------ scopes of templates

    def _scopes_of_templates(self) -> list[tuple[int, ...]]:
        pods = self._snapshot.pods
        concerned = np.zeros(len(self._snapshot.templates), bool)
        concerned[pods.template[self._movability.movable]] = True
        concerned[pods.template[list(self._movability.in_flight)]] = True
        scopes: list[tuple[int, ...]] = [()] * len(concerned)
        for template in np.flatnonzero(concerned).tolist():
            scopes[template] = tuple(self._scopes_of_one(template))
        return scopes

    def _scopes_of_one(self, template: int) -> Iterator[int]:
        workload = self._movability.workloads.names[template]
        if template in self._beside_in_flight:
            yield self._scope(_SAME_RULES, workload or "bare pods", 0)
        if workload in self._waiting:
            yield self._scope(_WAITING, self._waiting[workload], 0)
        if self._per_namespace is not None:
            namespace = self._snapshot.templates[template].namespace
            yield self._scope(_NAMESPACE, namespace, self._per_namespace(self._pods_in[namespace]))
        if self._per_workload is not None and workload:
            replicas = self._movability.replicas(template)
            yield self._scope(_WORKLOAD, workload, self._per_workload(replicas))
        if self._movability.mode(template) == Mode.EVICT:
            yield self._scope(_EVICTION, self._movability.workloads.workloads[template], 1)
            for budget in self._movability.budgets(template):
                allowed = budget.status.disruptions_allowed
                yield self._scope(_BUDGET, budget.metadata.key, allowed)

    def _scope(self, kind: _LimitKind, name: str, most: int) -> int:
        number = self._number_of.get((kind.blocker, name))
        if number is None:
            number = self._number_of[kind.blocker, name] = len(self._scopes)
            self._scopes.append((kind, name, most))
        return number

    @cached_property
    def _waiting(self) -> dict[str, str]:
        """Workloads one of whose moves waits, and what it waits for."""
        pods, names = self._snapshot.pods, self._movability.workloads.names
        found = {
            names[int(pods.template[pod])]: move
            for pod, move in self._movability.in_flight.items()
            if move.waits_for
        }
        found.pop("", None)
        return {
            workload: f"{workload}, that of {move.pod}, has not started: {move.waits_for}"
            for workload, move in found.items()
        }

    @cached_property
    def _pods_in(self) -> Counter[str]:
        """How many pods each namespace has on nodes."""
        pods = self._snapshot.pods
        counts = np.bincount(pods.template[pods.placed], minlength=len(self._snapshot.templates))
        total: Counter[str] = Counter()
        for template, count in zip(self._snapshot.templates, counts.tolist(), strict=True):
            total[template.namespace] += count
        return total

    def _what_is_left(self) -> Ints:
        left = np.array([min(most, _MOST) for _, _, most in self._scopes], np.int32)
        for pod in self._movability.in_flight:
            scopes = list(self.scopes_of[int(self._snapshot.pods.template[pod])])
            left[scopes] -= 1
        return np.maximum(left, 0)

    # ------------------------------------------------------------ nodes

    @cached_property
    def _most_per_node(self) -> list[int]:
        limit = self._policy.max_moves_per_node
        assert limit is not None, "asked only where there is a limit"
        can_run = self._snapshot.nodes.allocatable[:, self._snapshot.column(PODS)]
        return [limit.of(pods) for pods in can_run.tolist()]

    @cached_property
    def _in_flight_at(self) -> Counter[int]:
        """Migrations under way by the nodes that they leave and the nodes that they come to."""
        index, nodes = self._snapshot.nodes.index, self._snapshot.pods.node
        leaving = Counter(int(nodes[pod]) for pod in self._movability.in_flight)
        targets = (index.get(move.target) for move in self._context.in_flight)
        return leaving + Counter(target for target in targets if target is not None)


def _counted(limit: Limit | None) -> Callable[[int], int] | None:
    """What a limit allows of a total. Remembered, for many workloads have as many replicas."""
    return None if limit is None else cache(limit.of)
