"""The nodes: they make pods Ready, let them run to their end, and let them stop."""

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
    with_conditions,
)
from rescheduler.simulation.cluster.object_store import ObjectChange
from rescheduler.simulation.cluster.resources import BY_NAME

PODS = BY_NAME["Pod"]


class Kubelets(Controller):
    """All nodes' kubelets. A node that is not Ready does nothing until it is again."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.hanging: set[str] = set()
        """Nodes that do nothing any more, although they seem well."""
        self._due: dict[str, tuple[str, str, float]] = {}

    def start_watching(self) -> None:
        self.store.listen("Pod", self._pod_changed)
        self.store.listen("Node", self._node_changed)
        for key in list(self.store.all("Pod")):
            self.enqueue(key)

    def _pod_changed(self, change: ObjectChange) -> None:
        pod = change.new
        if pod is None:
            self._due.pop(change.key, None)
            self.forget(change.key)
            return
        if not pod["spec"].get("nodeName"):
            return
        old = change.old
        if old is not None and old["spec"].get("nodeName") and is_deleting(old) == is_deleting(pod):
            return
        self._plan_next(change.key, pod)

    def _node_changed(self, change: ObjectChange) -> None:
        """A node that has come back takes up its pods where it had left them."""
        is_back = change.new is not None and is_ready(change.new)
        if is_back and (change.old is None or not is_ready(change.old)):
            for key in self.indexes.pods_on.keys(change.key):
                self.enqueue(key)

    def reconcile(self, key: str) -> None:
        pod = self.store.get("Pod", key)
        if pod is None or not pod["spec"].get("nodeName") or not self._node_works(pod):
            return
        what = next_for(pod)
        due = self._due.get(key)
        if not what:
            return
        if due is None or due[0] != pod["metadata"]["uid"] or due[1] != what:
            self._plan_next(key, pod)
        elif due[2] <= self.clock.seconds() + 1e-6:
            del self._due[key]
            self._do(what, key, pod)
        else:
            self.enqueue_after(key, due[2] - self.clock.seconds())

    def _node_works(self, pod: Json) -> bool:
        name = pod["spec"]["nodeName"]
        node = self.store.get("Node", name)
        return node is not None and is_ready(node) and name not in self.hanging

    def _plan_next(self, key: str, pod: Json) -> None:
        """Draw how long the next thing takes that happens to a pod."""
        what = next_for(pod)
        if not what:
            return
        seconds = self._seconds_until(what, pod)
        self._due[key] = (pod["metadata"]["uid"], what, self.clock.seconds() + seconds)
        self.forget(key)
        self.enqueue_after(key, seconds)

    def _seconds_until(self, what: str, pod: Json) -> float:
        timings, chance = self.context.timings, self.context.chance
        if what == "ready":
            own = annotations_of(pod).get(STARTS_IN_SECONDS)
            return float(own) if own else timings.ready.draw(chance)
        if what == "end":
            own = annotations_of(pod).get(RUNS_FOR_SECONDS)
            return float(own) if own else timings.run.draw(chance)
        promised = parse_time(pod["metadata"]["deletionTimestamp"]) - self.clock.now()
        return max(0.0, min(timings.stop.draw(chance), promised.total_seconds()))

    def _do(self, what: str, key: str, pod: Json) -> None:
        if what == "stop":
            self.store.remove("Pod", key)
        elif what == "end":
            self._end(key, pod)
        else:
            self._set_ready(key, pod)

    def _set_ready(self, key: str, pod: Json) -> None:
        now = self.registry.now()
        states = [condition(type, "True", now) for type in ("Initialized", "Ready")]
        states.append(condition("ContainersReady", "True", now))
        status = with_conditions({**pod["status"], "phase": "Running", "startTime": now}, states)
        made = self.registry.set_status("Pod", key, status)
        self._plan_next(key, made)

    def _end(self, key: str, pod: Json) -> None:
        now = self.registry.now()
        states = [condition("Ready", "False", now, "PodCompleted")]
        status = with_conditions({**pod["status"], "phase": "Succeeded"}, states)
        self.registry.set_status("Pod", key, status)


def next_for(pod: Json) -> str:
    """What happens to a pod next, if nobody interferes."""
    if is_deleting(pod):
        return "stop"
    if is_finished(pod):
        return ""
    if not is_ready(pod):
        return "" if annotations_of(pod).get(STARTS_IN_SECONDS) == "never" else "ready"
    return "" if pod["spec"].get("restartPolicy", "Always") == "Always" else "end"
