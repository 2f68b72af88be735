"""What the controller promises, checked at every change of the cluster."""

from collections import Counter, defaultdict
from collections.abc import Mapping

from rescheduler.labels import (
    DELETION_COST,
    MIGRATION_ID,
    MIGRATION_STATUS,
    PREVIOUS_DELETION_COST,
    PREVIOUS_MARKS,
)
from rescheduler.migration.pod_marks import LEAST_COST
from rescheduler.settings import MigrationOptions
from rescheduler.simulation.cluster.cluster import SimulatedCluster
from rescheduler.simulation.cluster.controllers.base import replicas_of
from rescheduler.simulation.cluster.json_objects import (
    Json,
    annotations_of,
    controller_of,
    is_active,
    is_ready,
    key_of,
    labels_of,
)
from tests.simulation.faulty_api_server import FaultyApiServer

NAMESPACE = "shop"
FINISHED = ("Completed", "Failed", "Cancelled")


class Invariants:
    """Watches a cluster, and notes what should not have happened."""

    def __init__(self, cluster: SimulatedCluster, apps: Mapping[str, str]) -> None:
        self.cluster = cluster
        self.apps = apps
        self.broken: list[str] = []
        self.options = MigrationOptions()
        self.servers: list[FaultyApiServer] = []
        self._excused: set[str] = set()
        self._serving: dict[str, str] = {}

    def begin(self) -> None:
        """From now on."""
        for key, pod in self.cluster.list("Pod").items():
            if serves(pod):
                self._serving[key] = labels_of(pod).get("app", "")
        self.cluster.subscribe("Pod", self._pod_changed)
        self.cluster.subscribe("Migration", self._migration_changed)

    def excuse(self, app: str) -> None:
        """Something happened to an application that takes pods away from it."""
        self._excused.add(app)

    def _note(self, text: str) -> None:
        self.broken.append(f"{self.cluster.clock.now():%H:%M:%S} {text}")

    # ------------------------------------------------------------ at every change

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        pod = new or old
        assert pod is not None
        key, app = key_of(pod), labels_of(pod).get("app", "")
        if new is not None and serves(new):
            self._serving[key] = app
        elif self._serving.pop(key, None) is not None and not is_extra(pod):
            self._check_ready(app, key)

    def _check_ready(self, app: str, gone: str) -> None:
        if app in self._excused or self.apps.get(app) == "StatefulSet":
            # A StatefulSet's pods are never handed over.
            return
        wanted = self._wanted(app)
        ready = sum(each == app for each in self._serving.values())
        if wanted is not None and ready < wanted:
            self._note(f"{app} has {ready} Ready pods of {wanted} now that {gone} is gone")

    def _wanted(self, app: str) -> int | None:
        kind = self.apps.get(app)
        if kind is None or kind == "Pod":
            return 1 if kind == "Pod" else None
        found = self.cluster.get(kind, f"{NAMESPACE}/{app}")
        return None if found is None else replicas_of(found)

    def _migration_changed(self, old: Json | None, new: Json | None) -> None:
        if new is None or new["status"]["phase"] != "InProgress":
            return
        if new["status"]["mode"] == "Evict":
            # That takes a pod away first.
            name = new["spec"]["pod"]["name"]
            self._excused |= {app for app in self.apps if name.startswith(f"{app}-")}
        if old is not None and old["status"]["phase"] == "InProgress":
            return
        self._check_limits(key_of(new))

    def _check_limits(self, started: str) -> None:
        flying = [
            each
            for each in self.cluster.list("Migration").values()
            if each["status"]["phase"] == "InProgress" and not self._was_late(each)
        ]
        if len(flying) > self.options.max_in_flight:
            self._note(f"{len(flying)} in flight with {started}")
        nodes: Counter[str] = Counter()
        workloads: defaultdict[str, list[int]] = defaultdict(list)
        for each in flying:
            status = each["status"]
            nodes.update({status["sourceNode"], each["spec"]["targetNode"]})
            if "workload" in status:
                workloads[status["workload"]["uid"]].append(status["workload"].get("replicas", 1))
        for name, count in nodes.items():
            if count > self.options.max_per_node:
                self._note(f"{count} in flight at node {name} with {started}")
        for uid, sizes in workloads.items():
            if len(sizes) > self.options.max_per_workload.of(max(sizes)):
                self._note(f"{len(sizes)} in flight of workload {uid} with {started}")

    def _was_late(self, migration: Json) -> bool:
        """Whether it may have been started by a write that came when nobody waited any more."""
        name = migration["metadata"]["name"]
        return any(f"/{name}/" in call for server in self.servers for call in server.late)

    # ------------------------------------------------------------ in the end

    def end(self) -> None:
        """Nothing is left behind, and everything is at rest."""
        self._check_leftovers()
        self._check_migrations()
        self._check_workloads()

    def _check_leftovers(self) -> None:
        for key, pod in self.cluster.list("Pod").items():
            notes = annotations_of(pod)
            if labels_of(pod).get(MIGRATION_STATUS) == "in-progress":
                self._note(f"pod {key} is still marked")
            if notes.get(DELETION_COST) == LEAST_COST or PREVIOUS_DELETION_COST in notes:
                self._note(f"pod {key} still has our deletion cost")
            if PREVIOUS_MARKS in notes and MIGRATION_STATUS not in labels_of(pod):
                self._note(f"pod {key} still remembers earlier marks")
        for key, budget in self.cluster.list("PodDisruptionBudget").items():
            if MIGRATION_ID in labels_of(budget):
                self._note(f"budget {key} is still there")

    def _check_migrations(self) -> None:
        for key, migration in self.cluster.list("Migration").items():
            status = migration["status"]
            if status["phase"] not in FINISHED and not is_waiting(status):
                self._note(f"migration {key} is not finished: {status}")
            is_landed = status.get("outcome") == "Landed"
            if is_landed and status.get("newNode") != migration["spec"]["targetNode"]:
                self._note(f"migration {key} landed elsewhere: {status}")

    def _check_workloads(self) -> None:
        there: Counter[str] = Counter()
        for key, pod in self.cluster.list("Pod").items():
            app = labels_of(pod).get("app", "")
            there[app] += 1
            if not is_active(pod) or not is_ready(pod):
                self._note(f"pod {key} is not Ready: {pod['status']}")
            if controller_of(pod) is None and self.apps.get(app) != "Pod":
                self._note(f"pod {key} belongs to nobody")
        for app in self.apps:
            wanted = self._wanted(app)
            if wanted is not None and there[app] != wanted:
                self._note(f"{app} has {there[app]} pods of {wanted}")


def is_waiting(status: Json) -> bool:
    """Whether a migration has not begun and says what it waits for: the cluster's own trouble."""
    return bool(status["phase"] == "Pending" and status.get("message", "").startswith("waits: "))


def is_extra(pod: Json) -> bool:
    """Whether it is one pod more than its workload wants, made for a move."""
    return controller_of(pod) is None and MIGRATION_ID in labels_of(pod)


def serves(pod: Json) -> bool:
    """Whether a pod is Ready and here to stay."""
    return is_active(pod) and is_ready(pod)
