"""Times: whose clock counts, and from when."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from rescheduler.kube.clock import ServerClock
from testcluster.applying import apply
from testcluster.builders import job, statefulset
from tests.migration.support import (
    Sandbox,
    controller_on,
    is_ready,
    node_of,
    other_node,
    set_running,
)

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


class SkewedClock:
    """A clock that is off by so many minutes."""

    def __init__(self, minutes: float) -> None:
        self._off = timedelta(minutes=minutes)

    def now(self) -> datetime:
        return datetime.now(UTC) + self._off

    def seconds(self) -> float:
        return time.monotonic()


class FixedClock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.moment = NOW
        self.second = 0.0

    def now(self) -> datetime:
        return self.moment

    def seconds(self) -> float:
        return self.second


@pytest.mark.parametrize("minutes", [5, -5])
async def test_a_controller_whose_clock_is_off_moves_pods_all_the_same(
    sandbox: Sandbox, minutes: float
) -> None:
    sandbox.add_nodes("a", "b")
    (web,) = sandbox.deploy("web", 1, minReadySeconds=1)
    body = statefulset(f"{sandbox.namespace}/db", 1, "100m", template=sandbox.here())
    apply(sandbox.cluster, body)
    (db,) = sandbox.wait_ready("db", 1)
    async with controller_on(sandbox.cluster, clock=SkewedClock(minutes)):
        names = [sandbox.migrate(old, other_node(sandbox, old)) for old in (web, db)]
        handoff, eviction = await sandbox.finished(*names)
    assert handoff["outcome"] == "Landed", handoff
    assert (eviction["mode"], eviction["phase"]) == ("Evict", "Completed"), eviction
    assert all(map(is_ready, sandbox.pods()))


def test_a_difference_of_clocks_is_learned_from_the_answers_and_small_ones_do_not_count() -> None:
    own = FixedClock()
    clock = ServerClock(own)
    clock.observe("Thu, 01 Jan 2026 12:00:01 GMT")
    assert clock.now() == NOW
    own.second += 60
    clock.observe("Thu, 01 Jan 2026 12:05:00 GMT")
    assert clock.now() == NOW + timedelta(minutes=5)
    own.second += 60
    clock.observe("Thu, 01 Jan 2026 12:05:01 GMT")
    assert clock.now() == NOW + timedelta(minutes=5)
    own.second += 60
    clock.observe("Thu, 01 Jan 2026 11:59:59 GMT")
    assert clock.now() == NOW


@pytest.mark.parametrize("date", [None, "", "yesterday", "Thu, 99 Jan 2026 12:05:00 GMT"])
def test_an_answer_without_a_date_changes_nothing(date: str | None) -> None:
    clock = ServerClock(FixedClock())
    clock.observe(date)
    assert clock.now() == NOW


async def test_a_pod_that_finishes_while_its_eviction_waits_cancels_the_migration(
    sandbox: Sandbox,
) -> None:
    (home,) = sandbox.add_nodes("a", managed=False)
    body = job(f"{sandbox.namespace}/work", 1, "100m", template=sandbox.here())
    protection = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "work", "namespace": sandbox.namespace},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "work"}}},
    }
    apply(sandbox.cluster, body)
    await sandbox.until(lambda: home in map(node_of, sandbox.pods()), "it is bound")
    (old,) = sandbox.pods()
    set_running(sandbox, old)
    (target,) = sandbox.add_nodes("b")

    def protect(point: str, key: str) -> None:
        if point == "after-start":
            sandbox.outside.create(sandbox.path("poddisruptionbudgets"), protection)

    async with controller_on(sandbox.cluster, reached=protect):
        name = sandbox.migrate(old, target)
        await sandbox.until(
            lambda: sandbox.status(name).get("step") == "Evicting", "it has started"
        )
        path = sandbox.path("pods", old["metadata"]["name"])
        sandbox.outside.patch(f"{path}/status", {"status": {"phase": "Succeeded"}})
        (status,) = await sandbox.finished(name)
    assert (status["phase"], "has finished" in status["message"]) == ("Cancelled", True), status
    assert sandbox.leftovers() == []
