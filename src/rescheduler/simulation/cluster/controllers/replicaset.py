"""ReplicaSets and ReplicationControllers: adopt, release, create and delete pods."""

from collections import Counter
from functools import cmp_to_key
from math import log2
from typing import Any

from rescheduler.labels import DELETION_COST
from rescheduler.simulation.cluster.controllers.base import (
    Controller,
    ControllerContext,
    replicas_of,
)
from rescheduler.simulation.cluster.json_objects import (
    Json,
    annotations_of,
    controller_of,
    is_active,
    is_deleting,
    is_ready,
    key_of,
    labels_of,
    matches_labels,
    parse_time,
    phase_of,
    ready_since,
    reference_to,
    uid_of,
)
from rescheduler.simulation.cluster.object_store import ObjectChange
from rescheduler.simulation.cluster.pod_admission import with_pod_defaults
from rescheduler.simulation.cluster.resources import BY_NAME

# The most pods that the real controller creates or deletes in one reconciliation.
BURST = 500
PHASE_RANKS = {"Pending": 0, "Unknown": 1, "Running": 2}
PODS = BY_NAME["Pod"]


class ReplicaSetController(Controller):
    """Keeps the desired number of pods of ReplicaSets, or of ReplicationControllers."""

    def __init__(self, context: ControllerContext, kind: str = "ReplicaSet") -> None:
        super().__init__(context)
        self.kind = kind
        self._pod_bodies = PodBodies(context)
        self._to_claim: dict[str, None] = {}
        """Keys of those that may have to adopt or release pods."""

    def start_watching(self) -> None:
        self.watch(self.kind)
        self._to_claim |= dict.fromkeys(self.store.all(self.kind))

    def pod_changed(self, owner: str, change: ObjectChange) -> None:
        self.enqueue(owner)
        old, new = change.old, change.new
        if old is not None and new is not None and labels_of(old) != labels_of(new):
            self._to_claim[owner] = None

    def orphan_changed(self, pod: Json) -> None:
        for owner in self.indexes.objects_in(self.kind, pod["metadata"]["namespace"]):
            if matches_labels(self.registry.selectors.of(owner["spec"]["selector"]), pod):
                self._to_claim[key_of(owner)] = None
                self.enqueue(key_of(owner))

    def reconcile(self, key: str) -> None:
        found = self.store.get(self.kind, key)
        if found is None:
            return
        if key in self._to_claim:
            del self._to_claim[key]
            self._claim(found)
        if not is_deleting(found):
            self._manage(found)
        self._write_status(found)

    # ------------------------------------------------------------ ownership

    def _claim(self, owner: Json) -> None:
        """Release pods that it no longer selects, and adopt those without a controller."""
        selector = self.registry.selectors.of(owner["spec"]["selector"])
        for pod in self.indexes.pods_owned_by(uid_of(owner)):
            if is_active(pod) and not matches_labels(selector, pod):
                self.registry.set_metadata("Pod", key_of(pod), ownerReferences=None)
        if is_deleting(owner):
            return
        for pod in self.indexes.pods(self.indexes.orphans_in.keys(owner["metadata"]["namespace"])):
            if is_active(pod) and matches_labels(selector, pod):
                others = pod["metadata"].get("ownerReferences") or []
                references = [*others, reference_to(owner)]
                self.registry.set_metadata("Pod", key_of(pod), ownerReferences=references)

    def _active_pods(self, owner: Json) -> list[Json]:
        """Its active pods."""
        return [pod for pod in self.indexes.pods_owned_by(uid_of(owner)) if is_active(pod)]

    # ------------------------------------------------------------ replicas

    def _manage(self, owner: Json) -> None:
        missing = replicas_of(owner) - self.indexes.pod_counts.owned_by(uid_of(owner)).active
        if missing > 0:
            for _ in range(min(missing, BURST)):
                self._create_pod(owner)
            if missing > BURST:
                self.enqueue(key_of(owner))
        elif missing < 0:
            for pod in self._in_deletion_order(owner, self._active_pods(owner))[
                : min(-missing, BURST)
            ]:
                self.registry.delete(PODS, key_of(pod), uid=uid_of(pod))

    def _create_pod(self, owner: Json) -> None:
        body = self._pod_bodies.of(owner)
        if body is not None:
            self.registry.create(PODS, owner["metadata"]["namespace"], body)

    def _in_deletion_order(self, owner: Json, pods: list[Json]) -> list[Json]:
        """Its pods; the first is deleted first."""
        siblings = self._pods_of_all_versions(owner, pods)
        on_node = Counter(pod["spec"].get("nodeName", "") for pod in siblings)
        now = self.clock.now().timestamp()
        candidates = [
            DeletionCandidate(pod, on_node[pod["spec"].get("nodeName", "")], now) for pod in pods
        ]
        return [ranked.pod for ranked in sorted(candidates, key=cmp_to_key(compare_for_deletion))]

    def _pods_of_all_versions(self, owner: Json, pods: list[Json]) -> list[Json]:
        """The active pods of all ReplicaSets of the same Deployment."""
        deployment = controller_of(owner)
        if deployment is None:
            return pods
        sets = self.store.all("ReplicaSet")
        return [
            pod
            for key in self.indexes.owned["ReplicaSet"].keys(deployment["uid"])
            for pod in self.indexes.pods_owned_by(uid_of(sets[key]))
            if is_active(pod)
        ]

    # ------------------------------------------------------------ status

    def _write_status(self, owner: Json) -> None:
        owner = self.store.all(self.kind)[key_of(owner)]
        active, ready = self.indexes.pod_counts.owned_by(uid_of(owner))
        status = {**owner["status"], "observedGeneration": owner["metadata"]["generation"]}
        status |= {
            "replicas": active,
            "fullyLabeledReplicas": active,
            "readyReplicas": ready,
            "availableReplicas": self._available(owner, ready),
        }
        self.registry.set_status(self.kind, key_of(owner), status)

    def _available(self, owner: Json, ready: int) -> int:
        """How many pods have been Ready for minReadySeconds; queues itself for the next."""
        min_ready_seconds = owner["spec"].get("minReadySeconds", 0)
        if not min_ready_seconds:
            return ready
        now = self.clock.now()
        since = [parse_time(ready_since(pod)) for pod in self._active_pods(owner) if is_ready(pod)]
        left = [min_ready_seconds - (now - time).total_seconds() for time in since]
        waiting = [seconds for seconds in left if seconds > 0]
        if waiting:
            self.enqueue_after(key_of(owner), min(waiting))
        return len(left) - len(waiting)


class PodBodies:
    """Bodies of new pods: built once per template, so that all pods share its parts."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._bodies: dict[str, tuple[Any, Json]] = {}

    def of(self, owner: Json) -> Json | None:
        """The body of a pod without a name; None if the workload has no template."""
        template = owner["spec"].get("template")
        if not template or not template.get("spec", {}).get("containers"):
            return None
        cached = self._bodies.get(uid_of(owner))
        if cached is None or cached[0] is not template:
            cached = self._bodies[uid_of(owner)] = template, self._body(owner, template)
        return cached[1]

    def _body(self, owner: Json, template: Json) -> Json:
        metadata = {
            name: template["metadata"][name]
            for name in ("labels", "annotations", "finalizers")
            if template.get("metadata", {}).get(name)
        }
        metadata["generateName"] = f"{owner['metadata']['name']}-"
        metadata["ownerReferences"] = [reference_to(owner)]
        spec = with_pod_defaults(template["spec"], self._context.store)
        return {"metadata": metadata, "spec": spec}


class DeletionCandidate:
    """A pod, and what the order of deletion depends on."""

    def __init__(self, pod: Json, siblings_on_node: int, now: float) -> None:
        self.pod = pod
        self.first = (
            bool(pod["spec"].get("nodeName")),
            PHASE_RANKS.get(phase_of(pod), 0),
            is_ready(pod),
            deletion_cost(pod),
            -siblings_on_node,
        )
        self.ready_since = seconds_at(ready_since(pod))
        self.restarts = max(
            (
                status.get("restartCount", 0)
                for status in pod["status"].get("containerStatuses", ())
            ),
            default=0,
        )
        self.created = seconds_at(pod["metadata"].get("creationTimestamp", ""))
        self.now = now


def seconds_at(text: str) -> float:
    """A timestamp in seconds; 0 if it is empty."""
    return parse_time(text).timestamp() if text else 0.0


def compare_for_deletion(one: DeletionCandidate, other: DeletionCandidate) -> int:
    """Negative if `one` is deleted before `other`, by the rules of the real controller."""
    if one.first != other.first:
        return -1 if one.first < other.first else 1
    if one.ready_since and other.ready_since and one.ready_since != other.ready_since:
        return by_age(one, other, one.ready_since, other.ready_since)
    if one.restarts != other.restarts:
        return other.restarts - one.restarts
    if one.created != other.created:
        return by_age(one, other, one.created, other.created)
    return 0


def by_age(
    one: DeletionCandidate, other: DeletionCandidate, since: float, other_since: float
) -> int:
    """The younger first, but only if its age is of a lower magnitude; else by uid."""
    difference = magnitude(one.now - since) - magnitude(other.now - other_since)
    if difference:
        return difference
    return -1 if uid_of(one.pod) < uid_of(other.pod) else 1


def magnitude(seconds: float) -> int:
    """The binary logarithm of an age in nanoseconds, as the real controller rounds ages."""
    return int(log2(seconds * 1e9)) if seconds > 0 else -1


def deletion_cost(pod: Json) -> int:
    """The pod deletion cost; 0 if the annotation is not valid."""
    text = annotations_of(pod).get(DELETION_COST, "0")
    digits = text.removeprefix("-")
    return int(text) if digits.isdecimal() and (digits == "0" or digits[0] != "0") else 0
