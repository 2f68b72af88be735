"""Move 50 pods while 3,000 connections ask for metrics as fast as they can, half of them half-sent.

The controller leads, and is probed all the time from another address, as a kubelet does. The same
moves are made before without the flood, on the same machine.
"""

import asyncio
import multiprocessing
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psutil

from benchmarks.figures import Figure, report
from benchmarks.migrations import CRDS, MIGRATIONS, is_served
from rescheduler.migration.memory.move_record_crd import ALL_CRDS
from rescheduler.migration.migration_request import migration_body
from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import deployment, namespace, node
from testcluster.client import JsonObject
from testcluster.ports import pick_ports
from testcluster.waiting import wait_until

MOVES, CONNECTIONS = 50, 3_000
LEASE = "bench/rescheduler"
POLICY = """\
enabledStrategies: []
migration: {maxInFlight: 50, maxPerNode: 50, maxPerNamespace: 50}
"""
LONGEST_TURN_MILLISECONDS = 250.0
KUBELET = "127.0.0.2"
PROBE_SECONDS = 10.0
PIPELINED = b"GET /metrics HTTP/1.1\r\nHost: us\r\n\r\n" * 50
HALF_SENT = b"GET /metrics HTTP/1.1\r\nHost: us\r\n"


def main() -> None:
    with TestCluster() as cluster, tempfile.TemporaryDirectory() as directory:
        fill(cluster)
        (port,) = pick_ports(1)
        with controller(cluster, Path(directory), port) as running:
            turns = running.longest_turn_milliseconds
            turns()
            move_all(cluster, "new")
            calm, before = turns(), lease(cluster)
            with flood(port), Probes(port) as probes:
                move_all(cluster, "old")
                flooded, after = turns(), lease(cluster)
            memory = running.process.memory_info()
            files = running.process.num_fds()
    name = f"{MOVES} moves"
    beside = f"{name} beside {CONNECTIONS:,} connections"
    report(
        [
            Figure(f"{name}: longest wait for a turn of the loop", calm, "ms"),
            Figure(
                f"{beside}: longest wait for a turn of the loop",
                flooded,
                "ms",
                LONGEST_TURN_MILLISECONDS,
            ),
            Figure(f"{beside}: changes of the leader", after - before, "", 0),
            Figure(f"{beside}: probes", probes.count, ""),
            Figure(f"{beside}: probes that failed", probes.failed, "", 0),
            Figure(f"{beside}: slowest probe", probes.slowest_seconds * 1e3, "ms"),
            Figure(f"{beside}: memory", memory.rss / 1e6, "MB"),
            Figure(f"{beside}: file descriptors", files, ""),
        ]
    )


# ---------------------------------------------------------------- the cluster


def fill(cluster: TestCluster) -> None:
    """Two nodes, and pods on the first of them."""
    for crd in ALL_CRDS:
        cluster.client.create(CRDS, crd)
    apply(cluster, namespace("bench"), node("old", cpu="64"))
    apply(cluster, *[deployment(f"bench/app-{number:02}", 1, "100m") for number in range(MOVES)])
    wait_until(lambda: len(running_pods(cluster)) == MOVES, 120, "all pods run")
    apply(cluster, node("new", cpu="64"))
    wait_until(lambda: is_served(cluster), what="Migrations are served")


def running_pods(cluster: TestCluster) -> list[JsonObject]:
    pods = cluster.client.get("/api/v1/namespaces/bench/pods")["items"]
    return [
        pod
        for pod in pods
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
    ]


def move_all(cluster: TestCluster, target: str) -> None:
    """Move every pod to a node."""
    path = MIGRATIONS.replace("migrations", "namespaces/bench/migrations")
    names = []
    for pod in running_pods(cluster):
        key = f"bench/{pod['metadata']['name']}"
        created = cluster.client.create(path, migration_body(key, pod["metadata"]["uid"], target))
        names.append(created["metadata"]["name"])

    def have_landed() -> bool:
        found = cluster.client.get(path)["items"]
        outcomes = [
            each.get("status", {}).get("outcome")
            for each in found
            if each["metadata"]["name"] in names
        ]
        return outcomes == ["Landed"] * MOVES

    wait_until(have_landed, 300, f"all pods are on {target}")


def lease(cluster: TestCluster) -> int:
    """How often the leader has changed."""
    space, _, name = LEASE.partition("/")
    path = f"/apis/coordination.k8s.io/v1/namespaces/{space}/leases/{name}"
    spec = cluster.client.get(path)["spec"]
    assert spec["holderIdentity"]
    return int(spec.get("leaseTransitions", 0))


# ---------------------------------------------------------------- the controller


class Controller:
    """A process of `rescheduler run` that says how long one waits for a turn of its loop."""

    def __init__(self, process: psutil.Process, turns: Path) -> None:
        self.process = process
        self._turns = turns
        self._read = 0

    def longest_turn_milliseconds(self) -> float:
        """The longest wait since this was asked the last time."""
        lines = self._turns.read_text().splitlines()[self._read :]
        self._read += len(lines)
        return max(map(float, lines)) * 1e3


@contextmanager
def controller(cluster: TestCluster, directory: Path, port: int) -> Iterator[Controller]:
    policy, turns, log = (directory / name for name in ("policy.yaml", "turns", "log"))
    policy.write_text(POLICY)
    command = [sys.executable, "-m", "benchmarks.timed_program", str(turns), "run"]
    options = [f"--policy={policy}", f"--health=127.0.0.1:{port}"]
    options += [f"--leader-election-lease={LEASE}", f"--kubeconfig={cluster.kubeconfig}"]
    with log.open("wb") as output:
        process = subprocess.Popen([*command, *options], stdout=output, stderr=output)
    try:
        wait_until(lambda: "Became the leader" in log.read_text(), 60, "it leads")
        wait_until(lambda: "Finished a round" in log.read_text(), 60, "it has read the cluster")
        yield Controller(psutil.Process(process.pid), turns)
    finally:
        process.terminate()
        process.wait(60)
        assert "Traceback" not in log.read_text(), log.read_text()


# ---------------------------------------------------------------- who asks


class Probes:
    """Asks for /healthz again and again, from an address of its own, as long as the block runs."""

    def __init__(self, port: int) -> None:
        self.count = self.failed = 0
        self.slowest_seconds = 0.0
        self._port = port
        self._ended = Event()
        self._thread = Thread(target=self._run)

    def __enter__(self) -> "Probes":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(0.1):
            started = time.perf_counter()
            self.count += 1
            self.failed += not self._is_healthy()
            self.slowest_seconds = max(self.slowest_seconds, time.perf_counter() - started)

    def _is_healthy(self) -> bool:
        asking = HTTPConnection(
            "127.0.0.1", self._port, timeout=PROBE_SECONDS, source_address=(KUBELET, 0)
        )
        try:
            asking.request("GET", "/healthz")
            return asking.getresponse().status == 200
        except (OSError, HTTPException):
            return False
        finally:
            asking.close()


@contextmanager
def flood(port: int) -> Iterator[None]:
    """Thousands of connections, from a process of their own."""
    process = multiprocessing.get_context("spawn").Process(target=send_flood, args=(port,))
    process.start()
    try:
        yield
        assert process.is_alive(), "the flood has ended early"
    finally:
        process.terminate()
        process.join()


def send_flood(port: int) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(send_all(port))


async def send_all(port: int) -> None:
    sent = (PIPELINED, HALF_SENT)
    clients = [send_for_ever(port, sent[number % len(sent)]) for number in range(CONNECTIONS)]
    await asyncio.gather(*clients)


async def send_for_ever(port: int, sent: bytes) -> Any:
    while True:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            with suppress(OSError):
                writer.write(sent)
                while await reader.read(65536):
                    pass
            writer.close()


if __name__ == "__main__":
    main()
