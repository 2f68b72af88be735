"""The simulated cluster as a whole: loaded from objects, started, changed from outside."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from random import Random
from typing import Any

import msgspec

from rescheduler.model.kinds import KINDS, SERVICE, Kind
from rescheduler.model.objects import Service
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.model.tables.table import Table
from rescheduler.simulation.cluster.api_server import SimulatedApiServer
from rescheduler.simulation.cluster.controllers.base import Controller, ControllerContext
from rescheduler.simulation.cluster.controllers.daemonset import DaemonSetController
from rescheduler.simulation.cluster.controllers.deployment import DeploymentController
from rescheduler.simulation.cluster.controllers.disruption import DisruptionController
from rescheduler.simulation.cluster.controllers.garbage_collector import GarbageCollector
from rescheduler.simulation.cluster.controllers.job import JobController
from rescheduler.simulation.cluster.controllers.kubelet import Kubelets
from rescheduler.simulation.cluster.controllers.node_lifecycle import NodeLifecycleController
from rescheduler.simulation.cluster.controllers.pod_owners import PodOwnerNotifier
from rescheduler.simulation.cluster.controllers.replicaset import ReplicaSetController
from rescheduler.simulation.cluster.controllers.scheduler_loop import SchedulerLoop
from rescheduler.simulation.cluster.controllers.statefulset import StatefulSetController
from rescheduler.simulation.cluster.controllers.volume_binder import VolumeBinder
from rescheduler.simulation.cluster.indexes import Indexes
from rescheduler.simulation.cluster.json_objects import Json
from rescheduler.simulation.cluster.merge_patch import merged
from rescheduler.simulation.cluster.object_store import ObjectChange, ObjectStore, Subscriber
from rescheduler.simulation.cluster.registry import Registry
from rescheduler.simulation.cluster.resources import resource_named
from rescheduler.simulation.cluster.scheduler.nominator import Nominator
from rescheduler.simulation.cluster.scheduler.scheduler import SimulatedScheduler
from rescheduler.simulation.cluster.timings import Timings
from rescheduler.simulation.simulated_time import SimulatedClock

DEFAULT_TIMINGS = Timings()


class SimulatedCluster:
    """A cluster that runs in the current event loop.

    Create it in a coroutine; `start` starts its controllers. `create`, `patch` and `delete` are
    what users do: they take effect at once, and the controllers react. Do not modify the objects
    that it returns.
    """

    def __init__(
        self,
        objects: Iterable[Json],
        *,
        seed: int,
        start: datetime,
        timings: Timings = DEFAULT_TIMINGS,
    ) -> None:
        self.clock = SimulatedClock(start, asyncio.get_running_loop())
        self.store = ObjectStore()
        indexes = Indexes(self.store)
        # Names and timings have random generators of their own: one draw more of one does not
        # change the other.
        registry = Registry(self.store, indexes, self.clock, Random(f"{seed}/names"))
        self.registry = registry
        self.server = SimulatedApiServer(registry)
        self.tables = ClusterTables()
        for kind in KINDS:
            self.store.listen(kind.name, table_updater(self.tables.of(kind), kind))
        self._load(objects)
        context = ControllerContext(
            self.store, indexes, registry, self.clock, timings, Random(f"{seed}/timings")
        )
        pod_owners: dict[str, Controller] = {
            "ReplicaSet": ReplicaSetController(context),
            "ReplicationController": ReplicaSetController(context, "ReplicationController"),
            "StatefulSet": StatefulSetController(context),
            "DaemonSet": DaemonSetController(context),
            "Job": JobController(context),
        }
        PodOwnerNotifier(self.store, pod_owners)
        self._kubelets = Kubelets(context)
        self._controllers: list[Controller] = [
            DeploymentController(context),
            *pod_owners.values(),
            VolumeBinder(context),
            DisruptionController(context),
            NodeLifecycleController(context),
            GarbageCollector(context),
            SchedulerLoop(context, self._scheduler(seed)),
            self._kubelets,
        ]

    def _load(self, objects: Iterable[Json]) -> None:
        namespaces = {"default"}
        for value in objects:
            loaded = self.registry.load(value)
            namespaces.add(loaded["metadata"].get("namespace", "default"))
        for name in sorted(namespaces):
            if self.store.get("Namespace", name) is None:
                self.registry.load({"kind": "Namespace", "metadata": {"name": name}})

    def _scheduler(self, seed: int) -> SimulatedScheduler:
        """A scheduler that knows Services and nominations, which the cluster's tables lack."""
        scheduler = SimulatedScheduler(self.tables, seed)
        for value in self.store.all("Service").values():
            scheduler.services.put(msgspec.convert(value, Service))
        self.store.listen("Service", table_updater(scheduler.services, SERVICE))
        for key, pod in self.store.all("Pod").items():
            scheduler.nominator.put(key, pod)
        self.store.listen("Pod", nominator_updater(scheduler.nominator))
        return scheduler

    async def start(self) -> None:
        """Start all controllers, the scheduler and the kubelets."""
        for controller in self._controllers:
            controller.start()

    async def stop(self) -> None:
        """Stop them; the objects stay."""
        for controller in self._controllers:
            controller.stop()

    # ------------------------------------------------------------ from outside

    def create(self, value: Json) -> Json:
        """Create an object; returns it with what the server added."""
        resource = resource_named(value["kind"])
        namespace = value["metadata"].get("namespace", "default")
        return self.registry.create(resource, namespace, value)

    def patch(self, kind: str, key: str, patch: Json, *, status: bool = False) -> Json:
        """Apply a merge patch to an object, or to its status subresource."""
        return self.registry.update(
            resource_named(kind),
            key,
            lambda old: merged(old, patch),
            subresource="status" if status else "",
        )

    def delete(self, kind: str, key: str, *, grace_seconds: int | None = None) -> None:
        """Delete an object."""
        self.registry.delete(resource_named(kind), key, grace_seconds=grace_seconds)

    def get(self, kind: str, key: str) -> Json | None:
        """An object, or None."""
        return self.store.get(resource_named(kind).name, key)

    def list(self, kind: str) -> Mapping[str, Json]:
        """All objects of a kind by key."""
        return self.store.all(resource_named(kind).name)

    def hang_node(self, name: str) -> None:
        """Stop the kubelet of a node, which stays Ready: it starts and stops no pods any more."""
        self._kubelets.hanging.add(name)

    def subscribe(self, kind: str, callback: Subscriber) -> None:
        """Call back at every change of a kind, with the object before and after it."""
        self.store.listen(
            resource_named(kind).name, lambda change: callback(change.old, change.new)
        )


def table_updater(table: Table[Any], kind: Kind[Any]) -> Callable[[ObjectChange], None]:
    """A listener that keeps a table equal to the store."""

    def update(change: ObjectChange) -> None:
        if change.new is not None:
            table.put(change.struct(kind.type))
        else:
            table.remove(change.struct(kind.type))

    return update


def nominator_updater(nominator: Nominator) -> Callable[[ObjectChange], None]:
    """A listener that keeps nominations equal to those in the store."""

    def update(change: ObjectChange) -> None:
        if change.new is not None:
            nominator.put(change.key, change.new)
        else:
            nominator.remove(change.key)

    return update
