"""Taints of nodes, and the pods of nodes that fail or are deleted.

A node that is cordoned or not ready is tainted. Pods on a node that is not ready are no longer
Ready. They are deleted when their toleration of the taint ends, and removed when the node is Ready
again or deleted.
"""

from rescheduler.labels import NOT_READY_TAINT, UNREACHABLE_TAINT, UNSCHEDULABLE_TAINT
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
MANAGED_TAINTS = (NOT_READY_TAINT, UNREACHABLE_TAINT, UNSCHEDULABLE_TAINT)
DELETED = "deleted/"
NOT_READY_PODS = "not-ready-pods/"


class NodeLifecycleController(Controller):
    """Keys are nodes; with a prefix, nodes that were deleted or whose pods are to be deleted."""

    def start_watching(self) -> None:
        self._not_ready_since: dict[str, float] = {}
        self.store.listen("Node", self._node_changed)
        self.store.listen("Pod", self._pod_changed)
        for key in list(self.store.all("Node")):
            self.enqueue(key)

    def _node_changed(self, change: ObjectChange) -> None:
        if change.new is None:
            self._not_ready_since.pop(change.key, None)
            self.enqueue_after(f"{DELETED}{change.key}", self.context.timings.node_gone)
        elif change.old is None or relevant_state(change.old) != relevant_state(change.new):
            self.enqueue(change.key)

    def _pod_changed(self, change: ObjectChange) -> None:
        """A pod that is bound to a node that is deleted or not ready."""
        new, old = change.new, change.old
        if new is None or not new["spec"].get("nodeName"):
            return
        if old is None or not old["spec"].get("nodeName"):
            node = new["spec"]["nodeName"]
            if self.store.get("Node", node) is None:
                self.enqueue_after(f"{DELETED}{node}", self.context.timings.node_gone)
            elif node in self._not_ready_since:
                self.enqueue(node)

    def reconcile(self, key: str) -> None:
        if key.startswith(DELETED):
            self._remove_pods(key.removeprefix(DELETED))
            return
        if key.startswith(NOT_READY_PODS):
            self._delete_intolerant(key.removeprefix(NOT_READY_PODS))
            return
        node = self.store.get("Node", key)
        if node is None:
            return
        self._taint(key, node)
        if is_ready(node):
            self._not_ready_since.pop(key, None)
            self.cancel_timer(f"{NOT_READY_PODS}{key}")
            self._set_pods_ready(key)
        else:
            self._not_ready_since.setdefault(key, self.clock.seconds())
            self._set_pods_not_ready(key)
            self._delete_intolerant(key)

    def _taint(self, key: str, node: Json) -> None:
        kept = [
            taint
            for taint in node["spec"].get("taints") or ()
            if taint["key"] not in MANAGED_TAINTS
        ]
        taints = [*kept, *required_taints(node)]
        if taints != (node["spec"].get("taints") or []):
            self.registry.set_spec("Node", key, taints=taints)

    # ------------------------------------------------------------ pods of a node that is not ready

    def _set_pods_not_ready(self, node: str) -> None:
        """Pods of a node that does not report do not count as Ready."""
        not_ready = condition("Ready", "False", self.registry.now(), "NodeNotReady")
        for pod in self.indexes.pods(self.indexes.pods_on.keys(node)):
            if is_ready(pod):
                status = with_conditions(pod["status"], [not_ready])
                self.registry.set_status("Pod", key_of(pod), status)

    def _set_pods_ready(self, node: str) -> None:
        """The node is Ready again and reports that its pods kept running."""
        ready_again = condition("Ready", "True", self.registry.now())
        for pod in self.indexes.pods(self.indexes.pods_on.keys(node)):
            ready = condition_of(pod, "Ready")
            if ready is not None and ready.get("reason") == "NodeNotReady":
                status = with_conditions(pod["status"], [ready_again])
                self.registry.set_status("Pod", key_of(pod), status)

    def _delete_intolerant(self, node: str) -> None:
        """Delete the pods whose toleration of the node's taints has ended."""
        since = self._not_ready_since.get(node)
        if since is None:
            return
        left = []
        for pod in self.indexes.pods(self.indexes.pods_on.keys(node)):
            tolerated_seconds = self._tolerated_seconds(pod)
            if not is_active(pod) or tolerated_seconds is None:
                continue
            remaining = since + tolerated_seconds - self.clock.seconds()
            if remaining > 1e-6:
                left.append(remaining)
            else:
                self.registry.delete(PODS, key_of(pod))
        if left:
            self.enqueue_after(f"{NOT_READY_PODS}{node}", min(left))

    def _tolerated_seconds(self, pod: Json) -> float | None:
        """How long a pod stays on a node that is not ready; None is for ever."""
        for toleration in pod["spec"].get("tolerations") or ():
            matches_key = toleration.get("key") in (NOT_READY_TAINT, UNREACHABLE_TAINT, "", None)
            if matches_key and toleration.get("effect") in ("NoExecute", "", None):
                seconds = toleration.get("tolerationSeconds")
                if seconds is None:
                    return None
                is_default = seconds == 300
                return self.context.timings.node_eviction if is_default else float(seconds)
        return 0.0

    def _remove_pods(self, node: str) -> None:
        """Remove the pods of a deleted node."""
        if self.store.get("Node", node) is not None:
            return
        for pod in self.indexes.pods_on.keys(node):
            self.registry.delete(PODS, pod, grace_seconds=0)


def relevant_state(node: Json) -> tuple[object, ...]:
    """The part of a node that its taints and pods depend on."""
    ready = condition_of(node, "Ready")
    state = ready["status"] if ready is not None else ""
    return state, node["spec"].get("unschedulable"), node["spec"].get("taints")


def required_taints(node: Json) -> list[Json]:
    """The taints for the state of a node."""
    taints = []
    if node["spec"].get("unschedulable"):
        taints.append({"key": UNSCHEDULABLE_TAINT, "effect": "NoSchedule"})
    ready = condition_of(node, "Ready")
    if ready is None or ready["status"] != "True":
        is_known = ready is not None and ready["status"] == "False"
        key = NOT_READY_TAINT if is_known else UNREACHABLE_TAINT
        taints += [{"key": key, "effect": effect} for effect in ("NoSchedule", "NoExecute")]
    return taints
