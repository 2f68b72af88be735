"""Prevention: a pod that makes its node too hot brings the next round forward.

Whoever bound it: the binding shows in the watch. A node that has been too hot for long does not
count, for the rounds deal with it anyway.
"""

import asyncio
import logging
from collections.abc import Callable

from rescheduler.kube.store import LiveStore
from rescheduler.model.cluster import ClusterTables
from rescheduler.model.kinds import POD
from rescheduler.model.resources import CPU, MEMORY
from rescheduler.model.tables import Change
from rescheduler.settings import Policy

logger = logging.getLogger(__name__)

# Pods often come in numbers, and a look at all nodes is then one for all of them.
LOOK_SECONDS = 1.0
# However many nodes get hot, the machine is not to be busy with planning alone.
LEAST_SECONDS_BETWEEN = 10.0


class Prevention:
    """Looks at the nodes when pods have come, and calls for a round."""

    def __init__(
        self, tables: ClusterTables, policy: Callable[[], Policy], soon: Callable[[], None]
    ) -> None:
        self._tables = tables
        self._policy = policy
        self._soon = soon
        self._hot: frozenset[str] = frozenset()
        self._look: asyncio.TimerHandle | None = None
        self._quiet_until = 0.0

    def watch(self, store: LiveStore) -> None:
        """Heed what comes from now on; nodes that are hot already are no news."""
        self._hot = hot_nodes(self._tables, self._policy())
        store.subscribe(POD, self._pod_changed)

    def _pod_changed(self, change: Change) -> None:
        if change.type != "Deleted" and self._look is None:
            loop = asyncio.get_running_loop()
            wait = max(LOOK_SECONDS, self._quiet_until - loop.time())
            self._look = loop.call_later(wait, self._look_at_nodes)

    def _look_at_nodes(self) -> None:
        self._look = None
        before, self._hot = self._hot, hot_nodes(self._tables, self._policy())
        if new := sorted(self._hot - before):
            logger.info("Bringing a round forward", extra={"why": "too hot", "nodes": new[:10]})
            self._quiet_until = asyncio.get_running_loop().time() + LEAST_SECONDS_BETWEEN
            self._soon()


def hot_nodes(tables: ClusterTables, policy: Policy) -> frozenset[str]:
    """The nodes above a threshold."""
    limits = ((CPU, policy.cpu_threshold), (MEMORY, policy.memory_threshold))
    held = {resource: tables.pods.held_on(resource) for resource, _ in limits}
    hot = set()
    for name, row in tables.nodes.row_of.items():
        number = tables.pods.number_of_node(name)
        found = tables.nodes.at(row)
        for resource, percent in limits:
            can_give = found[1].get(resource, 0) if found is not None else 0
            taken = held[resource][number] if number < len(held[resource]) else 0
            if can_give > 0 and taken * 100 > percent * can_give:
                hot.add(name)
    return frozenset(hot)
