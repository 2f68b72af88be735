"""The same interface to the test cluster and to a simulated one, for running a case on both."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from msgspec.structs import replace

from rescheduler.controller.migration_controller import MigrationController
from rescheduler.kube.api_server import ApiServer
from rescheduler.kube.live_store import LiveStore
from rescheduler.migration.migration_watches import MigrationWatches
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.settings import Policy
from rescheduler.simulation.cluster.cluster import SimulatedCluster
from rescheduler.simulation.cluster.json_objects import Json, labels_of
from testcluster.applying import apply
from testcluster.builders import node
from tests.kube.support import eventually
from tests.migration.support import (
    MIGRATIONS,
    QUICK_OPTIONS,
    ReportingExecutor,
    Sandbox,
    client_for,
)

KINDS = {
    "deployments": "Deployment",
    "replicasets": "ReplicaSet",
    "replicationcontrollers": "ReplicationController",
    "statefulsets": "StatefulSet",
    "pods": "Pod",
    "migrations": "Migration",
}
POLICY = Policy(
    migration=replace(QUICK_OPTIONS, max_in_flight=100, max_retries=1), allow_bare_pods=True
)
"""No move waits for a slot, and there is one retry."""


class StepRecorder:
    """The writes for each migration, in order."""

    def __init__(self) -> None:
        self.of: defaultdict[str, list[str]] = defaultdict(list)

    def reached(self, point: str, migration: str) -> None:
        """Called before and after each write."""
        when, _, action = point.partition("-")
        steps = self.of[migration]
        if when != "after" or action in ("message", "delete-migration"):
            return
        # A step may be repeated until the watch has shown its result.
        if not steps or steps[-1] != action:
            steps.append(action)


class ClusterForCase(Protocol):
    """A cluster, or a part of one, in which a case runs."""

    namespace: str

    def node(self, name: str) -> str:
        """The full name of a node."""
        ...

    async def add_node(self, name: str, *, works: bool = True, cpu: str = "8") -> None:
        """A node; one that does not work takes pods, but never starts them."""
        ...

    async def put(self, *objects: Json) -> None: ...

    def patch(self, plural: str, name: str, body: Json) -> None: ...

    def delete(self, plural: str, name: str) -> None: ...

    def pods(self, app: str) -> list[Json]: ...

    def create_migration(self, body: Json) -> None: ...

    def migration(self, name: str) -> Json | None: ...

    def owned(self, plural: str) -> list[Json]: ...

    async def until(self, condition: Callable[[], object], what: str) -> None: ...


class RealClusterForCase:
    """A namespace and nodes of the test cluster."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.namespace = sandbox.namespace

    def node(self, name: str) -> str:
        return f"{self.namespace}-{name}"

    async def add_node(self, name: str, *, works: bool = True, cpu: str = "8") -> None:
        await asyncio.to_thread(self._add_node, name, works, cpu)

    def _add_node(self, name: str, works: bool, cpu: str) -> None:
        labels = {"rescheduler-test": self.namespace}
        made = node(self.node(name), cpu=cpu, labels=labels, managed=works)
        if not works:
            # Nobody takes the taint off that new nodes get.
            made["spec"]["taints"] = []
        apply(self.sandbox.cluster, made)
        self.sandbox.nodes.append(self.node(name))

    async def put(self, *objects: Json) -> None:
        await asyncio.to_thread(apply, self.sandbox.cluster, *objects)

    def patch(self, plural: str, name: str, body: Json) -> None:
        self.sandbox.outside.patch(self.sandbox.path(plural, name), body)

    def delete(self, plural: str, name: str) -> None:
        self.sandbox.outside.delete(self.sandbox.path(plural, name))

    def pods(self, app: str) -> list[Json]:
        return self.sandbox.pods(app)

    def create_migration(self, body: Json) -> None:
        self.sandbox.outside.create(MIGRATIONS.format(self.namespace), body)

    def migration(self, name: str) -> Json | None:
        return self.sandbox.get("migrations", name)

    def owned(self, plural: str) -> list[Json]:
        return self.sandbox.all(plural)

    async def until(self, condition: Callable[[], object], what: str) -> None:
        await eventually(condition, f"{self.namespace}: {what}")


class SimulatedClusterForCase:
    """A simulated cluster of its own."""

    def __init__(self, cluster: SimulatedCluster, namespace: str) -> None:
        self.simulated = cluster
        self.namespace = namespace

    def node(self, name: str) -> str:
        return f"{self.namespace}-{name}"

    async def add_node(self, name: str, *, works: bool = True, cpu: str = "8") -> None:
        labels = {"rescheduler-test": self.namespace}
        self.simulated.create(node(self.node(name), cpu=cpu, labels=labels))
        if not works:
            self.simulated.hang_node(self.node(name))

    async def put(self, *objects: Json) -> None:
        for value in objects:
            self.simulated.create(value)

    def patch(self, plural: str, name: str, body: Json) -> None:
        self.simulated.patch(KINDS[plural], f"{self.namespace}/{name}", body)

    def delete(self, plural: str, name: str) -> None:
        self.simulated.delete(KINDS[plural], f"{self.namespace}/{name}")

    def pods(self, app: str) -> list[Json]:
        return [pod for pod in self.owned("pods") if labels_of(pod).get("app") == app]

    def create_migration(self, body: Json) -> None:
        self.simulated.create(body)

    def migration(self, name: str) -> Json | None:
        return self.simulated.get("Migration", f"{self.namespace}/{name}")

    def owned(self, plural: str) -> list[Json]:
        kind = KINDS.get(plural, "PodDisruptionBudget")
        return [
            value
            for value in self.simulated.list(kind).values()
            if value["metadata"]["namespace"] == self.namespace
        ]

    async def until(self, condition: Callable[[], object], what: str) -> None:
        ends = self.simulated.clock.seconds() + 600
        while not condition():
            assert self.simulated.clock.seconds() < ends, f"{self.namespace}: never {what}"
            await asyncio.sleep(0.05)


async def with_controller(server: ApiServer, steps: StepRecorder, work: Any, **clock: Any) -> None:
    """Run a controller until `work` is done."""
    tables = ClusterTables()
    seconds = {"clock": clock["clock"].seconds} if clock else {}
    chance = Random(1)
    store = LiveStore(server, tables, chance=chance, **seconds)
    store.start()
    watches = MigrationWatches(server, store, tables, chance=chance, **seconds)
    executor = ReportingExecutor(server, watches, steps.reached)
    controller = MigrationController(server, watches, executor, POLICY, chance=chance, **clock)
    running = asyncio.create_task(controller.run())
    try:
        await store.synced()
        await work
        if running.done():
            running.result()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await store.stop()


async def with_controller_on_real_cluster(sandbox: Sandbox, steps: StepRecorder, work: Any) -> None:
    """Run a controller on the test cluster until `work` is done."""
    async with client_for(sandbox.cluster) as client:
        await with_controller(client, steps, work)
