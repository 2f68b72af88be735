"""ReplicaSets and ReplicationControllers: adopt, release, make and retire pods."""

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

# As many as the real one makes or deletes in one go.
BURST = 500
PHASE_RANKS = {"Pending": 0, "Unknown": 1, "Running": 2}
PODS = BY_NAME["Pod"]


class ReplicaSetController(Controller):
    """Keeps as many pods as each ReplicaSet, or ReplicationController, wants."""

    def __init__(self, context: ControllerContext, kind: str = "ReplicaSet") -> None:
        super().__init__(context)
        self.kind = kind
        self._templates = PreparedTemplates(context)
        self._unclaimed: dict[str, None] = {}
        """Those whose pods may not be theirs any more, or not yet."""

    def start_watching(self) -> None:
        self.watch(self.kind)
        self._unclaimed |= dict.fromkeys(self.store.all(self.kind))

    def pod_changed(self, owner: str, change: ObjectChange) -> None:
        self.enqueue(owner)
        old, new = change.old, change.new
        if old is not None and new is not None and labels_of(old) != labels_of(new):
            self._unclaimed[owner] = None

    def orphan_changed(self, pod: Json) -> None:
        for each in self.indexes.objects_in(self.kind, pod["metadata"]["namespace"]):
            if matches_labels(self.registry.selectors.of(each["spec"]["selector"]), pod):
                self._unclaimed[key_of(each)] = None
                self.enqueue(key_of(each))

    def reconcile(self, key: str) -> None:
        found = self.store.get(self.kind, key)
        if found is None:
            return
        if key in self._unclaimed:
            del self._unclaimed[key]
            self._claim(found)
        if not is_deleting(found):
            self._manage(found)
        self._write_status(found)

    # ------------------------------------------------------------ whose pods they are

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

    def _pods(self, owner: Json) -> list[Json]:
        """Those that count."""
        return [pod for pod in self.indexes.pods_owned_by(uid_of(owner)) if is_active(pod)]

    # ------------------------------------------------------------ how many there are

    def _manage(self, owner: Json) -> None:
        missing = replicas_of(owner) - self.indexes.pod_counts.owned_by(uid_of(owner)).active
        if missing > 0:
            for _ in range(min(missing, BURST)):
                self._create_pod(owner)
            if missing > BURST:
                self.enqueue(key_of(owner))
        elif missing < 0:
            for pod in self._to_retire(owner, self._pods(owner))[: min(-missing, BURST)]:
                self.registry.delete(PODS, key_of(pod), uid=uid_of(pod))

    def _create_pod(self, owner: Json) -> None:
        prepared = self._templates.of(owner)
        if prepared is not None:
            self.registry.create(PODS, owner["metadata"]["namespace"], prepared)

    def _to_retire(self, owner: Json, pods: list[Json]) -> list[Json]:
        """Its pods, those first that are deleted first."""
        on_node = Counter(pod["spec"].get("nodeName", "") for pod in self._related(owner, pods))
        now = self.clock.now().timestamp()
        ranked = [
            DeletionCandidate(pod, on_node[pod["spec"].get("nodeName", "")], now) for pod in pods
        ]
        return [each.pod for each in sorted(ranked, key=cmp_to_key(compare_for_deletion))]

    def _related(self, owner: Json, pods: list[Json]) -> list[Json]:
        """The pods of all versions of the same application."""
        above = controller_of(owner)
        if above is None:
            return pods
        sets = self.store.all("ReplicaSet")
        return [
            pod
            for key in self.indexes.owned["ReplicaSet"].keys(above["uid"])
            for pod in self.indexes.pods_owned_by(uid_of(sets[key]))
            if is_active(pod)
        ]

    # ------------------------------------------------------------ what it says of them

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
        """How many have been Ready for long enough; looks again when the next will have been."""
        settle = owner["spec"].get("minReadySeconds", 0)
        if not settle:
            return ready
        now = self.clock.now()
        since = [parse_time(ready_since(pod)) for pod in self._pods(owner) if is_ready(pod)]
        left = [settle - (now - moment).total_seconds() for moment in since]
        waiting = [seconds for seconds in left if seconds > 0]
        if waiting:
            self.enqueue_after(key_of(owner), min(waiting))
        return len(left) - len(waiting)


class PreparedTemplates:
    """New pods of workloads, made once per version of the template, so that all share one."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._made: dict[str, tuple[Any, Json]] = {}

    def of(self, owner: Json) -> Json | None:
        """A pod without a name of its own; None if the workload has no template."""
        template = owner["spec"].get("template")
        if not template or not template.get("spec", {}).get("containers"):
            return None
        made = self._made.get(uid_of(owner))
        if made is None or made[0] is not template:
            made = self._made[uid_of(owner)] = template, self._prepared(owner, template)
        return made[1]

    def _prepared(self, owner: Json, template: Json) -> Json:
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
    """A pod that may be deleted, and what speaks for it."""

    def __init__(self, pod: Json, neighbours: int, now: float) -> None:
        self.pod = pod
        self.first = (
            bool(pod["spec"].get("nodeName")),
            PHASE_RANKS.get(phase_of(pod), 0),
            is_ready(pod),
            deletion_cost(pod),
            -neighbours,
        )
        self.ready_since = seconds_at(ready_since(pod))
        self.restarts = max(
            (each.get("restartCount", 0) for each in pod["status"].get("containerStatuses", ())),
            default=0,
        )
        self.created = seconds_at(pod["metadata"].get("creationTimestamp", ""))
        self.now = now


def seconds_at(text: str) -> float:
    """A time in seconds, or nothing."""
    return parse_time(text).timestamp() if text else 0.0


def compare_for_deletion(one: DeletionCandidate, other: DeletionCandidate) -> int:
    """Below zero if one is deleted before the other, as the real one has it."""
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
    """The younger first, but only if it is younger by orders of magnitude; else by uid."""
    difference = magnitude(one.now - since) - magnitude(other.now - other_since)
    if difference:
        return difference
    return -1 if uid_of(one.pod) < uid_of(other.pod) else 1


def magnitude(seconds: float) -> int:
    """The order of magnitude of an age, by twos, as it is in nanoseconds."""
    return int(log2(seconds * 1e9)) if seconds > 0 else -1


def deletion_cost(pod: Json) -> int:
    """What its annotation says; nothing if that makes no sense."""
    text = annotations_of(pod).get(DELETION_COST, "0")
    digits = text.removeprefix("-")
    return int(text) if digits.isdecimal() and (digits == "0" or digits[0] != "0") else 0
