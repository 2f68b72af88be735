"""Programs are scraped over HTTP, and their metrics say what has happened.

A controller moves pods; `serve` is asked by a scheduler and an API server. Both have one cluster to
themselves, for they count all Migrations, also those that other tests leave.
"""

import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import msgspec
import pytest
from cryptography import x509

from rescheduler.extender.webhook.registration import WEBHOOK_PATH
from rescheduler.monitoring.metrics.definitions import ALL
from testcluster import TestCluster
from testcluster.builders import pod
from testcluster.client import JsonObject
from testcluster.ports import pick_ports
from testcluster.prometheus import PrometheusPrograms
from testcluster.serving import client_context, write_certificates
from testcluster.waiting import wait_until
from tests.conftest import SayAtTheEnd, failed, new_sandbox, serve_migrations, stop
from tests.controller.test_planning_loop import set_maintenance
from tests.leader_election.replicas import POLICY, Replicas, replicas_on
from tests.migration.support import Sandbox, node_of
from tests.monitoring.scraping import Scrape, complaints, page, scrape, undefined

PODS = 3
QUICK_POLICY = POLICY + "reschedulingInterval: 2s\n"
OF_THE_LEADER = (
    "last_round_timestamp_seconds",
    "planned_moves",
    "objective",
    "pods_to_drain",
    "migrations",
    "queue_depth",
)


@pytest.fixture(scope="module")
def counted(
    request: pytest.FixtureRequest, binary: Path, say_at_the_end: SayAtTheEnd
) -> Iterator[TestCluster]:
    """A cluster with no Migrations but those of this file."""
    cluster = TestCluster()
    cluster.start()
    serve_migrations(cluster)
    yield cluster
    stop(cluster, say_at_the_end, keep_logs=request.session.stash.get(failed, False))


@pytest.fixture
def sandbox(counted: TestCluster) -> Iterator[Sandbox]:
    with new_sandbox(counted) as made:
        yield made


@pytest.fixture
def replicas(sandbox: Sandbox, tmp_path: Path) -> Iterator[Replicas]:
    with replicas_on(sandbox.cluster, tmp_path, sandbox.namespace) as found:
        yield found


def test_metrics_say_what_the_leader_did_and_the_standby_did_not(
    replicas: Replicas, sandbox: Sandbox, tmp_path: Path
) -> None:
    sandbox.add_nodes("a")
    pods = sandbox.deploy("web", PODS)
    sandbox.add_nodes("b")
    ports = pick_ports(2)
    (tmp_path / "policy.yaml").write_text(QUICK_POLICY)
    leader = replicas.start(f"--health=127.0.0.1:{ports[0]}")
    wait_until(lambda: page(ports[0], "/readyz")[0] == 200, what="the first is ready")
    wait_until(lambda: scrape(ports[0]).value("leader") == 1, what="the first leads")
    replicas.start(f"--health=127.0.0.1:{ports[1]}")
    wait_until(lambda: page(ports[1], "/readyz")[0] == 200, what="the second is ready")
    set_maintenance(sandbox, node_of(pods[0]), "true")
    wait_until(
        lambda: finished(scrape(ports[0])) == PODS, what="metrics show that all pods were moved"
    )
    # The plan that finds nothing more to do.
    wait_until(
        lambda: scrape(ports[0]).value("plan_idle", reason="OnlyPodsOfNodes"), what="an idle plan"
    )
    check_leader(scrape(ports[0]))
    check_standby(scrape(ports[1]))
    for port in ports:
        assert page(port, "/healthz") == (200, "ok\n")
        assert undefined(scrape(port), ALL) == []
    check_reload(ports[0], tmp_path / "policy.yaml")
    leader.signal(signal.SIGTERM)
    wait_until(lambda: scrape(ports[1]).value("leader") == 1, what="the second takes over")
    assert scrape(ports[1]).value("leader_transitions_total") == 1
    wait_until(lambda: scrape(ports[1]).value("migrations", phase="Completed") == PODS)
    # It has moved nothing.
    assert finished(scrape(ports[1])) == 0


def finished(found: Scrape) -> float | None:
    return found.value("migrations_finished_total", mode="Handoff", outcome="Landed")


def check_leader(found: Scrape) -> None:
    requested = {"strategy": "NodeMaintenance", "mode": "Handoff"}
    assert found.value("moves_requested_total") == PODS
    assert found.value("moves_requested_total", **requested) == PODS
    assert found.value("migrations_finished_total") == PODS
    assert found.value("migrations", phase="Completed") == PODS
    assert found.value("migrations", phase="InProgress") == 0
    assert found.value("oldest_migration_seconds") == 0
    assert found.value("migration_duration_seconds_count", outcome="Landed") == PODS
    for step in ("Starting", "HandingOver"):
        assert found.value("migration_step_duration_seconds_count", step=step) == PODS
    planned = found.value("rounds_total", result="planned") or 0
    assert planned >= 2
    assert found.value("rounds_total", result="failed") == 0
    for stage in ("read", "plan", "ask"):
        assert found.value("round_duration_seconds_count", stage=stage) == planned
    assert found.value("pods_to_drain", plan="before") == 0
    created = {"verb": "create", "resource": "migrations", "code": "201"}
    assert found.value("api_requests_total", **created) == PODS
    assert found.value("api_requests_total", verb="patch", resource="leases", code="200")
    assert found.value("api_requests_total", verb="watch", resource="pods", code="200")
    assert found.value("api_requests_total", verb="list", resource="nodes", code="200")
    assert found.value("api_request_duration_seconds_count", verb="create")
    assert found.value("watch_lag_seconds", resource="pods") is not None
    assert found.value("cache_age_seconds") is not None
    assert (found.value("leader"), found.value("leader_transitions_total")) == (1, 1)
    for name in OF_THE_LEADER:
        assert found.value(name) is not None, name


def check_standby(found: Scrape) -> None:
    assert (found.value("leader"), found.value("leader_transitions_total")) == (0, 0)
    assert found.value("rounds_total") == 0
    assert found.value("moves_requested_total") == 0
    assert found.value("cache_age_seconds") is not None
    for name in OF_THE_LEADER:
        assert found.value(name) is None, name


def check_reload(port: int, policy: Path) -> None:
    """A policy that is rejected shows, and so does one that is accepted."""
    before = scrape(port)
    policy.write_text("enabledStrategies: [NoSuchStrategy]")
    wait_until(lambda: scrape(port).value("policy_last_reload_successful") == 0, what="a rejection")
    assert hash_of(scrape(port)) == hash_of(before)
    policy.write_text(QUICK_POLICY + "maxReschedulePods: 3\n")
    wait_until(lambda: scrape(port).value("policy_last_reload_successful") == 1, what="a reload")
    after = scrape(port)
    assert hash_of(after) != hash_of(before)
    name = "policy_last_reload_timestamp_seconds"
    assert (after.value(name) or 0) > (before.value(name) or 0)


def hash_of(found: Scrape) -> str:
    (family,) = (each for each in found.families if each.name == "rescheduler_policy_info")
    return family.samples[0].labels["hash"]


# ---------------------------------------------------------------- serve


def test_metrics_count_requests_and_know_the_certificate(
    sandbox: Sandbox, prometheus_programs: PrometheusPrograms, tmp_path: Path
) -> None:
    reserve_room(sandbox)
    bundle = write_certificates(tmp_path)
    port, health = pick_ports(2)
    program = Path(sys.executable).with_name("rescheduler")
    arguments = [
        f"--kubeconfig={sandbox.cluster.kubeconfig}",
        f"--listen=127.0.0.1:{port}",
        f"--certificates={tmp_path}",
        f"--client-ca={tmp_path / 'ca.crt'}",
        f"--health=127.0.0.1:{health}",
    ]
    with subprocess.Popen([program, "serve", *arguments], stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: page(health, "/readyz") == (200, "ok\n"), what="it is ready")
            ask_and_check(port, health, tmp_path, bundle.serving.certificate)
            _, metrics = page(health, "/metrics")
            assert complaints(prometheus_programs, metrics.encode()) == ""
        finally:
            process.terminate()


def reserve_room(sandbox: Sandbox) -> None:
    """A Migration that somebody is carrying out, whose pod is still on its way."""
    sandbox.add_nodes("a")
    (old,) = sandbox.deploy("web", 1)
    (target,) = sandbox.add_nodes("b")
    path = sandbox.path("migrations", sandbox.migrate(old, target, mode="Evict"))
    status = {"phase": "InProgress", "mode": "Evict", "step": "Evicting", "attempts": 1}
    sandbox.outside.patch(f"{path}/status", {"status": {**status, "sourceNode": node_of(old)}})


def ask_and_check(port: int, health: int, certificates: Path, serving: bytes) -> None:
    context = client_context(certificates)
    url = f"https://127.0.0.1:{port}"
    args = {"Pod": pod("shop/web"), "NodeNames": ["a"]}
    for verb in ("filter", "prioritize"):
        assert post(f"{url}/extender/{verb}", args, context) == 200
    assert post(f"{url}/extender/filter", "nonsense", context) == 400
    assert post(f"{url}{WEBHOOK_PATH}", {}, context) == 400
    assert post(f"{url}/no/such/path", {}, context) == 404
    found = scrape(health)
    counted = "extender_request_duration_seconds_count"
    assert found.value(counted, verb="filter", code="200") == 1
    assert found.value(counted, verb="filter", code="400") == 1
    assert found.value(counted, verb="prioritize", code="200") == 1
    assert found.value(counted) == 3
    assert found.value("webhook_request_duration_seconds_count", code="400") == 1
    assert found.value("reservations") == 1
    _, status = page(health, "/status")
    assert msgspec.json.decode(status)["reservations"]["forReplacements"] == 1
    expires = x509.load_pem_x509_certificate(serving).not_valid_after_utc.timestamp()
    assert found.value("certificate_expiry_timestamp_seconds") == pytest.approx(expires)
    assert found.value("cache_age_seconds") is not None
    assert found.value("leader") is None
    assert undefined(found, ALL) == []
    assert page(health, "/healthz") == (200, "ok\n")


def post(url: str, body: JsonObject | str, context: ssl.SSLContext) -> int:
    try:
        with urlopen(Request(url, msgspec.json.encode(body)), context=context) as response:
            status: int = response.status
            return status
    except HTTPError as error:
        return error.code
