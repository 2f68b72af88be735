"""Pods that we refused on every node that kube-scheduler asked about, until one accepts them.

The scheduler asks again as soon as something in the cluster changes. Its watch may show it the
change before ours does, and then we refuse the pod once more; or what changes is known to us alone,
such as a limit of the policy or a migration that has ended. Then nobody would ask for five minutes,
unless something else happens.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rescheduler.extender.filter import PodDemand
from rescheduler.extender.live_node_loads import NodeRows
from rescheduler.migration.moving_pod import PodMeta
from rescheduler.model.tables.pod_table import PodTable

# All are looked at each time. With 5,000 nodes, that takes some 40 ms.
MOST_PODS = 100
# Each pod is looked at as if it were alone: where there is room for one, all seem to be accepted.
MOST_AT_A_TIME = 10


@dataclass(frozen=True, eq=False)
class PodOnNodes:
    """A pod and the nodes that it may be scheduled to, as far as filter and prioritize care."""

    pod: PodMeta
    requests: Mapping[str, int]
    """What the pod takes up on a node, in the scheduler's units."""
    demand: PodDemand
    rows: NodeRows
    """The rows of the nodes in the table."""


@dataclass(eq=False)
class RefusedPod:
    """A pod that was refused, and what the last look at it has shown."""

    asked: PodOnNodes
    was_known: bool = False
    """Whether the table had it."""
    was_accepted: bool = False
    """Whether some node would have accepted it."""

    @property
    def pod(self) -> PodMeta:
        """The pod."""
        return self.asked.pod


class RefusedPods:
    """The newest of them, by uid."""

    def __init__(self, pods: PodTable) -> None:
        self._pods = pods
        self._refused: OrderedDict[str, RefusedPod] = OrderedDict()

    def add(self, refused: PodOnNodes) -> None:
        """Remember a pod that was just refused on all these nodes."""
        self.forget(refused.pod.uid)
        self._add(RefusedPod(refused))

    def put_back(self, taken: RefusedPod) -> None:
        """Remember a pod after all that was taken, unless the scheduler has asked meanwhile."""
        if taken.pod.uid not in self._refused:
            self._add(taken)

    def _add(self, refused: RefusedPod) -> None:
        self._refused[refused.pod.uid] = refused
        if len(self._refused) > MOST_PODS:
            self._refused.popitem(last=False)

    def forget(self, uid: str) -> None:
        """A pod was accepted, and the scheduler knows."""
        self._refused.pop(uid, None)

    def take_accepted(self, accepts: Callable[[PodOnNodes], bool]) -> list[RefusedPod]:
        """The oldest of those that some node accepted at the last look, and accepts now.

        Nobody has asked for them since. They are no longer remembered.
        """
        accepted = []
        for uid, refused in list(self._refused.items()):
            pod, was_accepted = refused.pod, refused.was_accepted
            if self._pods.is_placed(pod.key) or self._has_gone(refused):
                self.forget(uid)
                continue
            refused.was_accepted = accepts(refused.asked)
            if was_accepted and refused.was_accepted:
                accepted.append(refused)
        taken = accepted[:MOST_AT_A_TIME]
        for refused in taken:
            self.forget(refused.pod.uid)
        return taken

    def _has_gone(self, refused: RefusedPod) -> bool:
        """Whether the table had a pod and has it no longer. At first its watch may be behind."""
        is_known = self._pods.held_by(refused.pod.key) is not None
        has_gone = refused.was_known and not is_known
        refused.was_known = is_known
        return has_gone
