"""A real Prometheus alerts for what is really wrong, and for nothing else.

Each installation has something wrong with it, except for one. All times of the rules are a sixtieth
of those that are shipped: a minute is a second.
"""

import asyncio
import http.client
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from typing import Any

import pytest
from aiohttp import web

from rescheduler.install.monitoring import alerts
from rescheduler.install.monitoring.alerts import ALERTS, Alert
from rescheduler.kube.live_store import MAX_STORE_AGE_SECONDS
from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import deployment, pod, statefulset
from testcluster.client import JsonObject
from testcluster.ports import pick_ports
from testcluster.prometheus import Prometheus, PrometheusPrograms
from testcluster.serving import client_context, write_certificates
from testcluster.waiting import wait_until
from tests.conftest import FreshCluster, new_sandbox, serve_migrations
from tests.controller.test_planning_loop import set_maintenance
from tests.extender.test_http_server import PATHS
from tests.kube.faultproxy import (
    FaultProxy,
    answer_with,
    is_watch,
)
from tests.migration.support import Sandbox, node_of, set_running
from tests.monitoring.replica_process import ReplicaProcess
from tests.plugin_site import Site

pytestmark = pytest.mark.long

QUIET = "enabledStrategies: [ResourceOptimization]\nreschedulingInterval: 1s\n"
DRAINING = "enabledStrategies: [NodeMaintenance]\nreschedulingInterval: 1s\n"
IMPATIENT = DRAINING + "migration: {timeout: 2s, maxRetries: 0, maxPerNode: 10}\n"
WITH_PLUGIN = "enabledStrategies: [Packing]\nreschedulingInterval: 1s\n"
PLUGIN = """
import time

from rescheduler.planning.strategies.strategy import Strategy


class Packing(Strategy):
    name = "Packing"

    def nodes_to_relieve(self, used, movable):
        {code}
"""
PODS = 3
# Of 90 days; certificates should have been renewed when they were 60 days old.
AGE_OF_CERTIFICATES = timedelta(days=75)
# kube-scheduler waits for half a second.
HALT_SECONDS = 0.6
# A busy machine answers within this time. The shortest windows of the rules are of five seconds.
SCRAPE_SECONDS = 2.0
# The slowest is the alert about an old view of the cluster.
TIMEOUT_SECONDS = 300

EXPECTED: dict[str, set[Alert]] = {
    "healthy": set(),
    "leaderless": {alerts.NO_LEADER},
    "two-leaders": {alerts.TWO_LEADERS},
    "restarting": {alerts.RESTARTING},
    "missing-right": {alerts.CACHE_STALE},
    "failing-server": {alerts.API_ERRORS},
    # No round ends with a plan in these two.
    "failing-rounds": {alerts.ROUNDS_FAILING, alerts.ROUNDS_STOPPED},
    "endless-round": {alerts.ROUNDS_STOPPED},
    "blocked": {alerts.NOTHING_PLANNED, alerts.POLICY_RELOAD_FAILED},
    "slow": {alerts.EXTENDER_SLOW, alerts.WEBHOOK_SLOW, alerts.CERTIFICATE_OLD},
    "troubled": {alerts.WRITES_REFUSED, alerts.MIGRATION_STUCK, alerts.MOVES_FAILING},
}
"""By installation. ReschedulerAbsent is about none of them."""


# ---------------------------------------------------------------- rules with short times


def short_rules(directory: Path) -> Path:
    """All alert rules, with times that a test can wait for."""
    rules = [
        alert.rule | {"expr": with_short_times(alert.expression), "for": short_time(alert.lasting)}
        for alert in ALERTS
    ]
    file = directory / "rules.json"
    file.write_text(json.dumps({"groups": [{"name": "short", "rules": rules}]}))
    return file


def with_short_times(expression: str) -> str:
    """Its windows, and its limits for what takes minutes."""
    expression = re.sub(
        r"(\[|:|offset )(\d+[mh])\b", lambda found: found[1] + short_time(found[2]), expression
    )
    for limit in ("900", "1800"):
        expression = re.sub(rf"> {limit}$", f"> {int(limit) // 60}", expression)
    # On a quiet day, watches are up to 75 seconds old.
    return re.sub(rf"> {MAX_STORE_AGE_SECONDS:g}$", "> 100", expression)


def short_time(time: str) -> str:
    """A second for a minute: `15m` becomes `15s`."""
    minutes = {"m": 1, "h": 60}[time[-1]]
    return f"{int(time[:-1]) * minutes}s"


# ---------------------------------------------------------------- what is wrong


class Installations:
    """The replicas of every installation; `cluster` is that of those that move nothing."""

    def __init__(self, directory: Path, cluster: TestCluster, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.replicas: dict[str, list[ReplicaProcess]] = {}
        self._directory = directory
        self._cluster = cluster

    def add(
        self, name: str, policy: str = QUIET, cluster: TestCluster | None = None, url: str = ""
    ) -> ReplicaProcess:
        """A replica that is not started yet; with a URL, something is in front of its cluster."""
        found = self.replicas.setdefault(name, [])
        where = cluster or self._cluster
        directory = self._directory / f"{name}-{len(found)}"
        found.append(ReplicaProcess(directory, policy, where, url))
        return found[-1]

    def add_leader(self, name: str, policy: str = QUIET, **options: Any) -> ReplicaProcess:
        """One that leads by a Lease of its own."""
        replica = self.add(name, policy, **options)
        replica.start("run", *self.lease(name))
        wait_until(replica.leads, what=f"{name} leads")
        return replica

    def lease(self, name: str) -> tuple[str, str]:
        number = len(self.replicas[name])
        return "--leader-election-lease", f"default/{name}-{number}"

    def addresses(self) -> dict[str, list[str]]:
        return {name: [one.address for one in found] for name, found in self.replicas.items()}

    def kill(self) -> None:
        for found in self.replicas.values():
            for replica in found:
                replica.kill()


def start_healthy(installations: Installations, sandbox: Sandbox) -> None:
    """It moves some pods, and all goes well."""
    sandbox.add_nodes("a")
    source = node_of(sandbox.deploy("web", PODS)[0])
    sandbox.add_nodes("b")
    set_maintenance(sandbox, source, "true")
    installations.add_leader("healthy", DRAINING, cluster=sandbox.cluster)


def start_leaderless(installations: Installations, cluster: TestCluster) -> None:
    """Somebody else has the Lease."""
    replica = installations.add("leaderless")
    _, key = lease = installations.lease("leaderless")
    namespace, _, name = key.partition("/")
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    held = {"holderIdentity": "nobody", "leaseDurationSeconds": 3600, "renewTime": now}
    metadata = {"namespace": namespace, "name": name}
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
    apply(cluster, body | {"spec": held})
    replica.start("run", *lease)
    wait_until(replica.is_ready, what="it is ready")


def start_with_plugin(installations: Installations, directory: Path, name: str, code: str) -> None:
    """A strategy of other people keeps rounds from ending with a plan."""
    directory.mkdir()
    Site(directory).install("acme-packing", PLUGIN.format(code=code))
    replica = installations.add(name, WITH_PLUGIN)
    replica.start("run", *installations.lease(name), plugins=directory)
    wait_until(replica.leads, what=f"{name} leads")


def start_blocked(installations: Installations) -> None:
    """A pod that may not be moved is on a node under maintenance, and the policy is spoiled."""
    sandbox = installations.sandbox
    (node,) = sandbox.add_nodes("blocked")
    apply(sandbox.cluster, pod(f"{sandbox.namespace}/alone", on=node))
    set_maintenance(sandbox, node, "true")
    replica = installations.add_leader("blocked", DRAINING)
    replica.policy.write_text("enabledStrategies: [NoSuchStrategy]")


class Trouble:
    """Moves are refused in one namespace, fail in another, and do not end in a third."""

    def __init__(self, cluster: TestCluster, stack: ExitStack) -> None:
        refused, failing, stuck = (stack.enter_context(new_sandbox(cluster)) for _ in range(3))
        quota = {"hard": {"count/migrations.rescheduler.dev": "0"}}
        body = {"metadata": {"name": "none"}, "spec": quota}
        refused.outside.create(refused.path("resourcequotas"), body)
        self._sources = [
            # Pods of nodes that nobody plays do not stop, and do not get Ready.
            fill(stuck, statefulset, has_kubelet=False),
            fill(failing, deployment),
            fill(refused, deployment),
        ]
        failing.add_nodes("b", managed=False)
        for sandbox in (stuck, refused):
            sandbox.add_nodes("b")

    def begin(self) -> None:
        """Have all pods moved."""
        for sandbox, source in self._sources:
            set_maintenance(sandbox, source, "true")


def fill(
    sandbox: Sandbox, workload: Callable[..., JsonObject], has_kubelet: bool = True
) -> tuple[Sandbox, str]:
    """A node with pods of a workload, which are Ready; the sandbox and the node's name."""
    (node,) = sandbox.add_nodes("a", managed=has_kubelet)
    key = f"{sandbox.namespace}/web"
    apply(sandbox.cluster, workload(key, PODS, "100m", template=sandbox.here()))
    if not has_kubelet:
        wait_until(lambda: len(placed(sandbox)) == PODS, what="all pods are placed")
        for found in placed(sandbox):
            set_running(sandbox, found)
    sandbox.wait_ready("web", PODS)
    return sandbox, node


def placed(sandbox: Sandbox) -> list[JsonObject]:
    return [found for found in sandbox.pods() if node_of(found)]


@contextmanager
def slow_answers(installations: Installations, directory: Path) -> Iterator[None]:
    """A replica with old certificates is halted in the midst of every answer, as by a CPU limit."""
    write_certificates(directory, age=AGE_OF_CERTIFICATES)
    (port,) = pick_ports(1)
    replica = installations.add("slow")
    files = ("--certificates", directory, "--client-ca", directory / "ca.crt")
    replica.start("serve", "--listen", f"127.0.0.1:{port}", *files)
    wait_until(replica.is_ready, what="it is ready")
    ended = threading.Event()

    def ask() -> None:
        context = client_context(directory)
        while not ended.is_set():
            for path in ("/extender/filter", "/webhook/pods"):
                asked = http.client.HTTPSConnection("127.0.0.1", port, context=context)
                ask_slowly(asked, path, replica, ended)
                asked.close()

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield
    finally:
        ended.set()
        asking.join()


def ask_slowly(
    connection: http.client.HTTPSConnection,
    path: str,
    replica: ReplicaProcess,
    ended: threading.Event,
) -> None:
    body = json.dumps(PATHS[path]).encode()
    connection.putrequest("POST", path)
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", str(len(body)))
    connection.endheaders()
    # It has begun to answer, and is then halted.
    ended.wait(HALT_SECONDS / 10)
    replica.process.send_signal(SIGSTOP)
    ended.wait(HALT_SECONDS)
    replica.process.send_signal(SIGCONT)
    connection.send(body)
    assert connection.getresponse().status == 200


def restart(replica: ReplicaProcess, prometheus: Prometheus) -> None:
    """Start it again and again, as soon as Prometheus has seen that it was started."""
    for times in range(4):
        wait_until(partial(was_restarted, prometheus, times), what=f"start {times} is seen")
        replica.kill()
        replica.start("run", "--dry-run")


def was_restarted(prometheus: Prometheus, times: int) -> bool:
    changes = 'changes(process_start_time_seconds{namespace="restarting"}[1h])'
    return value_of(prometheus, changes) == times


def value_of(prometheus: Prometheus, query: str) -> float | None:
    found = prometheus.query(query)
    return float(found[0]["value"][1]) if found else None


# ---------------------------------------------------------------- the alerts


class FaultyServers:
    """Two proxies in front of an API server: one takes a right away, and one fails often."""

    def __init__(self, refusing: FaultProxy, failing: FaultProxy) -> None:
        self.refusing_url, self.failing_url = refusing.url, failing.url
        self._refusing, self._failing = refusing, failing
        self._loop = asyncio.get_running_loop()
        self._numbers = count()

    def begin(self) -> None:
        """From now on, pods may not be listed or watched; and one request in three fails."""
        self._refusing.chaos = lambda request: answer_with(403) if is_about_pods(request) else None
        self._failing.chaos = lambda request: (
            answer_with(503) if self._is_to_fail(request) else None
        )
        # The watches that are open go on otherwise.
        self._loop.call_soon_threadsafe(self._refusing.cut_all)

    def _is_to_fail(self, request: web.Request) -> bool:
        return not is_watch(request) and next(self._numbers) % 3 == 0


def is_about_pods(request: web.Request) -> bool:
    return request.path == "/api/v1/pods"


# Two of them are of one installation; nobody leads in a dry run, and `serve` never does.
LEADERS, LEADING = "sum(rescheduler_leader)", 9


async def test_each_alert_fires_for_its_cause_and_no_other_does(
    sandbox: Sandbox,
    fresh_cluster: FreshCluster,
    prometheus_programs: PrometheusPrograms,
    tmp_path: Path,
) -> None:
    quiet, troubled = fresh_cluster(), fresh_cluster()
    for cluster in (quiet, troubled):
        serve_migrations(cluster)
    proxied = (quiet.server, str(quiet.ca_file), quiet.admin_token)
    async with FaultProxy(*proxied) as refusing, FaultProxy(*proxied) as failing:
        faulty = FaultyServers(refusing, failing)
        with ExitStack() as stack:
            namespace = stack.enter_context(new_sandbox(quiet))
            installations = Installations(tmp_path, quiet, namespace)
            stack.callback(installations.kill)

            def play() -> None:
                start_healthy(installations, sandbox)
                start_leaderless(installations, quiet)
                for _ in range(2):
                    installations.add_leader("two-leaders")
                installations.add_leader("missing-right", url=faulty.refusing_url)
                installations.add_leader("failing-server", url=faulty.failing_url)
                start_with_plugin(
                    installations, tmp_path / "one", "failing-rounds", "raise OSError"
                )
                endless = "time.sleep(3600)"
                start_with_plugin(installations, tmp_path / "two", "endless-round", endless)
                start_blocked(installations)
                trouble = Trouble(troubled, stack)
                installations.add_leader("troubled", IMPATIENT, cluster=troubled)
                restarting = installations.add("restarting")
                restarting.start("run", "--dry-run")
                stack.enter_context(slow_answers(installations, tmp_path / "certificates"))
                rules = short_rules(tmp_path)
                scraped = installations.addresses()
                prometheus = Prometheus(
                    prometheus_programs, tmp_path, scraped, rules, SCRAPE_SECONDS
                )
                with prometheus:
                    # Counters that have counted before are no increase.
                    wait_until(lambda: value_of(prometheus, LEADERS) == LEADING, what="all lead")
                    faulty.begin()
                    trouble.begin()
                    restart(restarting, prometheus)
                    expected = {
                        (name, alert.name) for name, found in EXPECTED.items() for alert in found
                    }
                    wait_until_fired(prometheus, expected)
                    assert fired(prometheus) == expected
                    done = 'rescheduler_migrations_finished_total{namespace="healthy"}'
                    assert value_of(prometheus, f"sum({done})") == PODS

            await asyncio.to_thread(play)


def wait_until_fired(prometheus: Prometheus, expected: set[tuple[str, str]]) -> None:
    try:
        wait_until(lambda: expected <= fired(prometheus), TIMEOUT_SECONDS, "all alerts have fired")
    except AssertionError as error:
        error.add_note(f"not fired: {expected - fired(prometheus)}")
        raise


def fired(prometheus: Prometheus) -> set[tuple[str, str]]:
    """Which alerts have fired so far, with the installations that they were about."""
    ever = 'count by (namespace, alertname) (count_over_time(ALERTS{alertstate="firing"}[1h]))'
    found = [sample["metric"] for sample in prometheus.query(ever)]
    return {(labels.get("namespace", ""), labels["alertname"]) for labels in found}


def test_an_alert_fires_where_there_is_nothing(
    prometheus_programs: PrometheusPrograms, tmp_path: Path
) -> None:
    (port,) = pick_ports(1)
    nobody = {"nobody": [f"127.0.0.1:{port}"]}
    with Prometheus(prometheus_programs, tmp_path, nobody, short_rules(tmp_path)) as prometheus:
        wait_until(lambda: fired(prometheus), what="an alert fires")
        assert fired(prometheus) == {("", alerts.ABSENT.name)}


def test_every_alert_is_expected_somewhere() -> None:
    expected = {alert.name for found in EXPECTED.values() for alert in found}
    assert expected | {alerts.ABSENT.name} == {alert.name for alert in ALERTS}
