"""Read 150,000 pods of 5,000 nodes through the real client, then use the store warm."""

import asyncio
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from benchmarks.figures import Figure, median_seconds, peak_megabytes, report
from rescheduler.kube.auth.loader import load_credentials
from rescheduler.kube.client import Client
from rescheduler.kube.listwatch import ListWatch
from rescheduler.kube.watch_events import Modified, event_decoder_of
from rescheduler.model.kinds import POD
from rescheduler.model.objects import Pod
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.model.tables.table import Table

NODES, PODS = 5_000, 150_000


def main() -> None:
    with replayed_cluster(NODES, PODS) as server, tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        kubeconfig.write_text(kubeconfig_for(server))
        asyncio.run(measure(server, kubeconfig))


async def measure(server: str, kubeconfig: Path) -> None:
    tables = ClusterTables()
    async with Client(load_credentials(kubeconfig)) as client:
        seconds = {table.kind: await seconds_to_list(client, table) for table in tables.tables()}
    peak = peak_megabytes()
    cpu, wall = seconds[POD]
    lines = await changed_pods(server)
    figures = [
        Figure("reading the whole cluster: peak memory", peak, "MB", 200),
        Figure("reading 150,000 pods: CPU per pod", cpu / PODS * 1e6, "µs", 40),
        Figure("reading 150,000 pods: wall time", wall, "s"),
        Figure("applying one watch event", seconds_per_event(tables, lines) * 1e6, "µs", 50),
        Figure("snapshot of a warm store", median_seconds(tables.snapshot, 9) * 1e3, "ms", 100),
    ]
    report(figures)


async def seconds_to_list(client: Client, table: Table[Any]) -> tuple[float, float]:
    """CPU time and wall time that reading one kind takes."""
    start_cpu, start = time.process_time(), time.perf_counter()
    await ListWatch(client, table).list()
    return time.process_time() - start_cpu, time.perf_counter() - start


async def changed_pods(server: str) -> list[bytes]:
    """Watch lines as an API server sends them: pods that moved on by a version."""
    async with aiohttp.ClientSession() as session, session.get(f"{server}/changes") as answer:
        return (await answer.read()).splitlines()


def seconds_per_event(tables: ClusterTables, lines: list[bytes]) -> float:
    """From the bytes of a line to the table, as the watch does it."""
    decode = event_decoder_of(Pod).decode
    start = time.perf_counter()
    for line in lines:
        event = decode(line)
        assert isinstance(event, Modified)
        tables.pods.put(event.object)
    return (time.perf_counter() - start) / len(lines)


@contextlib.contextmanager
def replayed_cluster(nodes: int, pods: int, *options: str) -> Iterator[str]:
    """The address of a server that replays a generated cluster."""
    size = ["--nodes", str(nodes), "--pods", str(pods)]
    command = [sys.executable, "-m", "benchmarks.replay", *size, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
        finally:
            server.kill()


def kubeconfig_for(server: str) -> str:
    """A kubeconfig for a server that asks for no credentials."""
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "replay",
            "contexts": [{"name": "replay", "context": {"cluster": "replay", "user": "nobody"}}],
            "clusters": [{"name": "replay", "cluster": {"server": server}}],
            "users": [{"name": "nobody", "user": {}}],
        }
    ).decode()


if __name__ == "__main__":
    main()
