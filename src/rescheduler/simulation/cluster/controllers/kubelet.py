"""Kubelets: pods become Ready, succeed and are removed, each after some time."""

from enum import Enum, auto
from typing import NamedTuple

from rescheduler.labels import RUNS_FOR_SECONDS, STARTS_IN_SECONDS
from rescheduler.simulation.cluster.controllers.base import Controller, ControllerContext
from rescheduler.simulation.cluster.json_objects import (
    Json,
    annotations_of,
    condition,
    is_deleting,
    is_finished,
    is_ready,
    parse_time,
    uid_of,
    with_conditions,
)
from rescheduler.simulation.cluster.object_store import ObjectChange


class PodStep(Enum):
    """What a kubelet does to a pod."""

    READY = auto()
    SUCCEED = auto()
    REMOVE = auto()


class PlannedStep(NamedTuple):
    """The next step of a pod, and when it happens."""

    pod_uid: str
    step: PodStep
    at_seconds: float


class Kubelets(Controller):
    """The kubelets of all nodes. That of a node that is not Ready does nothing."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.hanging: set[str] = set()
        """Nodes whose kubelet does nothing although they are Ready."""
        self._next: dict[str, PlannedStep] = {}

    def start_watching(self) -> None:
        self.store.listen("Pod", self._pod_changed)
        self.store.listen("Node", self._node_changed)
        for key in list(self.store.all("Pod")):
            self.enqueue(key)

    def _pod_changed(self, change: ObjectChange) -> None:
        pod = change.new
        if pod is None:
            self._next.pop(change.key, None)
            self.cancel_timer(change.key)
            return
        if not pod["spec"].get("nodeName"):
            return
        old = change.old
        if old is not None and old["spec"].get("nodeName") and is_deleting(old) == is_deleting(pod):
            return
        self._plan_next(change.key, pod)

    def _node_changed(self, change: ObjectChange) -> None:
        """A node that is Ready again continues with its pods."""
        is_ready_now = change.new is not None and is_ready(change.new)
        if is_ready_now and (change.old is None or not is_ready(change.old)):
            for key in self.indexes.pods_on.keys(change.key):
                self.enqueue(key)

    def reconcile(self, key: str) -> None:
        pod = self.store.get("Pod", key)
        if pod is None or not pod["spec"].get("nodeName") or not self._node_works(pod):
            return
        step = next_step(pod)
        planned = self._next.get(key)
        if step is None:
            return
        if planned is None or planned.pod_uid != uid_of(pod) or planned.step is not step:
            self._plan_next(key, pod)
        elif planned.at_seconds <= self.clock.seconds() + 1e-6:
            del self._next[key]
            self._do(step, key, pod)
        else:
            self.enqueue_after(key, planned.at_seconds - self.clock.seconds())

    def _node_works(self, pod: Json) -> bool:
        name = pod["spec"]["nodeName"]
        node = self.store.get("Node", name)
        return node is not None and is_ready(node) and name not in self.hanging

    def _plan_next(self, key: str, pod: Json) -> None:
        """Draw how long the next step of a pod takes."""
        step = next_step(pod)
        if step is None:
            return
        seconds = self._seconds_until(step, pod)
        self._next[key] = PlannedStep(uid_of(pod), step, self.clock.seconds() + seconds)
        self.cancel_timer(key)
        self.enqueue_after(key, seconds)

    def _seconds_until(self, step: PodStep, pod: Json) -> float:
        timings, chance = self.context.timings, self.context.chance
        if step is PodStep.READY:
            own = annotations_of(pod).get(STARTS_IN_SECONDS)
            return float(own) if own else timings.ready.draw(chance)
        if step is PodStep.SUCCEED:
            own = annotations_of(pod).get(RUNS_FOR_SECONDS)
            return float(own) if own else timings.run.draw(chance)
        grace = parse_time(pod["metadata"]["deletionTimestamp"]) - self.clock.now()
        return max(0.0, min(timings.stop.draw(chance), grace.total_seconds()))

    def _do(self, step: PodStep, key: str, pod: Json) -> None:
        match step:
            case PodStep.REMOVE:
                self.store.remove("Pod", key)
            case PodStep.SUCCEED:
                self._set_succeeded(key, pod)
            case PodStep.READY:
                self._set_ready(key, pod)

    def _set_ready(self, key: str, pod: Json) -> None:
        now = self.registry.now()
        conditions = [condition(type, "True", now) for type in ("Initialized", "Ready")]
        conditions.append(condition("ContainersReady", "True", now))
        status = with_conditions(
            {**pod["status"], "phase": "Running", "startTime": now}, conditions
        )
        self._plan_next(key, self.registry.set_status("Pod", key, status))

    def _set_succeeded(self, key: str, pod: Json) -> None:
        now = self.registry.now()
        conditions = [condition("Ready", "False", now, "PodCompleted")]
        status = with_conditions({**pod["status"], "phase": "Succeeded"}, conditions)
        self.registry.set_status("Pod", key, status)


def next_step(pod: Json) -> PodStep | None:
    """The next step of a pod on a node that works, if there is one."""
    if is_deleting(pod):
        return PodStep.REMOVE
    if is_finished(pod):
        return None
    if not is_ready(pod):
        never_starts = annotations_of(pod).get(STARTS_IN_SECONDS) == "never"
        return None if never_starts else PodStep.READY
    runs_for_ever = pod["spec"].get("restartPolicy", "Always") == "Always"
    return None if runs_for_ever else PodStep.SUCCEED
