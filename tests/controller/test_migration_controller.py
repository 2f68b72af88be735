"""The migration controller as a whole: limits, restarts, deletions and leftovers."""

import msgspec

from rescheduler.settings import Limit
from testcluster.applying import apply
from testcluster.builders import budget
from testcluster.client import JsonObject
from tests.migration.support import (
    COST,
    ID,
    QUICK_OPTIONS,
    STATUS,
    Corner,
    controller_on,
    is_ready,
    node_of,
    other_node,
)

ONE_AT_A_TIME = msgspec.structs.replace(QUICK_OPTIONS, max_in_flight=1)


async def test_pending_migrations_do_not_block_each_other(corner: Corner) -> None:
    """Only one may be in flight, and the first two in the queue cannot start."""
    corner.add_nodes("a")
    pods = corner.deploy("web", 3)
    (target,) = corner.add_nodes("b")
    corner.migrate(pods[0], target, "first-is-paused", paused=True)
    corner.migrate(pods[1], f"{corner.namespace}-nowhere", "second-has-no-target")
    async with controller_on(corner.cluster, ONE_AT_A_TIME):
        name = corner.migrate(pods[2], target, "third")
        (status,) = await corner.finished(name)
    assert status["outcome"] == "Landed"
    assert corner.status("first-is-paused")["phase"] == "Pending"


async def test_no_more_are_in_flight_than_allowed(corner: Corner) -> None:
    corner.add_nodes("a")
    pods = corner.deploy("web", 6)
    (target,) = corner.add_nodes("b")
    options = msgspec.structs.replace(
        QUICK_OPTIONS, max_in_flight=2, max_per_workload=Limit("100%")
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

    async with controller_on(corner.cluster, options, reached=count):
        names = [corner.migrate(pod, target) for pod in pods]
        statuses = await corner.finished(*names)
    assert {status["outcome"] for status in statuses} == {"Landed"}
    assert most == 2


async def test_a_deleted_migration_leaves_every_queue(corner: Corner) -> None:
    """The one in flight is deleted, and so is one that waits: the slot is free for the third."""
    corner.add_nodes("a")
    pods = corner.deploy("web", 3)
    (stuck,) = corner.add_nodes("stuck", managed=False)
    (target,) = corner.add_nodes("b")
    async with controller_on(corner.cluster, ONE_AT_A_TIME) as controller:
        first = corner.migrate(pods[0], stuck, "a-first")
        await corner.until(lambda: corner.status(first).get("newPod"), "the first is in flight")
        second = corner.migrate(pods[1], target, "b-second")
        third = corner.migrate(pods[2], target, "c-third")
        corner.outside.delete(corner.path("migrations", second))
        corner.outside.delete(corner.path("migrations", first))
        (status,) = await corner.finished(third)
        await corner.until(lambda: not corner.leftovers(), "the first was rolled back")
        await corner.until(lambda: controller.in_flight == 0, "nothing is in flight")
    assert status["outcome"] == "Landed"
    kept = {pod["metadata"]["name"] for pod in corner.pods("web")}
    assert {pods[0]["metadata"]["name"], pods[1]["metadata"]["name"]} <= kept


async def test_a_restart_continues_migrations_in_flight(corner: Corner) -> None:
    corner.add_nodes("a")
    (old,) = corner.deploy("web", 1)
    (target,) = corner.add_nodes("b", managed=False)
    async with controller_on(corner.cluster):
        name = corner.migrate(old, target)
        await corner.until(lambda: corner.status(name).get("newPod"), "it is in flight")
    new = corner.status(name)["newPod"]
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    await corner.until(lambda: node_of(corner.pod(new) or {"spec": {}}) == target, "it is bound")
    status = {"phase": "Running", "conditions": [ready]}
    corner.outside.patch(corner.path("pods", new) + "/status", {"status": status})
    async with controller_on(corner.cluster):
        (ended,) = await corner.finished(name)
    assert (ended["outcome"], ended["newPod"], ended["attempts"]) == ("Landed", new, 1)


async def test_leftovers_of_any_age_are_cleaned_up_and_nothing_else_is_changed(
    corner: Corner,
) -> None:
    corner.add_nodes("a")
    pods = corner.deploy("web", 2)
    leftover, users = pods
    annotate(corner, leftover, {COST: "-2147483647", "rescheduler.dev/previous-deletion-cost": "3"})
    label(corner, leftover, {ID: "long-gone", STATUS: "in-progress"})
    annotate(corner, users, {COST: "-2147483647"})
    orphan = unadopted(corner, pods[0])
    apply(corner.cluster, orphan)
    temporary = budget(f"{corner.namespace}/temporary", max_unavailable=1, selector={"app": "x"})
    temporary["metadata"]["labels"] = {ID: "long-gone"}
    apply(corner.cluster, temporary, budget(f"{corner.namespace}/users", max_unavailable=1))
    async with controller_on(corner.cluster):
        await corner.until(lambda: len(corner.all("poddisruptionbudgets")) == 1, "one budget left")
        await corner.until(lambda: corner.pod("web-orphan") is None, "the orphan is deleted")
        await corner.until(lambda: cost_of(corner, leftover) == "3", "the cost is restored")
    assert cost_of(corner, users) == "-2147483647"
    assert ID not in (corner.pod(leftover["metadata"]["name"]) or {})["metadata"]["labels"]
    assert corner.all("poddisruptionbudgets")[0]["metadata"]["name"] == "users"
    assert sum(map(is_ready, corner.pods("web"))) == 2


def cost_of(corner: Corner, pod: JsonObject) -> str | None:
    found = corner.pod(pod["metadata"]["name"])
    assert found is not None
    cost: str | None = found["metadata"].get("annotations", {}).get(COST)
    return cost


def annotate(corner: Corner, pod: JsonObject, notes: dict[str, str]) -> None:
    path = corner.path("pods", pod["metadata"]["name"])
    corner.outside.patch(path, {"metadata": {"annotations": notes}})


def label(corner: Corner, pod: JsonObject, labels: dict[str, str]) -> None:
    path = corner.path("pods", pod["metadata"]["name"])
    corner.outside.patch(path, {"metadata": {"labels": labels}})


def unadopted(corner: Corner, like: JsonObject) -> JsonObject:
    """A new pod whose migration no longer exists."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-orphan",
            "namespace": corner.namespace,
            "labels": {"app": "web", ID: "long-gone", STATUS: "in-progress"},
            "annotations": {
                "rescheduler.dev/migration": "long-gone",
                "scheduler.alpha.kubernetes.io/original-pod": like["metadata"]["uid"],
            },
        },
        "spec": {"containers": [{"name": "app", "image": "x"}], **corner.here()},
    }


async def test_finished_migrations_are_deleted_after_their_time(corner: Corner) -> None:
    corner.add_nodes("a", "b")
    (old,) = corner.deploy("web", 1)
    async with controller_on(corner.cluster):
        name = corner.migrate(old, other_node(corner, old), ttlSecondsAfterFinished=1)
        await corner.until(lambda: corner.get("migrations", name) is None, "it is deleted")
    (left,) = corner.pods("web")
    assert left["metadata"]["uid"] != old["metadata"]["uid"]


async def test_two_migrations_of_one_pod_move_it_once(corner: Corner) -> None:
    corner.add_nodes("a")
    (old,) = corner.deploy("web", 1)
    targets = corner.add_nodes("b", "c")
    async with controller_on(corner.cluster):
        names = [corner.migrate(old, target, f"to-{target}") for target in targets]
        statuses = await corner.finished(*names)
    assert sorted(status["phase"] for status in statuses) == ["Cancelled", "Completed"], statuses
    assert len(corner.pods("web")) == 1
    assert corner.leftovers() == []


async def test_a_stopped_controller_ends_and_leaves_migrations_to_the_next(corner: Corner) -> None:
    corner.add_nodes("a")
    (old,) = corner.deploy("web", 1)
    (target,) = corner.add_nodes("b", managed=False)
    async with controller_on(corner.cluster) as controller:
        name = corner.migrate(old, target)
        await corner.until(lambda: corner.status(name).get("newPod"), "it is in flight")
        controller.stop()
        await corner.until(lambda: not controller.is_running, "it has ended")
    assert corner.status(name)["phase"] == "InProgress"
