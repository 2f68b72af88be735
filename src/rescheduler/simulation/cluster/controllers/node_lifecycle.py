"""What happens to pods when something happens to their node.

A node that is cordoned or not ready is tainted, as the node lifecycle controller does. Pods on a
node that is not ready no longer count as Ready; those that tolerate it only for a while are
deleted after it, and go when their node comes back or is removed.
"""

from rescheduler.simulation.cluster.controllers.base import Controller
from rescheduler.simulation.cluster.json_objects import (
    Json,
    condition,
    condition_of,
    is_active,
    is_ready,
    key_of,
    with_conditions,
)
from rescheduler.simulation.cluster.object_store import ObjectChange
from rescheduler.simulation.cluster.resources import BY_NAME

PODS = BY_NAME["Pod"]
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
OURS = (NOT_READY, UNREACHABLE, UNSCHEDULABLE)
GONE = "gone/"
LOST = "lost/"


class NodeLifecycleController(Controller):
    """Taints nodes, and clears away pods that nobody runs any more."""

    def start_watching(self) -> None:
        self._not_ready_since: dict[str, float] = {}
        self.store.listen("Node", self._node_changed)
        self.store.listen("Pod", self._pod_changed)
        for key in list(self.store.all("Node")):
            self.enqueue(key)

    def _node_changed(self, change: ObjectChange) -> None:
        if change.new is None:
            self._not_ready_since.pop(change.key, None)
            self.enqueue_after(f"{GONE}{change.key}", self.context.timings.node_gone)
        elif change.old is None or what_matters(change.old) != what_matters(change.new):
            self.enqueue(change.key)

    def _pod_changed(self, change: ObjectChange) -> None:
        """A pod that comes to a node that is not there, or not ready, is not forgotten."""
        new, old = change.new, change.old
        if new is None or not new["spec"].get("nodeName"):
            return
        if old is None or not old["spec"].get("nodeName"):
            node = new["spec"]["nodeName"]
            if self.store.get("Node", node) is None:
                self.enqueue_after(f"{GONE}{node}", self.context.timings.node_gone)
            elif node in self._not_ready_since:
                self.enqueue(node)

    def reconcile(self, key: str) -> None:
        if key.startswith(GONE):
            self._clear(key.removeprefix(GONE))
            return
        if key.startswith(LOST):
            self._give_up(key.removeprefix(LOST))
            return
        node = self.store.get("Node", key)
        if node is None:
            return
        self._taint(key, node)
        if is_ready(node):
            self._not_ready_since.pop(key, None)
            self.forget(f"{LOST}{key}")
            self._count_again(key)
        else:
            self._not_ready_since.setdefault(key, self.clock.seconds())
            self._count_out(key)
            self._give_up(key)

    def _taint(self, key: str, node: Json) -> None:
        kept = [each for each in node["spec"].get("taints") or () if each["key"] not in OURS]
        taints = [*kept, *wanted_taints(node)]
        if taints != (node["spec"].get("taints") or []):
            self.registry.set_spec("Node", key, taints=taints)

    # ------------------------------------------------------------ pods of a node that is not ready

    def _count_out(self, node: str) -> None:
        """Its pods serve nobody that we know of."""
        state = condition("Ready", "False", self.registry.now(), "NodeNotReady")
        for pod in self.indexes.pods(self.indexes.pods_on.keys(node)):
            if is_ready(pod):
                status = with_conditions(pod["status"], [state])
                self.registry.set_status("Pod", key_of(pod), status)

    def _count_again(self, node: str) -> None:
        """The node is back, and says that its pods have been running all the time."""
        state = condition("Ready", "True", self.registry.now())
        for pod in self.indexes.pods(self.indexes.pods_on.keys(node)):
            ready = condition_of(pod, "Ready")
            if ready is not None and ready.get("reason") == "NodeNotReady":
                status = with_conditions(pod["status"], [state])
                self.registry.set_status("Pod", key_of(pod), status)

    def _give_up(self, node: str) -> None:
        """Delete the pods whose patience with their node is over."""
        since = self._not_ready_since.get(node)
        if since is None:
            return
        left = []
        for pod in self.indexes.pods(self.indexes.pods_on.keys(node)):
            patience = self._patience(pod)
            if not is_active(pod) or patience is None:
                continue
            remaining = since + patience - self.clock.seconds()
            if remaining > 1e-6:
                left.append(remaining)
            else:
                self.registry.delete(PODS, key_of(pod))
        if left:
            self.enqueue_after(f"{LOST}{node}", min(left))

    def _patience(self, pod: Json) -> float | None:
        """For how long a pod stays on a node that is not ready; None for ever."""
        for each in pod["spec"].get("tolerations") or ():
            about = each.get("key") in (NOT_READY, UNREACHABLE, "", None)
            if about and each.get("effect") in ("NoExecute", "", None):
                seconds = each.get("tolerationSeconds")
                if seconds is None:
                    return None
                usual = seconds == 300
                return self.context.timings.node_eviction if usual else float(seconds)
        return 0.0

    def _clear(self, node: str) -> None:
        """Remove the pods of a node that is gone."""
        if self.store.get("Node", node) is not None:
            return
        for pod in self.indexes.pods_on.keys(node):
            self.registry.delete(PODS, pod, grace_seconds=0)


def what_matters(node: Json) -> tuple[object, ...]:
    """What of a node its taints and pods depend on."""
    ready = condition_of(node, "Ready")
    state = ready["status"] if ready is not None else ""
    return state, node["spec"].get("unschedulable"), node["spec"].get("taints")


def wanted_taints(node: Json) -> list[Json]:
    """The taints that say how a node is."""
    taints = []
    if node["spec"].get("unschedulable"):
        taints.append({"key": UNSCHEDULABLE, "effect": "NoSchedule"})
    ready = condition_of(node, "Ready")
    if ready is None or ready["status"] != "True":
        is_known = ready is not None and ready["status"] == "False"
        key = NOT_READY if is_known else UNREACHABLE
        taints += [{"key": key, "effect": effect} for effect in ("NoSchedule", "NoExecute")]
    return taints
