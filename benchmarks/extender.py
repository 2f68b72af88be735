"""Ask `rescheduler serve` as kube-scheduler and the API server do, while pods come and go.

The server has its own process and watches 5,000 nodes and 150,000 pods, of which 100 change every
second. Questions come over HTTPS from this process; how fast a real kube-scheduler is with it, and
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
WARM_UP, QUESTIONS, IN_FLIGHT = 50, 1_000, 8
LISTS = 100
# What kube-scheduler looks at for each pod in a cluster of 5,000 nodes, unless told otherwise.
SAMPLE = 500

Ask = Callable[[int], Awaitable[None]]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        figures = asked_figures(Path(folder))
    report([*figures, *scheduling_figures()])


def asked_figures(folder: Path) -> list[Figure]:
    """How long answers take on a big cluster."""
    options = ["--migrations", str(MIGRATIONS), "--changes-per-second", str(CHANGES_PER_SECOND)]
    with replayed_cluster(NODES, PODS, *options) as server:
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(kubeconfig_for(server))
        with served(kubeconfig, folder / "tls") as side:
            return asyncio.run(ask(side))


async def ask(side: Served) -> list[Figure]:
    """Ask everything, one after the other and many at once."""
    objects = generate_large_cluster(NODES, NODES)
    names = [item["metadata"]["name"] for item in objects if item["kind"] == "Node"]
    # Else this process stops now and then to look through them, and counts that as waiting.
    del objects
    gc.collect()
    gc.freeze()
    connector = aiohttp.TCPConnector(ssl=side.client_context(), limit=IN_FLIGHT)
    async with aiohttp.ClientSession(f"https://{side.address}", connector=connector) as session:
        everything = Scheduling(session, names)
        sample = Scheduling(session, names[:SAMPLE])
        webhook = Creation(session)
        used = CpuUse(side)
        alone = await percentile(everything.ask, 1)
        cpu = used.seconds() / (WARM_UP + QUESTIONS)
        together = await percentile(everything.ask, IN_FLIGHT)
        usual = await percentile(sample.ask, 1)
        admitted = await percentile(webhook.ask, 1)
    ask_all = "filter and prioritize 5,000 nodes: p99"
    return [
        Figure(f"{ask_all}, one pod at a time", alone * 1e3, "ms", 15),
        Figure(f"{ask_all}, {IN_FLIGHT} pods at once", together * 1e3, "ms", 60),
        Figure("filter and prioritize 5,000 nodes: CPU of the server", cpu * 1e3, "ms"),
        Figure(f"filter and prioritize a sample of {SAMPLE}: p99", usual * 1e3, "ms"),
        Figure("webhook for a new pod: p99", admitted * 1e3, "ms", 5),
    ]


class CpuUse:
    """What processors the server takes, with the watches that it follows meanwhile."""

    def __init__(self, side: Served) -> None:
        self._process = psutil.Process(side.process.pid)
        self._before = self._total()

    def seconds(self) -> float:
        """Since the beginning."""
        return self._total() - self._before

    def _total(self) -> float:
        times = self._process.cpu_times()
        return times.user + times.system


async def percentile(ask: Ask, in_flight: int) -> float:
    """What 99 of 100 questions take at most, in seconds."""
    numbers = iter(range(WARM_UP + QUESTIONS))
    seconds: list[float] = []

    async def worker() -> None:
        for number in numbers:
            start = time.perf_counter()
            await ask(number)
            if number >= WARM_UP:
                seconds.append(time.perf_counter() - start)

    await asyncio.gather(*[worker() for _ in range(in_flight)])
    return float(np.percentile(seconds, 99))


class Passed(msgspec.Struct):
    """The part of an answer that the scheduler sends back."""

    NodeNames: msgspec.Raw


class Scheduling:
    """What kube-scheduler asks about each pod: which nodes, then how good they are."""

    def __init__(self, session: aiohttp.ClientSession, names: list[str]) -> None:
        self._session = session
        # Made beforehand: this process is to wait for answers, and not they for it.
        self._lists = [msgspec.json.encode(shuffled(names, number)) for number in range(LISTS)]

    async def ask(self, number: int) -> None:
        """Both questions about one pod; the nodes are in another order each time."""
        cpu = f"{100 + number % 7 * 50}m"
        new = msgspec.json.encode(pod(f"shop/new-{number}", cpu=cpu, memory="256Mi"))
        answer = await self._post("filter", question(new, self._lists[number % LISTS]))
        passed = bytes(msgspec.json.decode(answer, type=Passed).NodeNames)
        assert passed != b"[]", "all nodes were refused"
        await self._post("prioritize", question(new, passed))

    async def _post(self, verb: str, body: bytes) -> bytes:
        async with self._session.post(f"/extender/{verb}", data=body) as response:
            assert response.status == 200, await response.text()
            return await response.read()


class Creation:
    """What the API server asks about each pod that a controller makes."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def ask(self, number: int) -> None:
        """Whether a pod may be made, and how."""
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


def question(pod: bytes, names: bytes) -> bytes:
    """A question as the scheduler writes it."""
    return b'{"Pod":' + pod + b',"Nodes":null,"NodeNames":' + names + b"}"


def shuffled(names: list[str], number: int) -> list[str]:
    """The same names in another order, as threads that look at nodes would find them."""
    return Random(number).sample(names, len(names))


if __name__ == "__main__":
    main()
