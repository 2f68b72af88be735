"""What the limits of a plan still allow at some point of a search."""

import numpy as np

from rescheduler.model.snapshot import Bools, Ints
from rescheduler.planning.problem.problem import Problem


class Allowances:
    """Counts moves by namespace, workload, budget and node, as far as those are limited."""

    def __init__(self, problem: Problem) -> None:
        limits = problem.limits
        self._scopes_of = limits.scopes_of
        self._left: Ints = limits.allowance.copy()
        self._templates_of: dict[int, list[int]] = {}
        for template, scopes in enumerate(self._scopes_of):
            for scope in scopes:
                self._templates_of.setdefault(scope, []).append(template)
        self.may_go: Bools = np.ones(len(self._scopes_of), bool)
        """Templates of which another pod may move."""
        for scope in self._templates_of:
            self._update(scope)
        per_node = [limits.per_node(node) for node in range(len(problem.snapshot.nodes))]
        self._is_limited = any(limit is not None for limit in per_node)
        most = np.iinfo(np.int32).max
        self._node_left: Ints = np.array(
            [most if limit is None else limit for limit in per_node], np.int32
        )
        self.used_up: Bools = self._node_left <= 0
        """Nodes that no other pod may come to or leave."""

    def count_move(self, template: int, count: int) -> None:
        """So many more pods of the template move, or fewer."""
        for scope in self._scopes_of[template]:
            before = self._left[scope]
            self._left[scope] -= count
            if (before > 0) != (self._left[scope] > 0):
                self._update(scope)

    def are_kept(self) -> bool:
        """Whether no limit is exceeded."""
        return bool((self._left >= 0).all() and (self._node_left >= 0).all())

    def exhausted_scope(self, template: int) -> int | None:
        """The scope of a limit that lets no other pod of the template move."""
        return next((scope for scope in self._scopes_of[template] if self._left[scope] <= 0), None)

    def count_on_node(self, node: int, count: int) -> None:
        """So many more pods come to the node or leave it, or fewer."""
        if self._is_limited:
            self._node_left[node] -= count
            self.used_up[node] = self._node_left[node] <= 0

    def _update(self, scope: int) -> None:
        for template in self._templates_of[scope]:
            self.may_go[template] = all(
                self._left[other] > 0 for other in self._scopes_of[template]
            )
