"""Prevention: a pod that makes its node too hot brings the next round forward.

Whoever bound it: the binding shows in the watch. A node that has been too hot for long does not
count, for the rounds deal with it anyway.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from rescheduler.kube.live_store import LiveStore
from rescheduler.model.kinds import POD
from rescheduler.model.resources import CPU, MEMORY
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.model.tables.table import TableChange
from rescheduler.settings import Policy

logger = logging.getLogger(__name__)

# Pods often come in numbers, and one look at their nodes is then enough.
LOOK_SECONDS = 1.0
# However many nodes get hot, the machine is not to be busy with planning alone.
LEAST_SECONDS_BETWEEN = 10.0


class OverloadTrigger:
    """Looks at the nodes when pods have come, and calls for a round."""

    def __init__(
        self, tables: ClusterTables, policy: Callable[[], Policy], soon: Callable[[], None]
    ) -> None:
        self._tables = tables
        self._policy = policy
        self._soon = soon
        self._hot: set[str] = set()
        self._touched: set[str] = set()
        self._look: asyncio.TimerHandle | None = None
        self._quiet_until = 0.0

    def watch(self, store: LiveStore) -> None:
        """Heed what comes from now on; nodes that are hot already are no news."""
        self._hot = hot_among(self._tables.nodes.row_of, self._tables, self._policy())
        store.subscribe(POD, self._pod_changed)

    def _pod_changed(self, change: TableChange) -> None:
        node = self._tables.pods.node_of(change.key)
        if not node:
            return
        self._touched.add(node)
        if self._look is None:
            loop = asyncio.get_running_loop()
            wait = max(LOOK_SECONDS, self._quiet_until - loop.time())
            self._look = loop.call_later(wait, self._look_at_nodes)

    def _look_at_nodes(self) -> None:
        self._look = None
        before = self._hot
        self._hot = hot_among(before | self._touched, self._tables, self._policy())
        self._touched = set()
        if new := sorted(self._hot - before):
            logger.info("Bringing a round forward", extra={"why": "too hot", "nodes": new[:10]})
            self._quiet_until = asyncio.get_running_loop().time() + LEAST_SECONDS_BETWEEN
            self._soon()


def hot_among(names: Iterable[str], tables: ClusterTables, policy: Policy) -> set[str]:
    """Those of the nodes that are above a threshold."""
    limits = ((CPU, policy.cpu_threshold), (MEMORY, policy.memory_threshold))
    return {
        name
        for name in names
        if any(taken_of(tables, name, resource) * 100 > percent for resource, percent in limits)
    }


def taken_of(tables: ClusterTables, node: str, resource: str) -> float:
    """How much of a resource the pods of a node take, 1 being all; 0 if it has none to give."""
    row = tables.nodes.row_of.get(node)
    found = tables.nodes.at(row) if row is not None else None
    can_give = found[1].get(resource, 0) if found is not None else 0
    if can_give <= 0:
        return 0.0
    return float(tables.pods.held_on(resource)[tables.pods.number_of_node(node)] / can_give)
