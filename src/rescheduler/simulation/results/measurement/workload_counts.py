"""Which workload a controller's pods count for, and how many replicas it desires."""

from collections import Counter, defaultdict

from rescheduler.simulation.cluster.json_objects import Json, controller_of, key_of

REPLICATED_KINDS = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet")
"""Kinds whose spec has a number of replicas."""


class DesiredCounts:
    """Controllers by uid, and which versions of a Deployment have pods or want some."""

    def __init__(self) -> None:
        self._workload_of: dict[str, str] = {}
        self._active: Counter[str] = Counter()
        self._versions: dict[str, set[str]] = defaultdict(set)
        self._desired: dict[str, int] = {}

    def controller_changed(self, old: Json | None, new: Json | None) -> None:
        """A controller was created, changed or deleted."""
        value = new if new is not None else old
        assert value is not None
        uid = value["metadata"]["uid"]
        if new is None:
            self._desired[uid] = 0
            self._update_versions(uid)
            return
        self._workload_of[uid] = workload_of(value)
        self._desired[uid] = desired_replicas(value)
        if value["kind"] == "ReplicaSet":
            self._update_versions(uid)

    def workload_of(self, pod: Json) -> str:
        """The workload that a pod counts for, or empty."""
        owner = controller_of(pod)
        return self._workload_of.get(owner["uid"], "") if owner is not None else ""

    def add_active(self, owner: str, count: int) -> None:
        """A controller has one more active pod, or one fewer (count -1)."""
        self._active[owner] += count
        self._update_versions(owner)

    def is_rolling_out(self, workload: str) -> bool:
        """Whether two versions of a Deployment have pods or want some."""
        return len(self._versions.get(workload, ())) > 1

    def _update_versions(self, uid: str) -> None:
        workload = self._workload_of.get(uid, "")
        if not workload.startswith("Deployment "):
            return
        versions = self._versions[workload]
        if self._active[uid] > 0 or self._desired.get(uid, 0) > 0:
            versions.add(uid)
        else:
            versions.discard(uid)


def workload_of(controller: Json) -> str:
    """`Deployment shop/web`: the workload itself, or the Deployment that owns a ReplicaSet."""
    owner = controller_of(controller)
    if owner is not None and owner["kind"] == "Deployment":
        return f"Deployment {controller['metadata']['namespace']}/{owner['name']}"
    is_replicated = controller["kind"] in REPLICATED_KINDS
    return f"{controller['kind']} {key_of(controller)}" if is_replicated else ""


def desired_replicas(controller: Json) -> int:
    """`spec.replicas`, which is 1 if it is absent."""
    replicas = (controller.get("spec") or {}).get("replicas")
    return 1 if replicas is None else int(replicas)
