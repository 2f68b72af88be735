"""Which pods are nominated to which nodes, as the scheduler knows it."""

from collections.abc import Iterator
from typing import NamedTuple

from rescheduler.simulation.cluster.json_objects import Json, is_finished, nominated_node_of


class Nomination(NamedTuple):
    """The node that is nominated for a pod."""

    node: str
    outlasts_refusals: bool
    """Whether it stays when no node accepts the pod. After a refusal the scheduler looks for pods
    to preempt, and takes the nomination back if there are none. It does not look if the pod's
    preemption policy is Never."""


class Nominator:
    """The nominations of all pods that are not bound, gated or not."""

    def __init__(self) -> None:
        self._nominations: dict[str, Nomination] = {}

    def put(self, key: str, pod: Json) -> None:
        """A pod was created or changed."""
        node = nominated_node_of(pod)
        if not node or pod["spec"].get("nodeName") or is_finished(pod):
            self.remove(key)
            return
        never_preempts = pod["spec"].get("preemptionPolicy") == "Never"
        self._nominations[key] = Nomination(node, never_preempts)

    def remove(self, key: str) -> None:
        """A pod was deleted, or its nomination was taken back."""
        self._nominations.pop(key, None)

    def of(self, key: str) -> Nomination | None:
        """The nomination of a pod, if it has one."""
        return self._nominations.get(key)

    def others(self, key: str) -> Iterator[tuple[str, str]]:
        """All other nominated pods, each with its node."""
        for pod, nomination in self._nominations.items():
            if pod != key:
                yield pod, nomination.node
