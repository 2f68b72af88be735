"""StatefulSets: pods with stable names and volumes of their own, in order.

There are no ControllerRevisions, only the hash of the template. So a pod below a rollout's
partition that is created again gets the new template, where the real controller takes the old one.
"""

from dataclasses import dataclass, field

from rescheduler.labels import REVISION_HASH, STATEFUL_SET_POD_INDEX, STATEFUL_SET_POD_NAME
from rescheduler.simulation.cluster.controllers.base import (
    Controller,
    ControllerContext,
    replicas_of,
)
from rescheduler.simulation.cluster.controllers.revisions import Revisions
from rescheduler.simulation.cluster.json_objects import (
    Json,
    is_active,
    is_deleting,
    is_finished,
    is_ready,
    key_of,
    labels_of,
    parse_time,
    ready_since,
    reference_to,
    uid_of,
)
from rescheduler.simulation.cluster.pod_admission import with_pod_defaults
from rescheduler.simulation.cluster.resources import BY_NAME

PODS, CLAIMS = BY_NAME["Pod"], BY_NAME["PersistentVolumeClaim"]


@dataclass
class Members:
    """The pods of a set: by desired ordinal, and those beyond the desired count."""

    desired: dict[int, Json | None] = field(default_factory=dict)
    surplus: list[tuple[int, Json]] = field(default_factory=list)


class StatefulSetController(Controller):
    """Creates pods in order, waits for each, and deletes them from the last to the first."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._revisions = Revisions(context)

    def start_watching(self) -> None:
        self.watch("StatefulSet")

    def reconcile(self, key: str) -> None:
        found = self.store.get("StatefulSet", key)
        if found is None:
            return
        if not is_deleting(found) and found["spec"].get("template"):
            members = self._members(found)
            if self._create_missing(found, members) and self._delete_surplus(found, members):
                self._roll_out(found, members)
        self._write_status(found)

    def _members(self, owner: Json) -> Members:
        members = Members(dict.fromkeys(range(replicas_of(owner))))
        for pod in self.indexes.pods_owned_by(uid_of(owner)):
            number = ordinal(pod)
            if number in members.desired:
                members.desired[number] = pod
            elif number >= 0:
                members.surplus.append((number, pod))
        members.surplus.sort(key=lambda member: -member[0])
        return members

    # ------------------------------------------------------------ one step at a time

    def _create_missing(self, owner: Json, members: Members) -> bool:
        """Create missing pods; returns whether all pods exist and none has to be waited for."""
        in_order = is_in_order(owner)
        for number, pod in members.desired.items():
            if pod is not None and is_finished(pod):
                if not is_deleting(pod):
                    self.registry.delete(PODS, key_of(pod))
                return False
            if pod is None:
                self._create_pod(owner, number)
                if in_order:
                    return False
            elif in_order and not self._is_available(owner, pod):
                return False
        return True

    def _delete_surplus(self, owner: Json, members: Members) -> bool:
        for _, pod in members.surplus:
            if is_deleting(pod):
                if is_in_order(owner):
                    return False
                continue
            self.registry.delete(PODS, key_of(pod))
            if is_in_order(owner):
                return False
        return not members.surplus

    def _roll_out(self, owner: Json, members: Members) -> None:
        """Delete the last pod of an old version, once all pods after it are available."""
        strategy = owner["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
        for number in sorted(members.desired, reverse=True):
            pod = members.desired[number]
            if number < partition or pod is None:
                return
            if labels_of(pod).get(REVISION_HASH, "") not in (self._revisions.hash_for(owner), ""):
                if not is_deleting(pod):
                    self.registry.delete(PODS, key_of(pod))
                return
            if not self._is_available(owner, pod):
                return

    def _is_available(self, owner: Json, pod: Json) -> bool:
        """Whether a pod has been Ready for minReadySeconds; queues itself for when it has."""
        if is_deleting(pod) or not is_ready(pod):
            return False
        min_ready_seconds = owner["spec"].get("minReadySeconds", 0)
        left = min_ready_seconds - (self.clock.now() - parse_time(ready_since(pod))).total_seconds()
        if min_ready_seconds and left > 0:
            self.enqueue_after(key_of(owner), left)
            return False
        return True

    # ------------------------------------------------------------ new pods

    def _create_pod(self, owner: Json, number: int) -> None:
        namespace, name = owner["metadata"]["namespace"], owner["metadata"]["name"]
        pod = f"{name}-{number}"
        template = owner["spec"]["template"]
        metadata = {
            **{key: value for key, value in template.get("metadata", {}).items() if value},
            "name": pod,
            "labels": {
                **(template.get("metadata", {}).get("labels") or {}),
                REVISION_HASH: self._revisions.hash_for(owner),
                STATEFUL_SET_POD_NAME: pod,
                STATEFUL_SET_POD_INDEX: str(number),
            },
            "ownerReferences": [reference_to(owner)],
        }
        spec = with_pod_defaults(template["spec"], self.store)
        spec = {**spec, "hostname": pod}
        if claims := owner["spec"].get("volumeClaimTemplates"):
            spec["volumes"] = [
                *self._volumes(namespace, pod, claims),
                *template_volumes(spec, claims),
            ]
        self.registry.create(PODS, namespace, {"metadata": metadata, "spec": spec})

    def _volumes(self, namespace: str, pod: str, claims: list[Json]) -> list[Json]:
        """The volumes of a pod; creates their claims, which outlive it."""
        volumes = []
        for claim in claims:
            name = f"{claim['metadata']['name']}-{pod}"
            if self.store.get("PersistentVolumeClaim", f"{namespace}/{name}") is None:
                metadata = {**claim["metadata"], "name": name}
                self.registry.create(
                    CLAIMS, namespace, {"metadata": metadata, "spec": claim["spec"]}
                )
            volume = {"persistentVolumeClaim": {"claimName": name}}
            volumes.append({"name": claim["metadata"]["name"], **volume})
        return volumes

    def _write_status(self, owner: Json) -> None:
        owner = self.store.all("StatefulSet")[key_of(owner)]
        pods = [pod for pod in self.indexes.pods_owned_by(uid_of(owner)) if is_active(pod)]
        ready = sum(map(is_ready, pods))
        current = self._revisions.hash_for(owner)
        status = {
            **owner["status"],
            "observedGeneration": owner["metadata"]["generation"],
            "replicas": len(pods),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "updatedReplicas": sum(labels_of(pod).get(REVISION_HASH) == current for pod in pods),
            "updateRevision": current,
        }
        self.registry.set_status("StatefulSet", key_of(owner), status)


def is_in_order(owner: Json) -> bool:
    """Whether pods are created and deleted one at a time."""
    return bool(owner["spec"].get("podManagementPolicy", "OrderedReady") == "OrderedReady")


def ordinal(pod: Json) -> int:
    """The ordinal of a pod in its set; -1 if its name has none."""
    number = pod["metadata"]["name"].rpartition("-")[2]
    return int(number) if number.isdecimal() else -1


def template_volumes(spec: Json, claims: list[Json]) -> list[Json]:
    """The volumes of the template, without those that claims replace."""
    names = [claim["metadata"]["name"] for claim in claims]
    return [volume for volume in spec.get("volumes") or () if volume["name"] not in names]
