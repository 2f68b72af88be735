"""What kube-scheduler does around its decisions: a queue, bindings, words for those that wait."""

from collections.abc import Sequence
from typing import Protocol

from rescheduler.simulation.cluster.controllers.base import Controller, ControllerContext
from rescheduler.simulation.cluster.json_objects import (
    Json,
    condition,
    condition_of,
    is_deleting,
    is_finished,
    with_conditions,
)
from rescheduler.simulation.cluster.object_store import ObjectChange

FIRST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS = 1.0, 10.0
# As long as the real queue leaves a pod alone for which nothing has changed.
LONGEST_WAIT_SECONDS = 300.0
NEWS = ("Node", "PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSINode")
ALL, EVEN_SO = "all", "even so"


class Placement(Protocol):
    """Where a pod goes, or why nowhere."""

    @property
    def pod(self) -> str:
        """Its key."""
        ...

    @property
    def node(self) -> str | None:
        """Its node, if there is one for it."""
        ...

    @property
    def reason(self) -> str:
        """Why there is none, in the scheduler's words."""
        ...


class Scheduler(Protocol):
    """Whoever decides where pods go."""

    def schedule(self, pending: list[str]) -> Sequence[Placement]:
        """A placement for each of these pods, in the order in which they are to be bound."""
        ...


class SchedulerLoop(Controller):
    """Asks the scheduler about all that waits at a moment, and carries out what it says."""

    def __init__(self, context: ControllerContext, scheduler: Scheduler) -> None:
        super().__init__(context)
        self._scheduler = scheduler
        self._waiting: dict[str, None] = {}
        self._tries: dict[str, int] = {}
        self._not_before: dict[str, float] = {}
        self._parked: dict[str, None] = {}

    def start_watching(self) -> None:
        self.store.listen("Pod", self._pod_changed)
        for kind in NEWS:
            self.store.listen(kind, self._something_changed)
        for key in self.indexes.pods_on.keys(""):
            self._add(key)

    def _pod_changed(self, change: ObjectChange) -> None:
        old, new = change.old, change.new
        if new is None or is_finished(new):
            self._forget(change.key)
            if old is not None and old["spec"].get("nodeName"):
                self._wake()
        elif is_deleting(new):
            self._forget(change.key)
        elif new["spec"].get("nodeName"):
            if old is None or not old["spec"].get("nodeName"):
                self._forget(change.key)
                self._wake()
        elif old is None or old["metadata"].get("labels") != new["metadata"].get("labels"):
            self._add(change.key)

    def _something_changed(self, change: ObjectChange) -> None:
        if change.new is not None:
            self._wake()

    def _add(self, key: str) -> None:
        self._parked.pop(key, None)
        self._waiting[key] = None
        self.enqueue_after(ALL, self.context.timings.scheduling.draw(self.context.chance))

    def _forget(self, key: str) -> None:
        for part in (self._waiting, self._tries, self._not_before, self._parked):
            part.pop(key, None)

    def _wake(self) -> None:
        """Something has changed that may help: try those again that did not fit."""
        if not self._parked:
            return
        now = self.clock.seconds()
        self._waiting |= self._parked
        soonest = min(self._not_before.get(key, 0.0) for key in self._parked)
        self._parked = {}
        self.enqueue_after(ALL, max(soonest - now, self.context.timings.scheduling.seconds))

    def reconcile(self, key: str) -> None:
        if key == EVEN_SO:
            self._wake()
            return
        now = self.clock.seconds()
        due = [each for each in self._waiting if self._not_before.get(each, 0.0) <= now]
        for each in due:
            del self._waiting[each]
        if self._waiting:
            self.enqueue_after(ALL, min(self._not_before[each] for each in self._waiting) - now)
        for placement in self._scheduler.schedule(due) if due else ():
            if placement.node:
                self.registry.bind(placement.pod, placement.node)
            else:
                self._park(placement.pod, placement.reason)

    def _park(self, key: str, reason: str) -> None:
        tries = self._tries[key] = self._tries.get(key, 0) + 1
        backoff = min(FIRST_BACKOFF_SECONDS * 2 ** (tries - 1), LONGEST_BACKOFF_SECONDS)
        self._not_before[key] = self.clock.seconds() + backoff
        self._parked[key] = None
        self.enqueue_after(EVEN_SO, LONGEST_WAIT_SECONDS)
        pod = self.store.all("Pod")[key]
        said = condition_of(pod, "PodScheduled")
        if said is None or said.get("message") != reason:
            self._say(key, pod, reason)

    def _say(self, key: str, pod: Json, reason: str) -> None:
        state = condition("PodScheduled", "False", self.registry.now(), "Unschedulable", reason)
        self.registry.set_status("Pod", key, with_conditions(pod["status"], [state]))
