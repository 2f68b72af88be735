"""The cluster in memory, all of it together: started from objects, touched from outside."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from random import Random
from typing import Any

import msgspec

from rescheduler.model.kinds import KINDS, Kind
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
from rescheduler.simulation.cluster.controllers.scheduler_loop import Scheduler, SchedulerLoop
from rescheduler.simulation.cluster.controllers.statefulset import StatefulSetController
from rescheduler.simulation.cluster.controllers.volume_binder import VolumeBinder
from rescheduler.simulation.cluster.indexes import Indexes
from rescheduler.simulation.cluster.json_objects import Json
from rescheduler.simulation.cluster.merge_patch import merged
from rescheduler.simulation.cluster.object_store import ObjectChange, ObjectStore, Subscriber
from rescheduler.simulation.cluster.registry import Registry
from rescheduler.simulation.cluster.resources import resource_named
from rescheduler.simulation.cluster.scheduler.default_selectors import SERVICE, Service
from rescheduler.simulation.cluster.scheduler.scheduler import SimulatedScheduler
from rescheduler.simulation.cluster.timings import Timings
from rescheduler.simulation.simulated_time import SimulatedClock

MakeScheduler = Callable[[ClusterTables], Scheduler]

DEFAULT_TIMINGS = Timings()


class SimulatedCluster:
    """A cluster that lives in the running loop.

    Make it in a coroutine; `start` lets its controllers work. What is done with `create`, `patch`
    and `delete` is what people do: it happens at once, and the cluster reacts to it. What is got
    from it is never to be changed.
    """

    def __init__(
        self,
        objects: Iterable[Json],
        *,
        seed: int,
        start: datetime,
        timings: Timings = DEFAULT_TIMINGS,
        scheduler: MakeScheduler | None = None,
    ) -> None:
        self.clock = SimulatedClock(start, asyncio.get_running_loop())
        self.store = ObjectStore()
        indexes = Indexes(self.store)
        # Names, times and uids each have their own luck: one more of these changes none of those.
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
        owning: dict[str, Controller] = {
            "ReplicaSet": ReplicaSetController(context),
            "ReplicationController": ReplicaSetController(context, "ReplicationController"),
            "StatefulSet": StatefulSetController(context),
            "DaemonSet": DaemonSetController(context),
            "Job": JobController(context),
        }
        PodOwnerNotifier(self.store, owning)
        self._kubelets = Kubelets(context)
        self._workers: list[Controller] = [
            DeploymentController(context),
            *owning.values(),
            VolumeBinder(context),
            DisruptionController(context),
            NodeLifecycleController(context),
            GarbageCollector(context),
            SchedulerLoop(context, self._scheduler(scheduler, seed)),
            self._kubelets,
        ]

    def _load(self, objects: Iterable[Json]) -> None:
        namespaces = {"default"}
        for value in objects:
            kept = self.registry.load(value)
            namespaces.add(kept["metadata"].get("namespace", "default"))
        for name in sorted(namespaces):
            if self.store.get("Namespace", name) is None:
                self.registry.load({"kind": "Namespace", "metadata": {"name": name}})

    def _scheduler(self, wanted: MakeScheduler | None, seed: int) -> Scheduler:
        """The one that was asked for, else the one that places pods as kube-scheduler does.

        Services are told to that one alone: the tables have no place for them.
        """
        made = wanted(self.tables) if wanted is not None else SimulatedScheduler(self.tables, seed)
        if isinstance(made, SimulatedScheduler):
            for value in self.store.all("Service").values():
                made.services.put(msgspec.convert(value, Service))
            self.store.listen("Service", table_updater(made.services, SERVICE))
        return made

    async def start(self) -> None:
        """Let everything in the cluster go its way."""
        for worker in self._workers:
            worker.start()

    async def stop(self) -> None:
        """Let everything stand still."""
        for worker in self._workers:
            worker.stop()

    # ------------------------------------------------------------ from outside

    def create(self, value: Json) -> Json:
        """Create an object; returns it as it is then."""
        resource = resource_named(value["kind"])
        namespace = value["metadata"].get("namespace", "default")
        return self.registry.create(resource, namespace, value)

    def patch(self, kind: str, key: str, patch: Json, *, status: bool = False) -> Json:
        """Change an object by a merge patch; `status` says that its status is meant."""
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
        """An object, if it is there."""
        return self.store.get(resource_named(kind).name, key)

    def list(self, kind: str) -> Mapping[str, Json]:
        """All objects of a kind by key."""
        return self.store.all(resource_named(kind).name)

    def hang_node(self, name: str) -> None:
        """Let a node start and stop no pods any more, without anyone noticing."""
        self._kubelets.hanging.add(name)

    def subscribe(self, kind: str, callback: Subscriber) -> None:
        """Be told of every change of a kind in the moment it happens: what was, and what is."""
        self.store.listen(
            resource_named(kind).name, lambda change: callback(change.old, change.new)
        )


def table_updater(table: Table[Any], kind: Kind[Any]) -> Callable[[ObjectChange], None]:
    """Keeps a table equal to what is in the store."""

    def take(change: ObjectChange) -> None:
        if change.new is not None:
            table.put(change.struct(kind.type))
        else:
            table.remove(change.struct(kind.type))

    return take
