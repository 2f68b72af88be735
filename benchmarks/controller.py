"""Run the controller on 1,000 nodes and 30,000 pods, 50 of which change every second.

It plans as always and is scraped every 15 s, for ten minutes; `CONTROLLER_SECONDS=180` is shorter.
"""

import os
import subprocess
import sys
import tempfile
import time
from itertools import cycle
from pathlib import Path
from threading import Event, Thread
from urllib.error import URLError
from urllib.request import urlopen

import psutil

from benchmarks.figures import Figure, report
from rescheduler.migration.memory.move_record_crd import ALL_CRDS
from testcluster import TestCluster
from testcluster.client import Client, JsonObject
from testcluster.loader import load_large_cluster
from testcluster.ports import pick_ports
from testcluster.waiting import wait_until

NODES, PODS = 1_000, 30_000
CHANGES_PER_SECOND = 50
# Of ten changes, one creates a pod and one deletes it; the others are reports of kubelets.
CHANGES_PER_NEW_POD = 10
SCRAPE_SECONDS = 15.0
SECONDS = float(os.environ.get("CONTROLLER_SECONDS", "600"))
MOST_CORES, MOST_MEGABYTES = 0.05, 120
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def main() -> None:
    with TestCluster(controllers=False, scheduler=False, kwok=False) as cluster:
        for crd in ALL_CRDS:
            cluster.client.create(CRDS, crd)
        load_large_cluster(cluster, nodes=NODES, pods=PODS)
        changes = Changes(cluster.client)
        (port,) = pick_ports(1)
        with tempfile.TemporaryFile() as log:
            program = str(Path(sys.executable).with_name("rescheduler"))
            arguments = ["run", f"--kubeconfig={cluster.kubeconfig}", f"--health=127.0.0.1:{port}"]
            with subprocess.Popen([program, *arguments], stdout=log, stderr=log) as process:
                try:
                    measure(psutil.Process(process.pid), port, changes)
                finally:
                    process.terminate()


def measure(process: psutil.Process, port: int, changes: "Changes") -> None:
    wait_until(lambda: value(port, "rescheduler_rounds_total", 'result="planned"') >= 1, 300)
    loading = cpu_seconds(process)
    start, start_changes = time.monotonic(), changes.count
    with changes.going_on():
        scrapes = 0
        while (left := start + SECONDS - time.monotonic()) > 0:
            time.sleep(min(SCRAPE_SECONDS, left))
            scraped = time.perf_counter()
            scrape(port)
            scrapes += 1
            seconds_per_scrape = time.perf_counter() - scraped
    wall = time.monotonic() - start
    cores = (cpu_seconds(process) - loading) / wall
    name = "controller, 30,000 pods: "
    report(
        [
            Figure(f"{name}CPU", cores, "cores", MOST_CORES),
            Figure(f"{name}peak memory", peak_megabytes(process), "MB", MOST_MEGABYTES),
            Figure(f"{name}CPU until the first plan", loading, "s"),
            Figure(f"{name}changes", (changes.count - start_changes) / wall, "per s"),
            Figure(f"{name}rounds", value(port, "rescheduler_rounds_total"), ""),
            Figure(f"{name}moves", value(port, "rescheduler_moves_requested_total"), ""),
            Figure(f"{name}last of {scrapes} scrapes", seconds_per_scrape * 1e3, "ms"),
            Figure(f"{name}series", len(scrape(port)), ""),
        ]
    )


class Changes:
    """Changes pods, as kubelets and controllers do."""

    def __init__(self, client: Client) -> None:
        self.count = 0
        self._client = client
        page = client.get(f"/api/v1/pods?limit={CHANGES_PER_SECOND * 20}")
        self._pods = cycle([path_of(pod) for pod in page["items"]])
        self._template: JsonObject = page["items"][0]
        self._ended = Event()
        self._thread = Thread(target=self._run)

    def going_on(self) -> "Changes":
        return self

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        start = time.monotonic()
        while not self._ended.is_set():
            if time.monotonic() - start < self.count / CHANGES_PER_SECOND:
                self._ended.wait(0.005)
                continue
            self._change(self.count)
            self.count += 1

    def _change(self, number: int) -> None:
        place = number % CHANGES_PER_NEW_POD
        namespace = self._template["metadata"]["namespace"]
        pods = f"/api/v1/namespaces/{namespace}/pods"
        if place == 0:
            self._client.create(pods, self._new_pod(f"new-{number}"))
        elif place == CHANGES_PER_NEW_POD - 1:
            first = number - place
            self._client.delete(f"{pods}/new-{first}?gracePeriodSeconds=0")
        else:
            condition = {"type": "Changed", "status": "True", "reason": f"Number{number}"}
            self._client.patch(
                f"{next(self._pods)}/status", {"status": {"conditions": [condition]}}
            )

    def _new_pod(self, name: str) -> JsonObject:
        metadata, node = self._template["metadata"], self._template["spec"]["nodeName"]
        requests = {"cpu": "100m", "memory": "128Mi"}
        container = {"name": "main", "image": "main", "resources": {"requests": requests}}
        return {
            "metadata": {"name": name, "labels": metadata["labels"]},
            "spec": {"nodeName": node, "containers": [container]},
        }


def path_of(pod: JsonObject) -> str:
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"


def cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def peak_megabytes(process: psutil.Process) -> float:
    """The most memory a running process has had resident."""
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError("the system does not say how much memory the process has had")


def scrape(port: int) -> list[str]:
    """The series, as lines of text; none if nobody answers yet."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as response:
            lines: list[str] = response.read().decode().splitlines()
    except URLError:
        return []
    return [line for line in lines if not line.startswith("#")]


def value(port: int, name: str, label: str = "") -> float:
    """The sum of the series with this name, and perhaps this label."""
    chosen = (line for line in scrape(port) if line.startswith(name) and label in line)
    return sum(float(line.rpartition(" ")[2]) for line in chosen)


if __name__ == "__main__":
    main()
