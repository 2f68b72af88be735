"""The migration controller as a whole: limits, restarts, deletions and leftovers."""

import asyncio

import msgspec

from rescheduler.controller.change_handlers import WorkItem
from rescheduler.labels import PLACING_GATE
from rescheduler.migration.state_machine.eviction import budget_name
from rescheduler.settings import Limit
from testcluster.applying import apply
from testcluster.builders import budget
from testcluster.client import JsonObject
from tests.kube.faultproxy import FaultProxy, answer_with
from tests.migration.support import (
    COST,
    ID,
    QUICK_OPTIONS,
    STATUS,
    Sandbox,
    controller_on,
    is_ready,
    node_of,
    other_node,
)

ONE_AT_A_TIME = msgspec.structs.replace(QUICK_OPTIONS, max_in_flight=1)


async def test_pending_migrations_do_not_block_each_other(sandbox: Sandbox) -> None:
    """Only one may be in flight, and the first two in the queue cannot start."""
    sandbox.add_nodes("a")
    pods = sandbox.deploy("web", 3)
    (target,) = sandbox.add_nodes("b")
    sandbox.migrate(pods[0], target, "first-is-paused", paused=True)
    sandbox.migrate(pods[1], f"{sandbox.namespace}-nowhere", "second-has-no-target")
    async with controller_on(sandbox.cluster, ONE_AT_A_TIME):
        name = sandbox.migrate(pods[2], target, "third")
        (status,) = await sandbox.finished(name)
    assert status["outcome"] == "Landed"
    assert sandbox.status("first-is-paused")["phase"] == "Pending"


async def test_what_the_server_refuses_is_known_with_its_answer_until_it_succeeds(
    sandbox: Sandbox,
) -> None:
    sandbox.add_nodes("a", "b")
    (pod,) = sandbox.deploy("web", 1)
    name = "refused"
    item = WorkItem("Migration", f"{sandbox.namespace}/{name}")
    refusal = answer_with(403, '{"kind":"Status","code":403,"message":"frozen until Monday"}')
    cluster = sandbox.cluster
    async with (
        FaultProxy(cluster.server, str(cluster.ca_file), cluster.admin_token) as proxy,
        controller_on(cluster, server=proxy.url) as controller,
    ):
        proxy.chaos = lambda request: refusal if request.path.endswith(f"/{name}/status") else None
        sandbox.migrate(pod, other_node(sandbox, pod), name)
        await sandbox.until(lambda: item in controller.failing, "it has failed")
        assert "frozen until Monday" in controller.failing[item]
        proxy.chaos = None
        await sandbox.finished(name)
        await sandbox.until(lambda: item not in controller.failing, "it fails no more")


async def test_no_more_are_in_flight_than_allowed(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a")
    pods = sandbox.deploy("web", 6)
    (target,) = sandbox.add_nodes("b")
    options = msgspec.structs.replace(
        QUICK_OPTIONS,
        max_in_flight=2,
        max_per_namespace=Limit("100%"),
        max_per_workload=Limit("100%"),
    )
    in_flight: set[str] = set()
    most = 0

    def count(point: str, key: str) -> None:
        nonlocal most
        if point == "before-start":
            in_flight.add(key)
        if point == "after-finish":
            in_flight.discard(key)
        most = max(most, len(in_flight))

    async with controller_on(sandbox.cluster, options, reached=count):
        names = [sandbox.migrate(pod, target) for pod in pods]
        statuses = await sandbox.finished(*names)
    assert {status["outcome"] for status in statuses} == {"Landed"}
    assert most == 2


async def test_a_deleted_migration_leaves_every_queue(sandbox: Sandbox) -> None:
    """The one in flight is deleted, and so is one that waits: the slot is free for the third."""
    sandbox.add_nodes("a")
    pods = sandbox.deploy("web", 3)
    (stuck,) = sandbox.add_nodes("stuck", managed=False)
    (target,) = sandbox.add_nodes("b")
    async with controller_on(sandbox.cluster, ONE_AT_A_TIME) as controller:
        first = sandbox.migrate(pods[0], stuck, "a-first")
        await sandbox.until(lambda: sandbox.status(first).get("newPod"), "the first is in flight")
        second = sandbox.migrate(pods[1], target, "b-second")
        third = sandbox.migrate(pods[2], target, "c-third")
        sandbox.outside.delete(sandbox.path("migrations", second))
        sandbox.outside.delete(sandbox.path("migrations", first))
        (status,) = await sandbox.finished(third)
        await sandbox.until(lambda: not sandbox.leftovers(), "the first was rolled back")
        await sandbox.until(lambda: controller.in_flight == 0, "nothing is in flight")
    assert status["outcome"] == "Landed"
    kept = {pod["metadata"]["name"] for pod in sandbox.pods("web")}
    assert {pods[0]["metadata"]["name"], pods[1]["metadata"]["name"]} <= kept


async def test_a_restart_continues_migrations_in_flight(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a")
    (old,) = sandbox.deploy("web", 1)
    (target,) = sandbox.add_nodes("b", managed=False)
    async with controller_on(sandbox.cluster):
        name = sandbox.migrate(old, target)
        await sandbox.until(lambda: sandbox.status(name).get("newPod"), "it is in flight")
        new = sandbox.status(name)["newPod"]
        await sandbox.until(
            lambda: node_of(sandbox.pod(new) or {"spec": {}}) == target, "it is bound"
        )
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {"phase": "Running", "conditions": [ready]}
    sandbox.outside.patch(sandbox.path("pods", new) + "/status", {"status": status})
    async with controller_on(sandbox.cluster):
        (ended,) = await sandbox.finished(name)
    assert (ended["outcome"], ended["newPod"], ended["attempts"]) == ("Landed", new, 1)


async def test_leftovers_of_any_age_are_cleaned_up_and_nothing_else_is_changed(
    sandbox: Sandbox,
) -> None:
    sandbox.add_nodes("a")
    pods = sandbox.deploy("web", 2)
    leftover, users = pods
    annotate(
        sandbox, leftover, {COST: "-2147483647", "rescheduler.dev/previous-deletion-cost": "3"}
    )
    label(sandbox, leftover, {ID: "long-gone", STATUS: "in-progress"})
    annotate(sandbox, users, {COST: "-2147483647"})
    orphan = unadopted(sandbox, pods[0])
    apply(sandbox.cluster, orphan)
    name = budget_name("long-gone")
    temporary = budget(f"{sandbox.namespace}/{name}", max_unavailable=1, selector={"app": "x"})
    temporary["metadata"]["labels"] = {ID: "long-gone"}
    apply(sandbox.cluster, temporary, budget(f"{sandbox.namespace}/users", max_unavailable=1))
    async with controller_on(sandbox.cluster):
        await sandbox.until(
            lambda: len(sandbox.all("poddisruptionbudgets")) == 1, "one budget left"
        )
        await sandbox.until(lambda: sandbox.pod("web-orphan") is None, "the orphan is deleted")
        await sandbox.until(lambda: cost_of(sandbox, leftover) == "3", "the cost is restored")
    assert cost_of(sandbox, users) == "-2147483647"
    assert ID not in (sandbox.pod(leftover["metadata"]["name"]) or {})["metadata"]["labels"]
    assert sandbox.all("poddisruptionbudgets")[0]["metadata"]["name"] == "users"
    assert sum(map(is_ready, sandbox.pods("web"))) == 2


def cost_of(sandbox: Sandbox, pod: JsonObject) -> str | None:
    found = sandbox.pod(pod["metadata"]["name"])
    assert found is not None
    cost: str | None = found["metadata"].get("annotations", {}).get(COST)
    return cost


def annotate(sandbox: Sandbox, pod: JsonObject, notes: dict[str, str]) -> None:
    path = sandbox.path("pods", pod["metadata"]["name"])
    sandbox.outside.patch(path, {"metadata": {"annotations": notes}})


def label(sandbox: Sandbox, pod: JsonObject, labels: dict[str, str]) -> None:
    path = sandbox.path("pods", pod["metadata"]["name"])
    sandbox.outside.patch(path, {"metadata": {"labels": labels}})


def unadopted(sandbox: Sandbox, like: JsonObject) -> JsonObject:
    """A new pod whose migration no longer exists."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-orphan",
            "namespace": sandbox.namespace,
            "labels": {"app": "web", ID: "long-gone", STATUS: "in-progress"},
            "annotations": {
                "rescheduler.dev/migration": "long-gone",
                "scheduler.alpha.kubernetes.io/original-pod": like["metadata"]["uid"],
            },
        },
        "spec": {
            "containers": [{"name": "app", "image": "x"}],
            # Nobody can add one to a pod that exists.
            "schedulingGates": [{"name": PLACING_GATE}],
            **sandbox.here(),
        },
    }


async def test_finished_migrations_are_deleted_after_their_time(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a", "b")
    (old,) = sandbox.deploy("web", 1)
    async with controller_on(sandbox.cluster):
        name = sandbox.migrate(old, other_node(sandbox, old), ttlSecondsAfterFinished=1)
        await sandbox.until(lambda: sandbox.get("migrations", name) is None, "it is deleted")
    (left,) = sandbox.pods("web")
    assert left["metadata"]["uid"] != old["metadata"]["uid"]


async def test_two_migrations_of_one_pod_move_it_once(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a")
    (old,) = sandbox.deploy("web", 1)
    targets = sandbox.add_nodes("b", "c")
    async with controller_on(sandbox.cluster):
        names = [sandbox.migrate(old, target, f"to-{target}") for target in targets]
        statuses = await sandbox.finished(*names)
    assert sorted(status["phase"] for status in statuses) == ["Cancelled", "Completed"], statuses
    assert len(sandbox.pods("web")) == 1
    assert sandbox.leftovers() == []


def running_workers() -> list[str]:
    names = [task.get_name() for task in asyncio.all_tasks()]
    return [name for name in names if name.startswith("migration worker")]


async def test_a_stopped_controller_ends_and_leaves_migrations_to_the_next(
    sandbox: Sandbox,
) -> None:
    sandbox.add_nodes("a")
    (old,) = sandbox.deploy("web", 1)
    (target,) = sandbox.add_nodes("b", managed=False)
    async with controller_on(sandbox.cluster) as controller:
        name = sandbox.migrate(old, target)
        await sandbox.until(lambda: sandbox.status(name).get("newPod"), "it is in flight")
        controller.stop()
        await sandbox.until(lambda: not running_workers(), "it has ended")
    assert sandbox.status(name)["phase"] == "InProgress"
