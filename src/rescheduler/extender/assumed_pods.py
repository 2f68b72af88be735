"""Pods that the scheduler has just asked about, and that no watch has shown on a node yet.

A rollout creates hundreds of pods in a second, faster than watches show them. Without this they
would all go to the node that was the emptiest before. The scheduler does not say what it chose;
most likely one of the nodes with our highest score, so each of these is assumed to get a share of
the pod. Where we bind pods ourselves, we know the node.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rescheduler.extender.live_node_loads import MEASURED, NodeRows
from rescheduler.model.snapshot import Floats
from rescheduler.model.tables.pod_table import PodTable

# A watch is seldom that late; after this, the pod was most likely not scheduled.
ASSUMED_SECONDS = 5.0
MOST_PODS = 200
# A pod that may be on so many nodes matters to none of them.
MOST_NODES = 100


@dataclass(frozen=True, eq=False)
class AssumedPod:
    """A pod that is on its way to one of some nodes."""

    rows: NodeRows
    share: Floats
    """What each of the nodes is assumed to get, as a column."""
    expires: float


class AssumedPods:
    """Pods on their way to nodes, by key."""

    def __init__(self, pods: PodTable, clock: Callable[[], float]) -> None:
        self._pods = pods
        self._clock = clock
        self._assumed: OrderedDict[str, AssumedPod] = OrderedDict()

    def assume(self, key: str, rows: NodeRows, requests: Floats) -> None:
        """Assume a pod with these requests on one of the nodes in these rows."""
        if 0 < len(rows) <= MOST_NODES:
            expires = self._clock() + ASSUMED_SECONDS
            self._assumed[key] = AssumedPod(rows, requests / len(rows), expires)
            if len(self._assumed) > MOST_PODS:
                self._assumed.popitem(last=False)

    def forget(self, key: str) -> None:
        """Assume a pod nowhere, because the scheduler asks about it again."""
        self._assumed.pop(key, None)

    def load_on(self, rows: NodeRows) -> Floats:
        """What the nodes in these rows are assumed to get."""
        self._drop_known_and_expired()
        if not self._assumed:
            return np.zeros((len(MEASURED), len(rows)))
        pods = self._assumed.values()
        assumed_rows = np.concatenate([pod.rows for pod in pods])
        shares = np.concatenate([pod.share for pod in pods], axis=1)
        shares = np.repeat(shares, [len(pod.rows) for pod in pods], axis=1)
        size = max(int(assumed_rows.max()), int(rows.max(initial=0))) + 1
        load = [np.bincount(assumed_rows, share, size) for share in shares]
        return np.asarray(load, np.float64)[:, rows]

    def _drop_known_and_expired(self) -> None:
        now = self._clock()
        dropped = [
            key
            for key, pod in self._assumed.items()
            if pod.expires <= now or self._pods.is_placed(key)
        ]
        for key in dropped:
            del self._assumed[key]
