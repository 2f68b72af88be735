"""Send requests to `rescheduler serve` as kube-scheduler and the API server do.

The server has its own process and watches 5,000 nodes and 150,000 pods, of which 100 change every
second. Requests come over HTTPS from this process. How fast a real kube-scheduler is with it, and
without, is measured on a real control plane.
"""

import asyncio
import gc
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import aiohttp
import msgspec
import numpy as np
import psutil

from benchmarks.figures import Figure, report
from benchmarks.reading import NODES, PODS, kubeconfig_for, replayed_cluster
from benchmarks.scheduling_throughput import scheduling_figures
from testcluster.builders import owner_reference, pod, replicaset
from testcluster.large import generate_large_cluster
from testcluster.serving import Served, served

CHANGES_PER_SECOND, MIGRATIONS = 100, 20
WARM_UP, REQUESTS, IN_FLIGHT = 50, 1_000, 8
LISTS = 100
# What kube-scheduler looks at by default for a pod in a cluster of 5,000 nodes.
SAMPLE = 500

Send = Callable[[int], Awaitable[None]]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        figures = response_figures(Path(folder))
    report([*figures, *scheduling_figures()])


def response_figures(folder: Path) -> list[Figure]:
    """How long responses take on a big cluster."""
    options = ["--migrations", str(MIGRATIONS), "--changes-per-second", str(CHANGES_PER_SECOND)]
    with replayed_cluster(NODES, PODS, *options) as server:
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(kubeconfig_for(server))
        with served(kubeconfig, folder / "tls") as server_process:
            return asyncio.run(measure(server_process))


async def measure(extender: Served) -> list[Figure]:
    """Send every kind of request, one after the other and many at once."""
    objects = generate_large_cluster(NODES, NODES)
    names = [item["metadata"]["name"] for item in objects if item["kind"] == "Node"]
    # Without this, pauses of this process's own garbage collector would count as waiting.
    del objects
    gc.collect()
    gc.freeze()
    connector = aiohttp.TCPConnector(ssl=extender.client_context(), limit=IN_FLIGHT)
    async with aiohttp.ClientSession(f"https://{extender.address}", connector=connector) as session:
        everything = Scheduling(session, names)
        sample = Scheduling(session, names[:SAMPLE])
        webhook = PodCreation(session)
        used = CpuUse(extender)
        alone = await percentile(everything.send, 1)
        cpu = used.seconds() / (WARM_UP + REQUESTS)
        together = await percentile(everything.send, IN_FLIGHT)
        usual = await percentile(sample.send, 1)
        admitted = await percentile(webhook.send, 1)
    all_nodes = "filter and prioritize 5,000 nodes: p99"
    return [
        Figure(f"{all_nodes}, one pod at a time", alone * 1e3, "ms", 15),
        Figure(f"{all_nodes}, {IN_FLIGHT} pods at once", together * 1e3, "ms", 60),
        Figure("filter and prioritize 5,000 nodes: CPU of the server", cpu * 1e3, "ms"),
        Figure(f"filter and prioritize a sample of {SAMPLE}: p99", usual * 1e3, "ms"),
        Figure("webhook for a new pod: p99", admitted * 1e3, "ms", 5),
    ]


class CpuUse:
    """The CPU time of the server, including that of its watches."""

    def __init__(self, extender: Served) -> None:
        self._process = psutil.Process(extender.process.pid)
        self._before = self._total()

    def seconds(self) -> float:
        """CPU seconds since this was created."""
        return self._total() - self._before

    def _total(self) -> float:
        times = self._process.cpu_times()
        return times.user + times.system


async def percentile(send: Send, in_flight: int) -> float:
    """The seconds that 99 of 100 requests take at most."""
    numbers = iter(range(WARM_UP + REQUESTS))
    seconds: list[float] = []

    async def worker() -> None:
        for number in numbers:
            start = time.perf_counter()
            await send(number)
            if number >= WARM_UP:
                seconds.append(time.perf_counter() - start)

    await asyncio.gather(*[worker() for _ in range(in_flight)])
    return float(np.percentile(seconds, 99))


class Passed(msgspec.Struct):
    """The part of a response that the scheduler sends back."""

    NodeNames: msgspec.Raw


class Scheduling:
    """What kube-scheduler sends about a pod: filter, then prioritize."""

    def __init__(self, session: aiohttp.ClientSession, names: list[str]) -> None:
        self._session = session
        # Encoded beforehand, so that only the server's time is measured.
        self._lists = [msgspec.json.encode(shuffled(names, number)) for number in range(LISTS)]

    async def send(self, number: int) -> None:
        """Both requests about one pod; the nodes are in another order each time."""
        cpu = f"{100 + number % 7 * 50}m"
        new = msgspec.json.encode(pod(f"shop/new-{number}", cpu=cpu, memory="256Mi"))
        response = await self._post("filter", request_body(new, self._lists[number % LISTS]))
        passed = bytes(msgspec.json.decode(response, type=Passed).NodeNames)
        assert passed != b"[]", "all nodes were refused"
        await self._post("prioritize", request_body(new, passed))

    async def _post(self, verb: str, body: bytes) -> bytes:
        async with self._session.post(f"/extender/{verb}", data=body) as response:
            assert response.status == 200, await response.text()
            return await response.read()


class PodCreation:
    """What the API server sends about a pod that a controller creates."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def send(self, number: int) -> None:
        """One review of a new pod."""
        new = pod(f"shop/new-{number}", cpu="100m")
        new["metadata"]["ownerReferences"] = [owner_reference(replicaset("shop/new"))]
        request = {
            "uid": str(number),
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "operation": "CREATE",
            "namespace": "shop",
            "object": new,
        }
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        body = msgspec.json.encode({**review, "request": request})
        async with self._session.post("/webhook/pods", data=body) as response:
            assert msgspec.json.decode(await response.read())["response"]["allowed"]


def request_body(pod: bytes, names: bytes) -> bytes:
    """A request as the scheduler writes it."""
    return b'{"Pod":' + pod + b',"Nodes":null,"NodeNames":' + names + b"}"


def shuffled(names: list[str], number: int) -> list[str]:
    """The same names in another order, as threads that look at nodes would find them."""
    return Random(number).sample(names, len(names))


if __name__ == "__main__":
    main()
