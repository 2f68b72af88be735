"""DaemonSets: a pod on every node that takes one. Their keys name the set, and a node if it is one.

A new template reaches the nodes one by one.
"""

import msgspec

from rescheduler.model.objects import Node, PodSpec
from rescheduler.planning.feasibility.label_columns import NodeLabels
from rescheduler.planning.feasibility.plugins.taint_toleration import hard_taints, untolerated_taint
from rescheduler.simulation.cluster.controllers.base import Controller, ControllerContext
from rescheduler.simulation.cluster.controllers.revisions import REVISION, Revisions
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
# What the controller lets its pods tolerate, whatever their template says.
TOLERATED = [
    {"key": f"node.kubernetes.io/{word}", "operator": "Exists", "effect": effect}
    for word, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
]


class DaemonSetController(Controller):
    """Keeps one pod of each set on each node that it fits."""

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
        if pod is not None and (node := node_meant_by(pod)):
            self.enqueue(f"{owner}/{node}")

    def reconcile(self, key: str) -> None:
        namespace, name, *rest = key.split("/")
        owner = self.store.get("DaemonSet", f"{namespace}/{name}")
        if owner is None or is_deleting(owner):
            return
        if rest:
            self._look_at_node(owner, rest[0])
        else:
            self._roll_out(owner)
            self._write_status(owner)

    # ------------------------------------------------------------ one node

    def _look_at_node(self, owner: Json, node: str) -> None:
        found = self.store.get("Node", node)
        pods = self._pods_for(owner, node)
        for pod in pods:
            if is_finished(pod) and not is_deleting(pod):
                self.registry.delete(PODS, key_of(pod))
        active = [pod for pod in pods if is_active(pod)]
        if found is None or not takes(found, owner):
            for pod in active:
                self.registry.delete(PODS, key_of(pod))
        elif not pods and owner["spec"].get("template"):
            self._create_pod(owner, node)

    def _pods_for(self, owner: Json, node: str) -> list[Json]:
        """Its pods that are on a node, or wait to be."""
        uid = uid_of(owner)
        near = [*self.indexes.pods_on.keys(node), *self.indexes.pods_on.keys("")]
        pods = [pod for pod in self.indexes.pods(near) if is_controlled_by(pod, uid)]
        return [pod for pod in pods if node_meant_by(pod) == node]

    def _create_pod(self, owner: Json, node: str) -> None:
        template = owner["spec"]["template"]
        labels = {**(template.get("metadata", {}).get("labels") or {})}
        labels[REVISION] = self._revisions.word(owner)
        metadata = {
            **{key: value for key, value in template.get("metadata", {}).items() if value},
            "generateName": f"{owner['metadata']['name']}-",
            "labels": labels,
            "ownerReferences": [reference_to(owner)],
        }
        spec = kept_for(node, with_tolerations(template["spec"]))
        body = {"metadata": metadata, "spec": with_pod_defaults(spec, self.store)}
        self.registry.create(PODS, owner["metadata"]["namespace"], body)

    # ------------------------------------------------------------ all of them

    def _roll_out(self, owner: Json) -> None:
        """Replace one pod of an old version, if all others serve."""
        strategy = (owner["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate")
        if strategy != "RollingUpdate" or not owner["spec"].get("template"):
            return
        word = self._revisions.word(owner)
        pods = self.indexes.pods_owned_by(uid_of(owner))
        old = [pod for pod in pods if labels_of(pod).get(REVISION, word) != word]
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


def takes(node: Json, owner: Json) -> bool:
    """Whether a node is one that a set's pod is to run on."""
    spec = with_tolerations(owner["spec"].get("template", {}).get("spec") or {})
    wanted = msgspec.convert(spec, PodSpec)
    there = msgspec.convert(node, Node)
    if untolerated_taint(wanted.tolerations, hard_taints(there.spec.taints)) is not None:
        return False
    labels = there.metadata.labels
    if any(labels.get(key) != value for key, value in wanted.node_selector.items()):
        return False
    affinity = wanted.affinity.node_affinity if wanted.affinity is not None else None
    if affinity is None or affinity.required is None:
        return True
    terms = affinity.required.node_selector_terms
    return bool(NodeLabels([there.metadata.name], [labels]).matching_any(terms)[0])


def with_tolerations(spec: Json) -> Json:
    """A spec with what every pod of a DaemonSet tolerates."""
    return {**spec, "tolerations": [*(spec.get("tolerations") or ()), *TOLERATED]}


def kept_for(node: str, spec: Json) -> Json:
    """A spec for this one node, in the place of all it says about nodes."""
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = spec.get("affinity") or {}
    node_affinity = {**(affinity.get("nodeAffinity") or {})}
    node_affinity[REQUIRED] = {"nodeSelectorTerms": [here]}
    return {**spec, "affinity": {**affinity, "nodeAffinity": node_affinity}}


def node_meant_by(pod: Json) -> str:
    """The node that a pod is on, or is to be on."""
    if name := pod["spec"].get("nodeName"):
        return str(name)
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    for term in (affinity.get(REQUIRED) or {}).get("nodeSelectorTerms") or ():
        for each in term.get("matchFields") or ():
            return str(each["values"][0])
    return ""


def is_controlled_by(pod: Json, uid: str) -> bool:
    """Whether it is one of this very controller's."""
    owner = controller_of(pod)
    return owner is not None and owner["uid"] == uid
