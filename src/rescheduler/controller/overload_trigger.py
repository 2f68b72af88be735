"""Triggers a round when a pod overloads its node, whichever scheduler has bound it.

A node that has been overloaded for longer triggers nothing: the regular rounds handle it.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from rescheduler.kube.live_store import LiveStore
from rescheduler.model.kinds import POD
from rescheduler.model.resources import CPU, MEMORY
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.model.tables.table import TableChange
from rescheduler.settings import Policy

logger = logging.getLogger(__name__)

# Pods often come in numbers, and one check of their nodes is then enough.
CHECK_DELAY_SECONDS = 1.0
# However many nodes become overloaded, the process must not spend all its time on planning.
MIN_SECONDS_BETWEEN_TRIGGERS = 10.0


class OverloadTrigger:
    """Checks the nodes of pods that have changed, and triggers a round."""

    def __init__(
        self,
        tables: ClusterTables,
        policy: Callable[[], Policy],
        trigger_round: Callable[[], None],
    ) -> None:
        self._tables = tables
        self._policy = policy
        self._trigger_round = trigger_round
        self._overloaded: set[str] = set()
        self._changed: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._quiet_until = 0.0

    @contextmanager
    def watching(self, store: LiveStore) -> Iterator[None]:
        """Check every change while the block runs; nodes overloaded before trigger nothing."""
        nodes = self._tables.nodes.row_of
        self._overloaded = overloaded_nodes(nodes, self._tables, self._policy())
        unsubscribe = store.subscribe(POD, self._pod_changed)
        try:
            yield
        finally:
            unsubscribe()
            if self._timer is not None:
                self._timer.cancel()

    def _pod_changed(self, change: TableChange) -> None:
        node = self._tables.pods.node_of(change.key)
        if not node:
            return
        self._changed.add(node)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            delay = max(CHECK_DELAY_SECONDS, self._quiet_until - loop.time())
            self._timer = loop.call_later(delay, self._check_nodes)

    def _check_nodes(self) -> None:
        self._timer = None
        before = self._overloaded
        self._overloaded = overloaded_nodes(before | self._changed, self._tables, self._policy())
        self._changed = set()
        if new := sorted(self._overloaded - before):
            extra = {"why": "nodes became overloaded", "nodes": new[:10]}
            logger.info("Triggered a round", extra=extra)
            now = asyncio.get_running_loop().time()
            self._quiet_until = now + MIN_SECONDS_BETWEEN_TRIGGERS
            self._trigger_round()


def overloaded_nodes(names: Iterable[str], tables: ClusterTables, policy: Policy) -> set[str]:
    """Those of the nodes whose requests are above a threshold."""
    limits = ((CPU, policy.cpu_threshold), (MEMORY, policy.memory_threshold))
    return {
        name
        for name in names
        if any(
            requested_fraction(tables, name, resource) * 100 > percent
            for resource, percent in limits
        )
    }


def requested_fraction(tables: ClusterTables, node: str, resource: str) -> float:
    """The share of a node's allocatable that its pods request; 0 if nothing is allocatable."""
    row = tables.nodes.row_of.get(node)
    found = tables.nodes.at(row) if row is not None else None
    allocatable = found[1].get(resource, 0) if found is not None else 0
    if allocatable <= 0:
        return 0.0
    return float(tables.pods.held_on(resource)[tables.pods.number_of_node(node)] / allocatable)
