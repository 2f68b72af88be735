"""How fast a real kube-scheduler places pods, with our extender and without it."""

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure
from rescheduler.kube.auth.loader import load_credentials
from rescheduler.kube.backoff import Backoff
from rescheduler.kube.client import Client
from rescheduler.kube.listwatch import ListWatch, WatchSettings
from rescheduler.migration.memory.move_record_crd import ALL_CRDS
from rescheduler.model.tables.pod_table import PodTable
from rescheduler.model.tables.table import TableChange
from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import namespace, node, pod
from testcluster.client import ApiError, JsonObject
from testcluster.serving import served
from testcluster.waiting import wait_until

NODE_COUNT, POD_COUNT = 200, 1_000
LONGEST_SECONDS = 300
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MIGRATIONS = "/apis/rescheduler.dev/v1alpha1/migrations"
PLAIN, OURS = "plain-scheduler", "rescheduler-scheduler"


def scheduling_figures() -> list[Figure]:
    """How long 1,000 pods take without the extender, and with it."""
    with TestCluster(controllers=False, scheduler=False, kwok=False) as cluster:
        for crd in ALL_CRDS:
            cluster.client.create(CRDS, crd)
        wait_until(lambda: is_served(cluster), what="Migrations are served")
        apply(cluster, *[node(f"node-{number}", cpu="32") for number in range(NODE_COUNT)])
        alone = asyncio.run(seconds_to_place(cluster, PLAIN, plain_configuration()))
        with (
            tempfile.TemporaryDirectory() as folder,
            served(cluster.kubeconfig, Path(folder) / "tls") as extender,
        ):
            extended = asyncio.run(seconds_to_place(cluster, OURS, extender.configuration()))
    placing = f"kube-scheduler placing {POD_COUNT:,} pods on {NODE_COUNT} nodes"
    return [
        Figure(f"{placing}: alone", alone, "s"),
        Figure(f"{placing}: with the extender", extended, "s"),
        Figure(f"{placing}: with it, times as long", extended / alone, ""),
    ]


async def seconds_to_place(
    cluster: TestCluster, scheduler: str, configuration: JsonObject
) -> float:
    """How long a scheduler takes for pods that have waited for it, from the first to the last."""
    apply(cluster, namespace(scheduler))
    for number in range(POD_COUNT):
        waiting = pod(f"{scheduler}/p{number}", cpu="100m", schedulerName=scheduler)
        cluster.client.create(f"/api/v1/namespaces/{scheduler}/pods", waiting)
    async with Client(load_credentials(cluster.kubeconfig)) as client:
        placing = asyncio.create_task(watch_placing(client, scheduler))
        # Starting it here would hold up the watch.
        starting = cluster.extra_scheduler(configuration)
        await asyncio.to_thread(starting.__enter__)
        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                return await placing
        finally:
            starting.__exit__(None, None, None)


async def watch_placing(client: Client, namespace: str) -> float:
    """Seconds from the first to the last pod that got its node."""
    pods = PodTable()
    # The server ends watches that cannot keep up with it; then it is best to list again at once.
    watch = ListWatch(client, pods, WatchSettings(backoff=Backoff(0.01, 0.1)))
    placed: dict[str, float] = {}
    all_placed = asyncio.Event()

    def see(change: TableChange) -> None:
        if change.key.startswith(f"{namespace}/") and pods.is_placed(change.key):
            placed.setdefault(change.key, time.perf_counter())
        if len(placed) == POD_COUNT:
            all_placed.set()

    watch.subscribe(see)
    watching = asyncio.create_task(watch.run())
    try:
        await all_placed.wait()
    finally:
        watching.cancel()
    return max(placed.values()) - min(placed.values())


def plain_configuration() -> dict[str, Any]:
    """A scheduler without extenders."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": PLAIN}],
    }


def is_served(cluster: TestCluster) -> bool:
    """Whether the CRD of Migrations is installed and served."""
    try:
        return cluster.client.exists(MIGRATIONS)
    except ApiError:
        return False
