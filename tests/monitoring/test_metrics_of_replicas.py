"""A controller that moves pods is scraped over HTTP, and its metrics say what has happened."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from rescheduler.monitoring.metrics.definitions import ALL
from testcluster.ports import pick_ports
from testcluster.waiting import wait_until
from tests.conftest import FreshCluster, new_sandbox, serve_migrations
from tests.controller.test_planning_loop import set_maintenance
from tests.leader_election.replicas import POLICY, Replicas, replicas_on
from tests.migration.support import Sandbox, node_of
from tests.monitoring.scraping import Scrape, page, scrape, undefined

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


@pytest.fixture
def sandbox(fresh_cluster: FreshCluster) -> Iterator[Sandbox]:
    """In a cluster of its own: all Migrations are counted, also those that other tests left."""
    cluster = fresh_cluster()
    serve_migrations(cluster)
    with new_sandbox(cluster) as made:
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
