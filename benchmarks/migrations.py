"""Move 200 pods of Deployments by handoff, 20 at a time, on a real control plane."""

import asyncio
import time
from collections import Counter

from benchmarks.figures import Figure, report
from rescheduler.controller.migration_controller import MigrationController
from rescheduler.controller.program import STORE_WATCH
from rescheduler.kube.api_server import Answer
from rescheduler.kube.auth.authentication import ClientIdentity, fixed
from rescheduler.kube.auth.certificates import Trust
from rescheduler.kube.auth.credentials import Credentials
from rescheduler.kube.client import Client, ClientSettings
from rescheduler.kube.live_store import LiveStore
from rescheduler.kube.request import Request
from rescheduler.migration.executor import Executor
from rescheduler.migration.memory.move_record_crd import ALL_CRDS
from rescheduler.migration.migration_request import create_migration, migration_body
from rescheduler.migration.migration_watches import MigrationWatches
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.settings import Limit, MigrationOptions, Policy
from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import budget, deployment, node
from testcluster.client import ApiError, JsonObject
from testcluster.waiting import wait_until

APPS, REPLICAS, IN_FLIGHT = 50, 4, 20
COUNT = APPS * REPLICAS
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MIGRATIONS = "/apis/rescheduler.dev/v1alpha1/migrations"
QUIET_SECONDS = 5.0
LONGEST_SECONDS = 600.0


class CountingClient(Client):
    """Counts every call but watches: reads, writes, and Events."""

    calls: Counter[str] = Counter()

    async def _once(self, create_migration: Request) -> Answer:
        if "/events" in create_migration.path:
            self.calls["events"] += 1
        else:
            self.calls["reads" if create_migration.is_read else "writes"] += 1
        return await super()._once(create_migration)


def main() -> None:
    with TestCluster() as cluster:
        pods = fill(cluster)
        asyncio.run(measure(cluster, pods))


def fill(cluster: TestCluster) -> list[JsonObject]:
    """Nodes, and Deployments whose budgets allow no eviction, all on one half of the nodes."""
    client = cluster.client
    for crd in ALL_CRDS:
        client.create(CRDS, crd)
    apply(cluster, *[node(f"old-{number}", cpu="64") for number in range(4)])
    for number in range(APPS):
        key = f"bench/app-{number:02}"
        apply(cluster, deployment(key, REPLICAS, "100m"), budget(key, min_available=REPLICAS))

    def all_ready() -> list[JsonObject]:
        pods: list[JsonObject] = client.get("/api/v1/namespaces/bench/pods")["items"]
        ready = [pod for pod in pods if pod["status"].get("phase") == "Running"]
        return ready if len(ready) == COUNT else []

    pods = wait_until(all_ready, 120, "all pods run")
    apply(cluster, *[node(f"new-{number}", cpu="64") for number in range(4)])
    wait_until(lambda: is_served(cluster), what="Migrations are served")
    return pods


def is_served(cluster: TestCluster) -> bool:
    try:
        return cluster.client.exists(MIGRATIONS)
    except ApiError:
        return False


async def all_finished(watches: MigrationWatches) -> None:
    """Return when every migration has finished."""
    deadline = time.perf_counter() + LONGEST_SECONDS
    while sum(found.is_finished for found in watches.all_migrations()) < COUNT:
        assert time.perf_counter() < deadline, "migrations take too long"
        await asyncio.sleep(0.05)


async def measure(cluster: TestCluster, pods: list[JsonObject]) -> None:
    bearer = fixed(ClientIdentity(f"Bearer {cluster.admin_token}"))
    credentials = Credentials(cluster.server, bearer, Trust(cluster.ca_file), source="bench")
    settings = ClientSettings(requests_per_second=10_000, burst=10_000)
    options = MigrationOptions(
        max_in_flight=IN_FLIGHT, max_per_node=IN_FLIGHT, max_per_namespace=Limit("100%")
    )
    async with CountingClient(credentials, settings) as server:
        tables = ClusterTables()
        store = LiveStore(server, tables, STORE_WATCH)
        store.start()
        watches = MigrationWatches(server, store, tables)
        executor = Executor(server, watches)
        controller = MigrationController(server, watches, executor, Policy(migration=options))
        running = asyncio.create_task(controller.run())
        await store.synced()
        await watches.synced()
        server.calls.clear()
        start, start_cpu = time.perf_counter(), time.process_time()
        for number, pod in enumerate(pods):
            key = f"bench/{pod['metadata']['name']}"
            body = migration_body(key, pod["metadata"]["uid"], f"new-{number % 4}")
            await create_migration(server, body)
        await all_finished(watches)
        seconds, cpu = time.perf_counter() - start, time.process_time() - start_cpu
        calls = Counter(server.calls)
        outcomes = Counter(str(found.status.outcome) for found in watches.all_migrations())
        assert outcomes == {"Landed": COUNT}, outcomes
        await asyncio.sleep(QUIET_SECONDS)
        quiet = server.calls["reads"] + server.calls["writes"]
        await asyncio.sleep(QUIET_SECONDS)
        polled = server.calls["reads"] + server.calls["writes"] - quiet
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await store.stop()
    name = f"{COUNT} handoffs, {IN_FLIGHT} in flight"
    report(
        [
            Figure(f"{name}: wall time", seconds, "s"),
            Figure(f"{name}: CPU of the controller, each", cpu / COUNT * 1000, "ms"),
            Figure(f"{name}: API writes besides Events, each", calls["writes"] / COUNT, "", 12),
            Figure(f"{name}: API reads, each", calls["reads"] / COUNT, ""),
            Figure(f"{name}: Events, each", calls["events"] / COUNT, ""),
            Figure(f"{name}: API calls in 5 s without migrations", polled, "", 0),
        ]
    )


if __name__ == "__main__":
    main()
