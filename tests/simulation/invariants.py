"""Invariants of the controller, checked at every change of the cluster."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from rescheduler.labels import (
    DELETION_COST,
    MIGRATION_ID,
    MIGRATION_STATUS,
    PLACING_GATE,
    PREVIOUS_DELETION_COST,
    PREVIOUS_MARKS,
)
from rescheduler.migration.migration_labels import LOWEST_DELETION_COST
from rescheduler.settings import MigrationOptions
from rescheduler.simulation.cluster.cluster import SimulatedCluster
from rescheduler.simulation.cluster.controllers.base import replicas_of
from rescheduler.simulation.cluster.json_objects import (
    Json,
    annotations_of,
    controller_of,
    gates_of,
    is_active,
    is_ready,
    key_of,
    labels_of,
    nominated_node_of,
)
from rescheduler.simulation.cluster.pod_admission import with_pod_defaults
from tests.simulation.faulty_api_server import FaultyApiServer

NAMESPACE = "shop"
FINISHED = ("Completed", "Failed", "Cancelled")


class Invariants:
    """Watches a cluster and records violations."""

    def __init__(self, cluster: SimulatedCluster, apps: Mapping[str, str]) -> None:
        self.cluster = cluster
        self.apps = apps
        self.violations: list[str] = []
        self.options = MigrationOptions()
        self.servers: list[FaultyApiServer] = []
        self._exempt: set[str] = set()
        self._gates_are_opened = False
        self._serving: dict[str, str] = {}

    def begin(self) -> None:
        """Check from now on."""
        for key, pod in self.cluster.list("Pod").items():
            if is_serving(pod):
                self._serving[key] = labels_of(pod).get("app", "")
        self.cluster.subscribe("Pod", self._pod_changed)
        self.cluster.subscribe("Migration", self._migration_changed)

    def exempt(self, app: str) -> None:
        """Do not check the ready count of an application: something else removes its pods."""
        self._exempt.add(app)

    @contextmanager
    def opening_gates(self) -> Iterator[None]:
        """Meanwhile, somebody removes gates that are not ours."""
        self._gates_are_opened = True
        yield
        self._gates_are_opened = False

    def _record(self, text: str) -> None:
        self.violations.append(f"{self.cluster.clock.now():%H:%M:%S} {text}")

    # ------------------------------------------------------------ at every change

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        pod = new or old
        assert pod is not None
        key, app = key_of(pod), labels_of(pod).get("app", "")
        if old is not None and new is not None:
            self._check_gates(key, old, new)
        if new is not None and is_serving(new):
            self._serving[key] = app
        elif self._serving.pop(key, None) is not None and not is_extra(pod):
            self._check_ready(app, key)

    def _check_gates(self, key: str, old: Json, new: Json) -> None:
        removed = set(gates_of(old)) - set(gates_of(new)) - {PLACING_GATE}
        if removed and not self._gates_are_opened:
            self._record(f"pod {key} has lost the gates {removed} of somebody else")

    def _check_ready(self, app: str, gone: str) -> None:
        if app in self._exempt or self.apps.get(app) == "StatefulSet":
            # A StatefulSet's pods are never handed over.
            return
        wanted = self._wanted(app)
        ready = sum(serving == app for serving in self._serving.values())
        if wanted is not None and ready < wanted:
            self._record(f"{app} has {ready} Ready pods of {wanted} after {gone} was lost")

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
            self._exempt |= {app for app in self.apps if name.startswith(f"{app}-")}
        if old is not None and old["status"]["phase"] == "InProgress":
            return
        self._check_limits(key_of(new))

    def _check_limits(self, started: str) -> None:
        in_flight = [
            migration
            for migration in self.cluster.list("Migration").values()
            if migration["status"]["phase"] == "InProgress" and not self._was_late(migration)
        ]
        with_slot = [migration for migration in in_flight if not self._is_overdue(migration)]
        if len(with_slot) > self.options.max_in_flight:
            self._record(f"{len(with_slot)} in flight with {started}")
        nodes: Counter[str] = Counter()
        workloads: defaultdict[str, list[int]] = defaultdict(list)
        for migration in in_flight:
            status = migration["status"]
            if migration in with_slot:
                # A pod that waits for a node has none to leave.
                nodes.update({status.get("sourceNode", ""), migration["spec"]["targetNode"]} - {""})
            if "workload" in status:
                workloads[status["workload"]["uid"]].append(status["workload"].get("replicas", 1))
        for name, count in nodes.items():
            if count > self.options.max_per_node:
                self._record(f"{count} in flight at node {name} with {started}")
        for uid, sizes in workloads.items():
            if len(sizes) > self.options.max_per_workload.of(max(sizes)):
                self._record(f"{len(sizes)} in flight of workload {uid} with {started}")

    def _is_overdue(self, migration: Json) -> bool:
        """Whether its step takes so long that it holds no slot any more, but for its workload's."""
        began = datetime.fromisoformat(migration["status"]["stepStartedAt"])
        return (self.cluster.clock.now() - began).total_seconds() > self.options.timeout_seconds

    def _was_late(self, migration: Json) -> bool:
        """Whether a delayed write, whose caller had given up, may have started it."""
        name = migration["metadata"]["name"]
        return any(f"/{name}/" in call for server in self.servers for call in server.late)

    # ------------------------------------------------------------ at the end

    def end(self) -> None:
        """Check that nothing is left over and nothing is in progress."""
        self._check_leftovers()
        self._check_migrations()
        self._check_workloads()

    def _check_leftovers(self) -> None:
        for key, pod in self.cluster.list("Pod").items():
            annotations = annotations_of(pod)
            if labels_of(pod).get(MIGRATION_STATUS) == "in-progress":
                self._record(f"pod {key} is still marked")
            if (
                annotations.get(DELETION_COST) == LOWEST_DELETION_COST
                or PREVIOUS_DELETION_COST in annotations
            ):
                self._record(f"pod {key} still has our deletion cost")
            if PREVIOUS_MARKS in annotations and MIGRATION_STATUS not in labels_of(pod):
                self._record(f"pod {key} still remembers earlier marks")
            if gates_of(pod) or nominated_node_of(pod):
                self._record(f"pod {key} still has a gate or a nominated node")
            self._check_spec(key, pod)
        for key, budget in self.cluster.list("PodDisruptionBudget").items():
            if MIGRATION_ID in labels_of(budget):
                self._record(f"budget {key} is still there")

    def _check_spec(self, key: str, pod: Json) -> None:
        """Whether a pod has the spec that its ReplicaSet would have given it."""
        owner = controller_of(pod)
        if owner is None or owner["kind"] not in ("ReplicaSet", "ReplicationController"):
            return
        found = self.cluster.get(owner["kind"], f"{NAMESPACE}/{owner['name']}")
        if found is None:
            return
        expected = with_pod_defaults(found["spec"]["template"]["spec"], self.cluster.store)
        fields = {**expected, **pod["spec"]}
        for field in sorted(fields.keys() - {"nodeName", "schedulingGates"}):
            if expected.get(field) != pod["spec"].get(field):
                self._record(f"pod {key} has another {field} than its template: {pod['spec']}")

    def _check_migrations(self) -> None:
        for key, migration in self.cluster.list("Migration").items():
            status = migration["status"]
            if status["phase"] not in FINISHED and not is_waiting(status):
                self._record(f"migration {key} is not finished: {status}")
            is_landed = status.get("outcome") == "Landed"
            if is_landed and status.get("newNode") != migration["spec"]["targetNode"]:
                self._record(f"migration {key} landed elsewhere: {status}")

    def _check_workloads(self) -> None:
        counts: Counter[str] = Counter()
        for key, pod in self.cluster.list("Pod").items():
            app = labels_of(pod).get("app", "")
            counts[app] += 1
            if not is_active(pod) or not is_ready(pod):
                self._record(f"pod {key} is not Ready: {pod['status']}")
            if controller_of(pod) is None and self.apps.get(app) != "Pod":
                self._record(f"pod {key} has no controller")
        for app in self.apps:
            wanted = self._wanted(app)
            if wanted is not None and counts[app] != wanted:
                self._record(f"{app} has {counts[app]} pods of {wanted}")


def is_waiting(status: Json) -> bool:
    """Whether a migration has not started and says what it waits for."""
    return bool(status["phase"] == "Pending" and status.get("message", "").startswith("waiting: "))


def is_extra(pod: Json) -> bool:
    """Whether a move created the pod and no workload has adopted it."""
    return controller_of(pod) is None and MIGRATION_ID in labels_of(pod)


def is_serving(pod: Json) -> bool:
    """Whether a pod is Ready and not being deleted."""
    return is_active(pod) and is_ready(pod)
