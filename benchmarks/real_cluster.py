"""Read 1,000 nodes and 30,000 pods from a real API server, in a process of its own."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.figures import Figure, peak_megabytes, report
from rescheduler.kube.auth.loader import load_credentials
from rescheduler.kube.client import Client
from rescheduler.kube.live_store import LiveStore
from rescheduler.model.tables.cluster_tables import ClusterTables

NODES, PODS = 1_000, 30_000


def main() -> None:
    if len(sys.argv) > 1:
        asyncio.run(read(Path(sys.argv[1])))
        return
    from testcluster import TestCluster
    from testcluster.loader import load_large_cluster

    with TestCluster(controllers=False, scheduler=False, kwok=False) as cluster:
        load_large_cluster(cluster, nodes=NODES, pods=PODS)
        # Loading takes memory of its own, so reading is measured apart from it.
        command = [sys.executable, "-m", "benchmarks.real_cluster", str(cluster.kubeconfig)]
        subprocess.run(command, check=True)


async def read(kubeconfig: Path) -> None:
    tables = ClusterTables()
    async with Client(load_credentials(kubeconfig)) as client:
        start_cpu, start = time.process_time(), time.perf_counter()
        await LiveStore(client, tables).list_once()
        cpu, wall = time.process_time() - start_cpu, time.perf_counter() - start
    peak = peak_megabytes()
    assert len(tables.pods) == PODS, f"read {len(tables.pods)} pods"
    report(
        [
            Figure("real server, 30,000 pods: peak memory", peak, "MB", 110),
            Figure("real server, 30,000 pods: CPU", cpu, "s"),
            Figure("real server, 30,000 pods: wall time", wall, "s"),
        ]
    )


if __name__ == "__main__":
    main()
