"""The loop of the scheduler: its queue with back-off, bindings, and what it writes into statuses.

A gated pod is in no queue until its last gate is removed.
"""

from rescheduler.simulation.cluster.controllers.base import Controller, ControllerContext
from rescheduler.simulation.cluster.json_objects import (
    Json,
    condition,
    condition_of,
    gates_of,
    is_deleting,
    is_finished,
    nominated_node_of,
    with_conditions,
    without_nomination,
)
from rescheduler.simulation.cluster.object_store import ObjectChange
from rescheduler.simulation.cluster.scheduler.scheduler import SimulatedScheduler
from rescheduler.simulation.cluster.scheduler.scheduling_result import SchedulingResult

INITIAL_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 1.0, 10.0
# How long the real queue keeps an unschedulable pod for which nothing changes.
MAX_UNSCHEDULABLE_SECONDS = 300.0
RETRY_AFTER_CHANGE_OF = (
    "Node",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
    "CSINode",
)
# The keys of this controller: schedule what is in the active queue, or retry everything.
ACTIVE, FLUSH = "active", "flush"


class SchedulerLoop(Controller):
    """Schedules all pods that are due together, and binds them."""

    def __init__(self, context: ControllerContext, scheduler: SimulatedScheduler) -> None:
        super().__init__(context)
        self._scheduler = scheduler
        self._active: dict[str, None] = {}
        self._attempts: dict[str, int] = {}
        self._backoff_until: dict[str, float] = {}
        self._unschedulable: dict[str, None] = {}

    def start_watching(self) -> None:
        self.store.listen("Pod", self._pod_changed)
        for kind in RETRY_AFTER_CHANGE_OF:
            self.store.listen(kind, self._cluster_changed)
        pods = self.store.all("Pod")
        for key in self.indexes.pods_on.keys(""):
            if not gates_of(pods[key]):
                self._add(key)

    def _pod_changed(self, change: ObjectChange) -> None:
        old, new = change.old, change.new
        if old is not None and frees_room(old, new):
            self._retry_unschedulable()
        if new is None or is_finished(new) or is_deleting(new):
            self._forget(change.key)
        elif new["spec"].get("nodeName"):
            if old is None or not old["spec"].get("nodeName"):
                self._forget(change.key)
                self._retry_unschedulable()
        elif not gates_of(new) and (old is None or may_fit_now(old, new)):
            self._add(change.key)

    def _cluster_changed(self, change: ObjectChange) -> None:
        if change.new is not None:
            self._retry_unschedulable()

    def _add(self, key: str) -> None:
        self._unschedulable.pop(key, None)
        self._active[key] = None
        self.enqueue_after(ACTIVE, self.context.timings.scheduling.draw(self.context.chance))

    def _forget(self, key: str) -> None:
        for part in (self._active, self._attempts, self._backoff_until, self._unschedulable):
            part.pop(key, None)

    def _retry_unschedulable(self) -> None:
        """A change may have made room: move all unschedulable pods to the active queue."""
        if not self._unschedulable:
            return
        now = self.clock.seconds()
        self._active |= self._unschedulable
        soonest = min(self._backoff_until.get(key, 0.0) for key in self._unschedulable)
        self._unschedulable = {}
        self.enqueue_after(ACTIVE, max(soonest - now, self.context.timings.scheduling.seconds))

    def reconcile(self, key: str) -> None:
        if key == FLUSH:
            self._retry_unschedulable()
            return
        now = self.clock.seconds()
        due = [pod for pod in self._active if self._backoff_until.get(pod, 0.0) <= now]
        for pod in due:
            del self._active[pod]
        if self._active:
            self.enqueue_after(ACTIVE, min(self._backoff_until[pod] for pod in self._active) - now)
        for result in self._scheduler.schedule(due) if due else ():
            if result.node:
                self.registry.bind(result.pod, result.node)
            else:
                self._back_off(result)

    def _back_off(self, result: SchedulingResult) -> None:
        key = result.pod
        attempts = self._attempts[key] = self._attempts.get(key, 0) + 1
        backoff = min(INITIAL_BACKOFF_SECONDS * 2 ** (attempts - 1), MAX_BACKOFF_SECONDS)
        self._backoff_until[key] = self.clock.seconds() + backoff
        self._unschedulable[key] = None
        self.enqueue_after(FLUSH, MAX_UNSCHEDULABLE_SECONDS)
        self._set_unschedulable(result)

    def _set_unschedulable(self, result: SchedulingResult) -> None:
        pod = self.store.all("Pod")[result.pod]
        status, scheduled = pod["status"], condition_of(pod, "PodScheduled")
        if scheduled is None or scheduled.get("message") != result.reason:
            refused = condition(
                "PodScheduled", "False", self.registry.now(), "Unschedulable", result.reason
            )
            status = with_conditions(status, [refused])
        if result.loses_nomination:
            status = without_nomination(status)
        self.registry.set_status("Pod", result.pod, status)


def frees_room(old: Json, new: Json | None) -> bool:
    """Whether a pod has left its node, or the node that was nominated for it."""
    if new is None or is_finished(new):
        return bool(old["spec"].get("nodeName") or nominated_node_of(old))
    return nominated_node_of(old) not in ("", nominated_node_of(new), new["spec"].get("nodeName"))


def may_fit_now(old: Json, new: Json) -> bool:
    """Whether a pending pod has changed so that nodes may accept it now."""
    return bool(gates_of(old)) or old["metadata"].get("labels") != new["metadata"].get("labels")
