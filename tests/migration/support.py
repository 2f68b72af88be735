"""What the tests of migrations share: a namespace with nodes of its own, and a controller."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from rescheduler.controller.migration_controller import MigrationController
from rescheduler.controller.program import STORE_WATCH
from rescheduler.kube.api_server import ApiServer
from rescheduler.kube.client import Client
from rescheduler.kube.clock import WALL_CLOCK, Clock
from rescheduler.kube.listwatch import WatchSettings
from rescheduler.kube.live_store import LiveStore
from rescheduler.labels import CREATED_BY_US
from rescheduler.migration.executor import Executor
from rescheduler.migration.migration_watches import MigrationWatches
from rescheduler.migration.state_machine.actions import Write
from rescheduler.migration.state_machine.observation import Observation
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.settings import MigrationOptions, Policy, Seconds
from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import deployment, node
from testcluster.client import ApiError, JsonObject
from testcluster.client import Client as OutsideClient
from tests.kube.support import QUICK_CLIENT, QUICK_WATCH, credentials, eventually

MIGRATIONS = "/apis/rescheduler.dev/v1alpha1/namespaces/{}/migrations"
MOVE_RECORDS = "/apis/rescheduler.dev/v1alpha1/moverecords"
FINISHED = ("Completed", "Failed", "Cancelled")
ID = "scheduler.alpha.kubernetes.io/migration-id"
STATUS = "scheduler.alpha.kubernetes.io/migration-status"
COST = "controller.kubernetes.io/pod-deletion-cost"
TEST_LABEL = "rescheduler-test"

Reached = Callable[[str, str], None]
"""Takes the point that was reached, such as `before-evict`, and the key of the Migration."""

# Its events are held back as in the program.
QUICK_STORE_WATCH = replace(QUICK_WATCH, batch_seconds=STORE_WATCH.batch_seconds)

# Retries at once, so that a test of them does not wait.
QUICK_OPTIONS = MigrationOptions(retry_delay_seconds=Seconds(0.05), timeout_seconds=Seconds(120))


def client_for(
    cluster: TestCluster,
    server: str | None = None,
    token: str | None = None,
    clock: Clock = WALL_CLOCK,
) -> Client:
    """The client under test, connected to the server or to something in front of it."""
    connection = credentials(cluster.server, token or cluster.admin_token, cluster.ca_file)
    if server is not None:
        connection = credentials(server, cluster.admin_token)
    return Client(connection, QUICK_CLIENT, clock=clock)


class ReportingExecutor(Executor):
    """Reports before and after every write of a migration."""

    def __init__(self, server: ApiServer, watches: MigrationWatches, reached: Reached) -> None:
        super().__init__(server, watches)
        self._reached = reached

    async def carry_out(self, action: Write, o: Observation) -> None:
        self._reached(f"before-{action.name}", o.migration.key)
        await super().carry_out(action, o)
        self._reached(f"after-{action.name}", o.migration.key)


@asynccontextmanager
async def controller_on(
    cluster: TestCluster,
    options: MigrationOptions = QUICK_OPTIONS,
    reached: Reached | None = None,
    *,
    server: str | None = None,
    token: str | None = None,
    allow_bare_pods: bool = False,
    clock: Clock = WALL_CLOCK,
    store_watch: WatchSettings = QUICK_STORE_WATCH,
) -> AsyncIterator[MigrationController]:
    """A controller that carries out the cluster's Migrations while the block runs."""
    async with client_for(cluster, server, token, clock) as client:
        tables = ClusterTables()
        store = LiveStore(client, tables, settings=store_watch)
        store.start()
        watches = MigrationWatches(client, store, tables, QUICK_WATCH)
        executor = Executor(client, watches)
        if reached is not None:
            executor = ReportingExecutor(client, watches, reached)
        policy = Policy(migration=options, allow_bare_pods=allow_bare_pods)
        controller = MigrationController(
            client, watches, executor, policy, clock=client.server_clock
        )
        running = asyncio.create_task(controller.run())
        try:
            await store.synced()
            yield controller
            if running.done():
                running.result()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await store.stop()


class Sandbox:
    """A namespace, and nodes that only its pods may use."""

    def __init__(self, cluster: TestCluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.outside: OutsideClient = cluster.client
        self.nodes: list[str] = []

    # ------------------------------------------------------------ creating objects

    def add_nodes(self, *names: str, **options: Any) -> list[str]:
        """Add nodes for this namespace, by short names."""
        created = [f"{self.namespace}-{name}" for name in names]
        labels = {TEST_LABEL: self.namespace, **options.pop("labels", {})}
        apply(self.cluster, *[node(name, labels=labels, **options) for name in created])
        self.nodes += created
        return created

    def here(self, **template: Any) -> dict[str, Any]:
        """A pod template that stays on the nodes of this namespace."""
        return {"nodeSelector": {TEST_LABEL: self.namespace}, **template}

    def deploy(
        self,
        name: str,
        replicas: int,
        template: dict[str, Any] | None = None,
        **spec: Any,
    ) -> list[JsonObject]:
        """Create a Deployment; its pods when all are Ready."""
        template = self.here(**(template or {}))
        body = deployment(f"{self.namespace}/{name}", replicas, "100m", template=template, **spec)
        apply(self.cluster, body)
        return self.wait_ready(name, replicas)

    def wait_ready(self, app: str, count: int) -> list[JsonObject]:
        """The pods of an app, when so many are Ready."""
        from testcluster.waiting import wait_until

        def ready() -> list[JsonObject]:
            pods = [pod for pod in self.pods(app) if is_ready(pod)]
            return pods if len(pods) == count else []

        return wait_until(ready, what=f"{count} pods of {app} are Ready")

    def migrate(self, pod: JsonObject, target: str, /, name: str = "", **spec: Any) -> str:
        """Create a Migration for a pod; its name."""
        metadata = pod["metadata"]
        name = name or f"move-{metadata['name']}"
        body = {
            "apiVersion": "rescheduler.dev/v1alpha1",
            "kind": "Migration",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "pod": {"name": metadata["name"], "uid": metadata["uid"]},
                "targetNode": target,
                **spec,
            },
        }
        self.outside.create(MIGRATIONS.format(self.namespace), body)
        return name

    # ------------------------------------------------------------ reading objects

    def path(self, plural: str, name: str = "") -> str:
        """The path of an object of this namespace."""
        groups = {
            "pods": "/api/v1",
            "services": "/api/v1",
            "events": "/api/v1",
            "replicationcontrollers": "/api/v1",
            "resourcequotas": "/api/v1",
            "poddisruptionbudgets": "/apis/policy/v1",
            "migrations": "/apis/rescheduler.dev/v1alpha1",
        }
        base = f"{groups.get(plural, '/apis/apps/v1')}/namespaces/{self.namespace}/{plural}"
        return f"{base}/{name}" if name else base

    def all(self, plural: str, labels: str = "") -> list[JsonObject]:
        """All objects of a kind in this namespace."""
        query = f"?labelSelector={labels}" if labels else ""
        items: list[JsonObject] = self.outside.get(self.path(plural) + query)["items"]
        return items

    def pods(self, app: str = "") -> list[JsonObject]:
        """The pods of an app, or all."""
        return self.all("pods", f"app={app}" if app else "")

    def pod(self, name: str) -> JsonObject | None:
        """One pod, if it exists."""
        return self.get("pods", name)

    def get(self, plural: str, name: str) -> JsonObject | None:
        """One object, if it exists."""
        try:
            return self.outside.get(self.path(plural, name))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def status(self, migration: str) -> JsonObject:
        """A Migration's status."""
        status: JsonObject = self.outside.get(self.path("migrations", migration))["status"]
        return status

    def end_step(self, migration: str) -> None:
        """Let the time of a Migration's step be over, however long it was."""
        patch = {"status": {"stepStartedAt": "2020-01-01T00:00:00Z"}}
        self.outside.patch(f"{self.path('migrations', migration)}/status", patch)

    def move_records(self) -> list[JsonObject]:
        """The specs of the records of moves in this namespace, the newest last."""
        records = self.outside.get(MOVE_RECORDS)["items"]
        specs = [record["spec"] for record in records]
        mine = [spec for spec in specs if spec["namespace"] == self.namespace]
        return sorted(mine, key=lambda spec: str(spec["finishedAt"]))

    def replica_set(self) -> JsonObject:
        """The one ReplicaSet of this namespace."""
        (found,) = self.all("replicasets")
        return found

    def leftovers(self) -> list[str]:
        """Everything that a finished migration should have restored or deleted."""
        found = []
        for pod in self.pods():
            metadata = pod["metadata"]
            if "deletionTimestamp" in metadata:
                continue
            notes = metadata.get("annotations", {})
            is_marked = metadata.get("labels", {}).get(STATUS) == "in-progress"
            if is_marked or notes.get(COST) == "-2147483647":
                found.append(f"pod {metadata['name']}")
            if "rescheduler.dev/previous-deletion-cost" in notes:
                found.append(f"cost of {metadata['name']}")
            conditions = pod["status"].get("conditions", [])
            if any(each["type"] == CREATED_BY_US for each in conditions):
                found.append(f"mark of {metadata['name']}")
        found += [
            f"budget {budget['metadata']['name']}"
            for budget in self.all("poddisruptionbudgets")
            if ID in budget["metadata"].get("labels", {})
        ]
        return found

    # ------------------------------------------------------------ waiting

    async def finished(self, *migrations: str, timeout: float = 120) -> list[JsonObject]:
        """The statuses of Migrations when they have finished."""
        await eventually(
            lambda: all(self.status(name).get("phase") in FINISHED for name in migrations),
            f"{', '.join(migrations)} finished",
            timeout,
        )
        return [self.status(name) for name in migrations]

    async def until(
        self, condition: Callable[[], object], what: str = "", timeout: float = 120
    ) -> None:
        """Wait until something is true."""
        await eventually(condition, what, timeout)


def is_ready(pod: JsonObject) -> bool:
    """Whether a pod is Ready and not terminating."""
    if pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = pod.get("status", {}).get("conditions", [])
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )


def node_of(pod: JsonObject) -> str:
    """The node of a pod."""
    name: str = pod["spec"].get("nodeName", "")
    return name


def other_node(sandbox: Sandbox, pod: JsonObject) -> str:
    """A node of the namespace where the pod is not."""
    return next(name for name in sandbox.nodes if name != node_of(pod))


def set_ready(sandbox: Sandbox, name: str, status: str) -> None:
    """Make a pod Ready or not, as its kubelet would."""
    path = sandbox.path("pods", name)
    conditions = sandbox.outside.get(path)["status"]["conditions"]
    for condition in conditions:
        if condition["type"] == "Ready":
            condition["status"] = status
    sandbox.outside.patch(f"{path}/status", {"status": {"conditions": conditions}})


def set_running(sandbox: Sandbox, pod: JsonObject) -> None:
    """What a kubelet would write about a pod of a node that nobody plays.

    It keeps the conditions of others.
    """
    name = pod["metadata"]["name"]
    found = sandbox.pod(name) or {"status": {}}
    others = [each for each in found["status"].get("conditions", []) if each["type"] != "Ready"]
    status = {"phase": "Running", "conditions": [*others, {"type": "Ready", "status": "True"}]}
    sandbox.outside.patch(f"{sandbox.path('pods', name)}/status", {"status": status})
