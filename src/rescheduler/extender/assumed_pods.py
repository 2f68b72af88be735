"""Pods that the scheduler has just asked about, and that no watch has shown in place yet.

A rollout makes hundreds of pods in a second, faster than watches tell of them. Without this they
would all be sent to the node that was the emptiest before they came. The scheduler does not say
what it chose; most likely one of those that we gave the most points, so each of these is expected
to get its share of the pod. Where we bind pods ourselves, we know.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rescheduler.extender.node_loads import Rows
from rescheduler.model.snapshot import Floats
from rescheduler.model.tables.pod_table import PodTable

# A watch is seldom that late; after this, the pod must have found no place.
EXPECTED_SECONDS = 5.0
MOST_PODS = 200
# A pod that is expected on so many nodes matters to none of them.
MOST_NODES = 100


@dataclass(frozen=True, eq=False)
class AssumedPod:
    """A pod that is on its way to one of some nodes."""

    rows: Rows
    share: Floats
    """What each of them is expected to get, as a column."""
    until: float


class AssumedPods:
    """Pods on their way."""

    def __init__(self, pods: PodTable, clock: Callable[[], float]) -> None:
        self._pods = pods
        self._clock = clock
        self._expected: OrderedDict[str, AssumedPod] = OrderedDict()

    def expect(self, key: str, rows: Rows, demand: Floats) -> None:
        """Expect a pod that asks for so much on one of the nodes in these rows."""
        if 0 < len(rows) <= MOST_NODES:
            until = self._clock() + EXPECTED_SECONDS
            self._expected[key] = AssumedPod(rows, demand / len(rows), until)
            if len(self._expected) > MOST_PODS:
                self._expected.popitem(last=False)

    def forget(self, key: str) -> None:
        """Expect a pod nowhere, for it is asked about anew."""
        self._expected.pop(key, None)

    def load_of(self, rows: Rows) -> Floats:
        """What the nodes in these rows are expected to get."""
        self._drop_those_that_came()
        if not self._expected:
            return np.zeros((2, len(rows)))
        expected = self._expected.values()
        there = np.concatenate([each.rows for each in expected])
        shares = np.concatenate([each.share for each in expected], axis=1)
        shares = np.repeat(shares, [len(each.rows) for each in expected], axis=1)
        size = max(int(there.max()), int(rows.max(initial=0))) + 1
        load = [np.bincount(there, each, size) for each in shares]
        return np.asarray(load, np.float64)[:, rows]

    def _drop_those_that_came(self) -> None:
        now = self._clock()
        came = [
            key
            for key, each in self._expected.items()
            if each.until <= now or self._pods.is_placed(key)
        ]
        for key in came:
            del self._expected[key]
