"""`/healthz` fails only if a restart would help, and `/readyz` says what is missing."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from rescheduler.controller.program import Program
from rescheduler.extender import extender_server
from rescheduler.extender.extender_server import ServeOptions
from rescheduler.extender.http_server import serving
from rescheduler.extender.serve_program import ServeProgram
from rescheduler.kube.client import Client, ClientSettings
from rescheduler.kube.live_store import LiveStore, cancel
from rescheduler.migration.migration_watches import MigrationWatches
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.monitoring.health import (
    PLAN_SECONDS,
    PLAN_TIMEOUTS,
    dead_task,
    endless_plan,
)
from rescheduler.monitoring.monitoring import Monitoring
from rescheduler.settings import Policy, Seconds
from rescheduler.simulation.cluster.cluster import SimulatedCluster
from testcluster import TestCluster
from testcluster.builders import node
from testcluster.ports import pick_ports
from testcluster.serving import write_certificates
from tests.kube.faultproxy import FaultProxy, cut_at_once
from tests.kube.support import QUICK_WATCH, credentials
from tests.migration.support import Sandbox, client_for
from tests.simulation.simulated_clusters import in_simulated_cluster


class Planner:
    """A program that has been planning for so long."""

    def __init__(self, seconds: float) -> None:
        self.policy = msgspec.structs.replace(Policy(), planning_timeout_seconds=Seconds(5))
        self._seconds = seconds

    def planning_seconds(self) -> float:
        return self._seconds


def test_a_plan_may_take_long_but_not_for_ever() -> None:
    longest = PLAN_SECONDS + 5 * PLAN_TIMEOUTS
    assert endless_plan(Planner(0)) == ""
    assert endless_plan(Planner(longest)) == ""
    assert endless_plan(Planner(longest + 1)) == (
        f"a plan has not ended for {longest + 1:.0f}s; planningTimeout is 5s"
    )


@asynccontextmanager
async def started(store: LiveStore) -> AsyncIterator[None]:
    store.start()
    try:
        yield
    finally:
        await store.stop()


async def test_a_watch_that_has_ended_is_a_reason_to_restart(
    cluster: TestCluster,
) -> None:
    async with client_for(cluster) as client:
        store = LiveStore(client, ClusterTables(), settings=QUICK_WATCH)
        async with started(store):
            await store.synced(60)
            assert (store.dead_watches(), store.why_not_current()) == ([], "")
            (task,) = (each for each in asyncio.all_tasks() if each.get_name() == "watch nodes")
            task.cancel()
            await asyncio.wait([task])
            assert store.dead_watches() == ["watch nodes"]
            program = Program(client, Policy())
            program.store = store
            assert dead_task(program) == "ended although it should run on: watch nodes"


@pytest.mark.parametrize("kind", ["Node", "Pod"])
async def test_without_a_server_a_program_is_well_but_not_ready(kind: str) -> None:
    (port,) = pick_ports(1)
    settings = ClientSettings(attempts=1)
    async with Client(credentials(f"http://127.0.0.1:{port}", "token"), settings) as client:
        store = LiveStore(client, ClusterTables(), settings=QUICK_WATCH)
        async with started(store):
            async with asyncio.timeout(60):
                while "(" not in (why := store.why_not_current()):
                    assert store.dead_watches() == []
                    await asyncio.sleep(0.01)
            assert why.startswith("the cluster is not loaded yet: no list of ")
            assert kind in why
            assert f"127.0.0.1:{port}" in why


async def test_both_ports_of_an_extender_say_what_is_missing(tmp_path: Path) -> None:
    bundle = write_certificates(tmp_path)
    port, health, nobody = pick_ports(3)
    options = ServeOptions("127.0.0.1", port, certificates=tmp_path)
    settings = ClientSettings(attempts=1)
    async with Client(credentials(f"http://127.0.0.1:{nobody}", "token"), settings) as client:
        monitoring = Monitoring(Policy(), serves=True)
        program = ServeProgram(client, Policy(), options)
        monitoring.watch_extender(program, ("127.0.0.1", health))
        running = asyncio.create_task(program.run())
        trust = ssl.create_default_context(cadata=bundle.trusted.decode())
        try:
            async with aiohttp.ClientSession() as session, asyncio.timeout(60):
                said = ""
                # The first errors come one after the other.
                while said != (
                    other := await refusal(session, f"http://127.0.0.1:{health}/readyz")
                ):
                    said = await refusal(session, f"https://127.0.0.1:{port}/readyz", trust)
            assert other.startswith("the cluster is not loaded yet: no list of ")
            assert f"127.0.0.1:{nobody}" in other
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_an_extender_is_not_ready_before_it_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = write_certificates(tmp_path)
    port, nobody = pick_ports(2)
    options = ServeOptions("127.0.0.1", port, certificates=tmp_path)
    before = []

    @asynccontextmanager
    async def observed(*arguments: Any) -> AsyncIterator[None]:
        before.append(program.extender.why_not_ready())
        async with serving(*arguments):
            yield

    monkeypatch.setattr(extender_server, "serving", observed)
    settings = ClientSettings(attempts=1)
    async with Client(credentials(f"http://127.0.0.1:{nobody}", "token"), settings) as client:
        program = ServeProgram(client, Policy(), options)
        running = asyncio.create_task(program.run())
        trust = ssl.create_default_context(cadata=bundle.trusted.decode())
        try:
            async with aiohttp.ClientSession() as session, asyncio.timeout(60):
                said = await refusal(session, f"https://127.0.0.1:{port}/readyz", trust)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    assert before == [extender_server.NOT_LISTENING]
    assert said.startswith("the cluster is not loaded yet: ")


async def test_an_extender_waits_for_the_secret_of_its_certificates_until_the_server_answers(
    sandbox: Sandbox,
) -> None:
    port, health = pick_ports(2)
    secret = f"{sandbox.namespace}/certificates"
    options = ServeOptions("127.0.0.1", port, secret=secret, names=["here"])
    cluster, settings = sandbox.cluster, ClientSettings(attempts=1)
    async with (
        FaultProxy(cluster.server, str(cluster.ca_file), cluster.admin_token) as proxy,
        Client(credentials(proxy.url, cluster.admin_token), settings) as client,
    ):
        proxy.chaos = lambda request: cut_at_once
        monitoring = Monitoring(Policy(), serves=True)
        program = ServeProgram(client, Policy(), options)
        monitoring.watch_extender(program, ("127.0.0.1", health))
        running = asyncio.create_task(program.run())
        try:
            async with aiohttp.ClientSession() as session, asyncio.timeout(60):
                said = await refusal(session, f"http://127.0.0.1:{health}/readyz")
                assert said.startswith("the certificates are not loaded yet (GET /api/v1/")
                async with session.get(f"http://127.0.0.1:{health}/healthz") as response:
                    assert response.status == 200, "a restart would not help"
                proxy.chaos = None
                while "certificates" in program.extender.why_not_ready():
                    assert not running.done()
                    await asyncio.sleep(0.01)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def refusal(session: aiohttp.ClientSession, url: str, trust: Any = True) -> str:
    """What a probe answers once it knows an error of the API server."""
    while True:
        try:
            async with session.get(url, ssl=trust) as response:
                text = await response.text()
                assert response.status == 503, text
                if "(" in text:
                    return text
        except aiohttp.ClientConnectionError:
            pass
        await asyncio.sleep(0.01)


def test_migrations_and_their_records_count_for_readiness_and_for_the_age_of_what_is_known() -> (
    None
):
    async def run(cluster: SimulatedCluster) -> None:
        tables = ClusterTables()
        store = LiveStore(cluster.server, tables, clock=cluster.clock.seconds)
        watches = MigrationWatches(cluster.server, store, tables, clock=cluster.clock.seconds)
        async with started(store):
            await store.synced()
            missing = "no list of Migration, Pod of a Migration so far"
            assert watches.why_not_loaded() == f"the cluster is not loaded yet: {missing}"
            assert watches.age() == store.age()
            tasks = [*watches.start(), asyncio.create_task(watches.memory.run())]
            await watches.synced()
            await watches.memory.was_read()
            assert watches.why_not_loaded() == ""
            assert {"migrations", "moverecords", "pods"} <= watches.ages().keys()
            listed = cluster.clock.seconds()
            await cancel(tasks)
            # Nodes come and are seen; Migrations are no longer watched.
            await asyncio.sleep(500)
            cluster.create(node("b"))
            await asyncio.sleep(1)
            assert watches.age() == cluster.clock.seconds() - listed
            assert watches.ages()["nodes"] < 60

    in_simulated_cluster([node("a")], run, settle=0)
