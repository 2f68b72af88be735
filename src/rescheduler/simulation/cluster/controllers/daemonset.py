"""DaemonSets: a pod on every eligible node.

A key is `namespace/name` for the rollout and status of a set, `namespace/name/node` for one node.
A rollout replaces one pod at a time.
"""

import msgspec

from rescheduler.labels import (
    DISK_PRESSURE_TAINT,
    MEMORY_PRESSURE_TAINT,
    NOT_READY_TAINT,
    PID_PRESSURE_TAINT,
    REVISION_HASH,
    UNREACHABLE_TAINT,
    UNSCHEDULABLE_TAINT,
)
from rescheduler.model.objects import Node, PodSpec
from rescheduler.planning.feasibility.label_columns import NodeLabels
from rescheduler.planning.feasibility.plugins.taint_toleration import hard_taints, untolerated_taint
from rescheduler.simulation.cluster.controllers.base import Controller, ControllerContext
from rescheduler.simulation.cluster.controllers.revisions import Revisions
from rescheduler.simulation.cluster.json_objects import (
    Json,
    controller_of,
    is_active,
    is_deleting,
    is_finished,
    is_ready,
    key_of,
    labels_of,
    reference_to,
    uid_of,
)
from rescheduler.simulation.cluster.object_store import ObjectChange
from rescheduler.simulation.cluster.pod_admission import with_pod_defaults
from rescheduler.simulation.cluster.resources import BY_NAME

PODS = BY_NAME["Pod"]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
# Tolerations that the controller adds to every pod.
ADDED_TOLERATIONS = [
    {"key": taint, "operator": "Exists", "effect": effect}
    for taint, effect in (
        (NOT_READY_TAINT, "NoExecute"),
        (UNREACHABLE_TAINT, "NoExecute"),
        (DISK_PRESSURE_TAINT, "NoSchedule"),
        (MEMORY_PRESSURE_TAINT, "NoSchedule"),
        (PID_PRESSURE_TAINT, "NoSchedule"),
        (UNSCHEDULABLE_TAINT, "NoSchedule"),
    )
]


class DaemonSetController(Controller):
    """Keeps one pod of each set on each eligible node."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._revisions = Revisions(context)

    def start_watching(self) -> None:
        self.store.listen("DaemonSet", self._set_changed)
        self.store.listen("Node", self._node_changed)
        for key in list(self.store.all("DaemonSet")):
            self._enqueue_everywhere(key)

    def _enqueue_everywhere(self, key: str) -> None:
        self.enqueue(key)
        for node in self.store.all("Node"):
            self.enqueue(f"{key}/{node}")

    def _set_changed(self, change: ObjectChange) -> None:
        old, new = change.old, change.new
        if new is not None and (old is None or old["spec"] is not new["spec"]):
            self._enqueue_everywhere(change.key)

    def _node_changed(self, change: ObjectChange) -> None:
        old, new = change.old, change.new
        is_same = (
            old is not None
            and new is not None
            and old["spec"] == new["spec"]
            and labels_of(old) == labels_of(new)
        )
        if not is_same:
            for key in self.store.all("DaemonSet"):
                self.enqueue(f"{key}/{change.key}")

    def pod_changed(self, owner: str, change: ObjectChange) -> None:
        self.enqueue(owner)
        pod = change.new or change.old
        if pod is not None and (node := intended_node(pod)):
            self.enqueue(f"{owner}/{node}")

    def reconcile(self, key: str) -> None:
        namespace, name, *rest = key.split("/")
        owner = self.store.get("DaemonSet", f"{namespace}/{name}")
        if owner is None or is_deleting(owner):
            return
        if rest:
            self._reconcile_node(owner, rest[0])
        else:
            self._roll_out(owner)
            self._write_status(owner)

    # ------------------------------------------------------------ one node

    def _reconcile_node(self, owner: Json, node: str) -> None:
        found = self.store.get("Node", node)
        pods = self._pods_for(owner, node)
        for pod in pods:
            if is_finished(pod) and not is_deleting(pod):
                self.registry.delete(PODS, key_of(pod))
        active = [pod for pod in pods if is_active(pod)]
        if found is None or not is_eligible(found, owner):
            for pod in active:
                self.registry.delete(PODS, key_of(pod))
        elif not pods and owner["spec"].get("template"):
            self._create_pod(owner, node)

    def _pods_for(self, owner: Json, node: str) -> list[Json]:
        """Its pods that are on a node, or are pending for it."""
        uid = uid_of(owner)
        keys = [*self.indexes.pods_on.keys(node), *self.indexes.pods_on.keys("")]
        pods = [pod for pod in self.indexes.pods(keys) if is_controlled_by(pod, uid)]
        return [pod for pod in pods if intended_node(pod) == node]

    def _create_pod(self, owner: Json, node: str) -> None:
        template = owner["spec"]["template"]
        labels = {**(template.get("metadata", {}).get("labels") or {})}
        labels[REVISION_HASH] = self._revisions.hash_for(owner)
        metadata = {
            **{key: value for key, value in template.get("metadata", {}).items() if value},
            "generateName": f"{owner['metadata']['name']}-",
            "labels": labels,
            "ownerReferences": [reference_to(owner)],
        }
        spec = for_one_node(node, with_tolerations(template["spec"]))
        body = {"metadata": metadata, "spec": with_pod_defaults(spec, self.store)}
        self.registry.create(PODS, owner["metadata"]["namespace"], body)

    # ------------------------------------------------------------ all of them

    def _roll_out(self, owner: Json) -> None:
        """Delete one pod of an old version, if all pods are Ready."""
        strategy = (owner["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate")
        if strategy != "RollingUpdate" or not owner["spec"].get("template"):
            return
        current = self._revisions.hash_for(owner)
        pods = self.indexes.pods_owned_by(uid_of(owner))
        old = [pod for pod in pods if labels_of(pod).get(REVISION_HASH, current) != current]
        if old and all(is_ready(pod) and not is_deleting(pod) for pod in pods):
            self.registry.delete(PODS, key_of(old[0]))

    def _write_status(self, owner: Json) -> None:
        pods = [pod for pod in self.indexes.pods_owned_by(uid_of(owner)) if is_active(pod)]
        ready = sum(map(is_ready, pods))
        status = {
            **owner["status"],
            "observedGeneration": owner["metadata"]["generation"],
            "desiredNumberScheduled": len(pods),
            "currentNumberScheduled": len(pods),
            "numberReady": ready,
            "numberAvailable": ready,
        }
        self.registry.set_status("DaemonSet", key_of(owner), status)


def is_eligible(node: Json, owner: Json) -> bool:
    """Whether a set's pod should run on a node: taints, node selector and affinity."""
    spec = with_tolerations(owner["spec"].get("template", {}).get("spec") or {})
    pod_spec = msgspec.convert(spec, PodSpec)
    candidate = msgspec.convert(node, Node)
    if untolerated_taint(pod_spec.tolerations, hard_taints(candidate.spec.taints)) is not None:
        return False
    labels = candidate.metadata.labels
    if any(labels.get(key) != value for key, value in pod_spec.node_selector.items()):
        return False
    affinity = pod_spec.affinity.node_affinity if pod_spec.affinity is not None else None
    if affinity is None or affinity.required is None:
        return True
    terms = affinity.required.node_selector_terms
    return bool(NodeLabels([candidate.metadata.name], [labels]).matching_any(terms)[0])


def with_tolerations(spec: Json) -> Json:
    """A spec with the tolerations of every DaemonSet pod."""
    return {**spec, "tolerations": [*(spec.get("tolerations") or ()), *ADDED_TOLERATIONS]}


def for_one_node(node: str, spec: Json) -> Json:
    """A spec whose required node affinity is this node alone."""
    this_node = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = spec.get("affinity") or {}
    node_affinity = {**(affinity.get("nodeAffinity") or {})}
    node_affinity[REQUIRED] = {"nodeSelectorTerms": [this_node]}
    return {**spec, "affinity": {**affinity, "nodeAffinity": node_affinity}}


def intended_node(pod: Json) -> str:
    """The node that a pod is on, or the one that its affinity names."""
    if name := pod["spec"].get("nodeName"):
        return str(name)
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    for term in (affinity.get(REQUIRED) or {}).get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            return str(field["values"][0])
    return ""


def is_controlled_by(pod: Json, uid: str) -> bool:
    """Whether the controller of a pod has this uid."""
    owner = controller_of(pod)
    return owner is not None and owner["uid"] == uid
