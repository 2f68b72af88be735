"""Random faults between the controller and the server do no harm.

`EXHAUSTIVE=1` moves twice as many pods, and each of them ten times instead of twice.
"""

import os
from random import Random

from aiohttp import web

from rescheduler.settings import MigrationOptions, Seconds
from testcluster.applying import apply
from testcluster.builders import budget, deployment
from tests.kube.faultproxy import (
    Fault,
    FaultProxy,
    answer_with,
    cut_after,
    cut_at_once,
    delay,
    error_event,
    is_watch,
    is_write,
    lose_answer,
)
from tests.migration.ready_pod_watch import ReadyPodWatch
from tests.migration.support import Sandbox, controller_on, is_ready, node_of

REPLICAS = 2
# The waves are an even number: in the end, all pods are where they began.
APPS, WAVES = (25, 10) if os.environ.get("EXHAUSTIVE") == "1" else (13, 2)
PATIENT = MigrationOptions(
    max_per_node=20,
    max_retries=50,
    retry_delay_seconds=Seconds(0.05),
    timeout_seconds=Seconds(120),
)
CONFLICT = '{"kind":"Status","code":409,"reason":"Conflict","message":"it has been modified"}'
WRITE_FAULTS = (
    cut_at_once,
    lose_answer,
    delay(0.2),
    answer_with(409, CONFLICT),
    answer_with(429),
    answer_with(500),
)
READ_FAULTS = (cut_at_once, cut_after(40), delay(0.2), answer_with(429), answer_with(500))
WATCH_FAULTS = (cut_at_once, cut_after(2000), error_event(410), error_event(500))
ONE_IN = 8


class Chaos:
    """Lets one request in so many fail, with a fault that fits it."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.struck = 0

    def __call__(self, request: web.Request) -> Fault | None:
        if self._random.randrange(ONE_IN):
            return None
        self.struck += 1
        if is_watch(request):
            return self._random.choice(WATCH_FAULTS)
        return self._random.choice(WRITE_FAULTS if is_write(request) else READ_FAULTS)


async def test_dozens_of_migrations_survive_every_fault_of_the_network(sandbox: Sandbox) -> None:
    places = sandbox.add_nodes("a", cpu="16")
    apps = [f"app-{number:02}" for number in range(APPS)]
    for app in apps:
        key = f"{sandbox.namespace}/{app}"
        body = deployment(key, REPLICAS, "100m", template=sandbox.here())
        apply(sandbox.cluster, body, budget(key, min_available=REPLICAS))
    count = APPS * REPLICAS
    await sandbox.until(lambda: sum(map(is_ready, sandbox.pods())) == count)
    places += sandbox.add_nodes("b", cpu="16")
    chaos = Chaos(seed=7)
    async with FaultProxy(sandbox.cluster.server, str(sandbox.cluster.ca_file)) as proxy:
        with ReadyPodWatch(sandbox.cluster, sandbox.namespace) as watcher:
            async with controller_on(sandbox.cluster, PATIENT, server=proxy.url):
                proxy.chaos = chaos
                for wave in range(WAVES):
                    await move_all(sandbox, places[(wave + 1) % 2], f"wave-{wave}")
                proxy.chaos = None
                await sandbox.until(lambda: not sandbox.leftovers(), "nothing is left behind")
            await sandbox.until(lambda: len(sandbox.pods()) == count, "the old pods are deleted")
    statuses = [status["status"] for status in sandbox.all("migrations")]
    assert len(statuses) == count * WAVES
    assert {(status["phase"], status["outcome"]) for status in statuses} == {
        ("Completed", "Landed")
    }
    assert {node_of(pod) for pod in sandbox.pods()} == {places[0]}
    assert {app: watcher.fewest[app] for app in apps} == dict.fromkeys(apps, REPLICAS)
    assert max(watcher.most[app] for app in apps) <= REPLICAS + 1
    assert watcher.problems == []
    assert chaos.struck > count


async def move_all(sandbox: Sandbox, target: str, wave: str) -> None:
    """Move every pod to the target, and wait until all are there."""
    names = [
        sandbox.migrate(pod, target, f"{wave}-{pod['metadata']['name']}")
        for pod in sandbox.pods()
        if is_ready(pod)
    ]

    def all_finished() -> bool:
        phases = {
            found["metadata"]["name"]: found["status"]["phase"]
            for found in sandbox.all("migrations")
        }
        return all(phases[name] == "Completed" for name in names)

    await sandbox.until(all_finished, f"{wave} is over", 300)
