"""Which workload a controller's pods count for, and how many pods it wants."""

from collections import Counter, defaultdict

from rescheduler.simulation.cluster.json_objects import Json, controller_of, key_of

COUNTING = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet")
"""Kinds that want a number of pods."""


class DesiredCounts:
    """Controllers by uid, and the versions of Deployments that have pods."""

    def __init__(self) -> None:
        self._workload_of: dict[str, str] = {}
        self._active: Counter[str] = Counter()
        self._versions: dict[str, set[str]] = defaultdict(set)
        self._wanted: dict[str, int] = {}

    def changed(self, old: Json | None, new: Json | None) -> None:
        """Follow a change of a controller."""
        value = new if new is not None else old
        assert value is not None
        uid = value["metadata"]["uid"]
        if new is None:
            self._wanted[uid] = 0
            self._note(uid)
            return
        self._workload_of[uid] = workload_of(value)
        self._wanted[uid] = desired_by(value)
        if value["kind"] == "ReplicaSet":
            self._note(uid)

    def workload_of(self, pod: Json) -> str:
        """The workload that a pod counts for, or nothing."""
        owner = controller_of(pod)
        return self._workload_of.get(owner["uid"], "") if owner is not None else ""

    def add_active(self, owner: str, count: int) -> None:
        """A controller has one more active pod, or one less."""
        self._active[owner] += count
        self._note(owner)

    def is_rolled_out(self, workload: str) -> bool:
        """Whether two versions of it run side by side."""
        return len(self._versions.get(workload, ())) > 1

    def _note(self, uid: str) -> None:
        workload = self._workload_of.get(uid, "")
        if not workload.startswith("Deployment "):
            return
        versions = self._versions[workload]
        if self._active[uid] > 0 or self._wanted.get(uid, 0) > 0:
            versions.add(uid)
        else:
            versions.discard(uid)


def workload_of(value: Json) -> str:
    """The workload that a controller is, or is a version of."""
    above = controller_of(value)
    if above is not None and above["kind"] == "Deployment":
        return f"Deployment {value['metadata']['namespace']}/{above['name']}"
    return f"{value['kind']} {key_of(value)}" if value["kind"] in COUNTING else ""


def desired_by(value: Json) -> int:
    """How many pods a controller wants."""
    wanted = (value.get("spec") or {}).get("replicas")
    return 1 if wanted is None else int(wanted)
