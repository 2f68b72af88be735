"""A leader is killed, paused, cut off or stopped in the middle of fifty migrations.

Another replica takes over each time. No pod is copied twice or missing, every migration ends, and
the API server's audit log has no write of a replica that did not hold the Lease at that moment.
`EXHAUSTIVE=1` tries twenty moments for each way to lose a leader.
"""

import asyncio
import os
import signal
import ssl
import time
import urllib.request
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random

import pytest
from aiohttp import web

from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import budget, deployment
from testcluster.ports import pick_ports
from testcluster.serving import write_certificates
from testcluster.waiting import wait_until
from tests.conftest import SayAtTheEnd, failed, new_sandbox, serve_migrations, stop
from tests.kube.faultproxy import Exchange, Fault, FaultProxy
from tests.leader_election.replicas import (
    LEASE_SECONDS,
    MUTATING,
    USER,
    Replica,
    Replicas,
    replicas_on,
    writes_outside_of_terms,
)
from tests.migration.ready_pod_watch import ReadyPodWatch
from tests.migration.support import FINISHED, Sandbox, is_ready, node_of

APPS, PODS_OF_APP = 25, 2
PODS = APPS * PODS_OF_APP

KILLED, PAUSED, CUT_OFF, STOPPED, DELETED = WAYS = (
    "killed",
    "paused",
    "cut off",
    "stopped",
    "paused, and its Lease deleted",
)
"""The ways to lose a leader."""

Case = tuple[int, list[str]]
"""A seed, and how leaders are lost during the migrations."""

MIXED: Case = (0, [KILLED, CUT_OFF, PAUSED, DELETED, STOPPED])
CASES: list[Case] = [MIXED]
if os.environ.get("EXHAUSTIVE") == "1":
    CASES = [(seed, [way] * 4) for way in WAYS for seed in range(5)]


@pytest.fixture(scope="module")
def audited_cluster(
    request: pytest.FixtureRequest, binary: Path, say_at_the_end: SayAtTheEnd
) -> Iterator[TestCluster]:
    """A cluster whose API server logs every request."""
    cluster = TestCluster(audit=True)
    cluster.start()
    serve_migrations(cluster)
    yield cluster
    stop(cluster, say_at_the_end, keep_logs=request.session.stash.get(failed, False))


@pytest.fixture
def sandbox(audited_cluster: TestCluster) -> Iterator[Sandbox]:
    with new_sandbox(audited_cluster) as made:
        yield made


class Failover:
    """Migrations of all pods of a namespace, in the midst of which leaders are lost."""

    def __init__(
        self, sandbox: Sandbox, replicas: Replicas, stack: AsyncExitStack, seed: int
    ) -> None:
        self.takeover_seconds: defaultdict[str, list[float]] = defaultdict(list)
        self._sandbox = sandbox
        self._replicas = replicas
        self._stack = stack
        self._random = Random(seed)
        self._proxies: dict[str, FaultProxy] = {}
        self._cuts = 0
        self._apps = [f"app-{number:02}" for number in range(APPS)]

    async def run(self, ways: list[str]) -> None:
        """Move all pods, lose leaders, and check what has become of the pods."""
        target, sandbox = await self._prepare(), self._sandbox
        with ReadyPodWatch(sandbox.cluster, sandbox.namespace) as watcher:
            for pod in sandbox.pods():
                sandbox.migrate(pod, target)
            for number, way in enumerate(ways):
                await self._until_finished(PODS * number // len(ways))
                # Any moment will do.
                await asyncio.sleep(self._random.random() / 2)
                await self._lose_leader(way)
            await self._until_finished(PODS)
            await sandbox.until(lambda: not sandbox.leftovers(), "nothing is left behind")
            await sandbox.until(lambda: len(sandbox.pods()) == PODS, "the old pods are deleted")
        statuses = [migration["status"] for migration in sandbox.all("migrations")]
        assert {status.get("outcome") for status in statuses} == {"Landed"}, statuses
        assert {node_of(pod) for pod in sandbox.pods()} == {target}
        expected = dict.fromkeys(self._apps, PODS_OF_APP)
        assert {app: watcher.fewest[app] for app in self._apps} == expected
        # One pod of an app is moved at a time, with one new pod.
        assert max(watcher.most.values()) <= PODS_OF_APP + 1
        assert watcher.problems == []
        assert writes_outside_of_terms(self._replicas) == []

    async def _prepare(self) -> str:
        """Create pods, all on one node, a node to move them to, and two replicas."""
        sandbox = self._sandbox
        sandbox.add_nodes("a", cpu="16")
        for app in self._apps:
            key = f"{sandbox.namespace}/{app}"
            body = deployment(key, PODS_OF_APP, "100m", template=sandbox.here())
            apply(sandbox.cluster, body, budget(key, min_available=PODS_OF_APP))
        await sandbox.until(lambda: sum(map(is_ready, sandbox.pods())) == PODS)
        await self._start_replica("Became the leader")
        await self._start_replica("Waiting for the lease")
        (target,) = sandbox.add_nodes("b", cpu="16")
        return target

    async def _start_replica(self, until_logged: str) -> None:
        account, token = self._replicas.new_account()
        cluster = self._sandbox.cluster
        proxy = FaultProxy(cluster.server, str(cluster.ca_file), token)
        self._proxies[account] = await self._stack.enter_async_context(proxy)
        replica = self._replicas.start(server=proxy.url, account=account)
        await asyncio.to_thread(replica.wait_for, until_logged)

    async def _until_finished(self, count: int) -> None:
        def finished() -> int:
            phases = [found["status"].get("phase") for found in self._sandbox.all("migrations")]
            return sum(phase in FINISHED for phase in phases)

        what = f"{count} migrations are finished"
        await self._sandbox.until(lambda: finished() >= count, what, 240)

    # ------------------------------------------------------------ ways to lose a leader

    async def _lose_leader(self, way: str) -> None:
        leader = await asyncio.to_thread(self._replicas.leader)
        started = time.monotonic()
        losses = leader.log.count("Lost the lease")
        if way == KILLED:
            leader.signal(signal.SIGKILL)
        elif way == STOPPED:
            leader.signal(signal.SIGTERM)
        elif way in (PAUSED, DELETED):
            leader.signal(signal.SIGSTOP)
            if way == DELETED:
                self._replicas.delete_lease()
        else:
            self._cut_off(leader)
        await asyncio.to_thread(self._replicas.wait_for_another_leader, leader)
        self.takeover_seconds[way].append(time.monotonic() - started)
        if way in (PAUSED, DELETED):
            leader.signal(signal.SIGCONT)
        if way in (PAUSED, DELETED, CUT_OFF):
            await asyncio.to_thread(leader.wait_for, "Lost the lease", losses + 1)
            self._connect_again(leader)
            return
        await asyncio.to_thread(self._replicas.wait_for_end, leader)
        if way == STOPPED:
            assert leader.process.returncode == 0
        await self._start_replica("Waiting for the lease")

    def _cut_off(self, leader: Replica) -> None:
        self._proxies[leader.name].chaos = never_answered
        self._cuts += 1
        if self._cuts % 2:
            # What was on its way breaks off; otherwise it is still answered.
            self._proxies[leader.name].cut_all()

    def _connect_again(self, leader: Replica) -> None:
        """What was swallowed meanwhile never arrives."""
        self._proxies[leader.name].cut_all()
        self._proxies[leader.name].chaos = None


def never_answered(request: web.Request) -> Fault:
    """A network that swallows what is sent."""

    async def fault(exchange: Exchange) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    return fault


@asynccontextmanager
async def failover_in(sandbox: Sandbox, directory: Path, seed: int) -> AsyncIterator[Failover]:
    async with AsyncExitStack() as stack:
        replicas = stack.enter_context(replicas_on(sandbox.cluster, directory, sandbox.namespace))
        yield Failover(sandbox, replicas, stack, seed)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{'-'.join(case[1])}-{case[0]}")
async def test_another_replica_continues_and_nothing_is_written_without_the_lease(
    sandbox: Sandbox, tmp_path: Path, say_at_the_end: SayAtTheEnd, case: Case
) -> None:
    seed, ways = case
    async with failover_in(sandbox, tmp_path, seed) as failover:
        await failover.run(ways)
    for way, seconds in failover.takeover_seconds.items():
        times = ", ".join(f"{each:.1f} s" for each in seconds)
        lease = f"a lease of {LEASE_SECONDS} s"
        say_at_the_end(f"Until another replica led after one was {way}, with {lease}: {times}")


def answers(port: int, path: str) -> bool:
    context = ssl._create_unverified_context()
    try:
        with urllib.request.urlopen(f"https://127.0.0.1:{port}{path}", context=context) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def writes_of(cluster: TestCluster, name: str) -> list[str]:
    return [
        f"{event['verb']} {event['requestURI']}"
        for event in cluster.audited("")
        if event["user"]["username"] == USER + name and event["verb"] in MUTATING
    ]


def test_a_replica_that_does_not_lead_serves_the_extender_and_writes_nothing(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    with replicas_on(sandbox.cluster, tmp_path, sandbox.namespace) as replicas:
        check_standby(replicas, tmp_path)


def check_standby(replicas: Replicas, directory: Path) -> None:
    replicas.start().wait_for("Finished a round")
    (port,) = pick_ports(1)
    write_certificates(directory / "tls")
    standby = replicas.start(
        *("--serve", f"127.0.0.1:{port}", "--certificates", directory / "tls"),
    )
    standby.wait_for("Waiting for the lease")
    wait_until(lambda: answers(port, "/readyz"), what="the standby is ready to serve")
    assert writes_of(replicas.cluster, standby.name) == []
    standby.signal(signal.SIGTERM)
    assert standby.process.wait(60) == 0
    assert writes_of(replicas.cluster, standby.name) == []
