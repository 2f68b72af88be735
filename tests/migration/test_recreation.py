"""Pods without a controller are copied, where the policy allows it."""

from testcluster.applying import apply
from testcluster.builders import pod
from testcluster.client import JsonObject
from tests.migration.ready_pod_watch import ReadyPodWatch
from tests.migration.support import Corner, controller_on, is_ready, node_of


def bare(corner: Corner, **spec: object) -> JsonObject:
    body = pod(
        f"{corner.namespace}/solo",
        cpu="100m",
        labels={"app": "solo"},
        annotations={"note": "mine"},
        **corner.here(**spec),
    )
    del body["status"]
    apply(corner.cluster, body)
    (found,) = corner.wait_ready("solo", 1)
    return found


async def test_a_bare_pod_is_ready_elsewhere_before_it_goes(corner: Corner) -> None:
    corner.add_nodes("a")
    old = bare(corner)
    (target,) = corner.add_nodes("b")
    with ReadyPodWatch(corner.cluster, corner.namespace) as watcher:
        async with controller_on(corner.cluster, allow_bare_pods=True):
            name = corner.migrate(old, target)
            (status,) = await corner.finished(name)
    assert (status["mode"], status["outcome"]) == ("Recreate", "Landed"), status
    (new,) = corner.pods("solo")
    assert new["metadata"]["name"].startswith("rescheduled-solo-")
    assert new["metadata"]["annotations"]["note"] == "mine"
    assert node_of(new) == target
    assert (watcher.fewest["solo"], watcher.most["solo"]) == (1, 2)
    assert corner.leftovers() == []


async def test_a_copy_can_be_copied_and_its_name_does_not_grow(corner: Corner) -> None:
    corner.add_nodes("a", "b")
    old = bare(corner)
    home = node_of(old)
    away = next(node for node in corner.nodes if node != home)
    async with controller_on(corner.cluster, allow_bare_pods=True):
        await corner.finished(corner.migrate(old, away, "there"))
        (copy,) = [found for found in corner.pods("solo") if is_ready(found)]
        (status,) = await corner.finished(corner.migrate(copy, home, "back"))
    assert status["outcome"] == "Landed", status
    (last,) = corner.pods("solo")
    assert node_of(last) == home
    assert len(last["metadata"]["name"]) == len(copy["metadata"]["name"])


async def test_a_pod_that_was_moved_before_is_exactly_as_it_was_after_a_rollback(
    corner: Corner,
) -> None:
    """The labels of the first migration are still there, and it is not taken for a new pod."""
    corner.add_nodes("a")
    old = bare(corner)
    (target,) = corner.add_nodes("b")
    (stuck,) = corner.add_nodes("stuck", managed=False)
    async with controller_on(corner.cluster, allow_bare_pods=True):
        await corner.finished(corner.migrate(old, target, "first"))
        (copy,) = [found for found in corner.pods("solo") if is_ready(found)]
        name = corner.migrate(copy, stuck, "second")
        await corner.until(lambda: corner.status(name).get("newPod"), "the second is in progress")
        corner.outside.delete(corner.path("migrations", name))
        await corner.until(lambda: not corner.leftovers(), "it is rolled back")
    found = corner.pod(copy["metadata"]["name"])
    assert found is not None
    assert is_ready(found)
    for written in ("labels", "annotations"):
        assert found["metadata"][written] == copy["metadata"][written]


async def test_a_bare_pod_stays_unless_the_policy_allows_moving_it(corner: Corner) -> None:
    corner.add_nodes("a", "b")
    old = bare(corner)
    async with controller_on(corner.cluster):
        (status,) = await corner.finished(corner.migrate(old, corner.nodes[1]))
    assert status["phase"] in ("Failed", "Cancelled")
    assert [found["metadata"]["uid"] for found in corner.pods()] == [old["metadata"]["uid"]]


async def test_a_pod_that_runs_to_completion_is_not_copied(corner: Corner) -> None:
    corner.add_nodes("a")
    old = bare(corner, restartPolicy="Never")
    (target,) = corner.add_nodes("b")
    async with controller_on(corner.cluster, allow_bare_pods=True):
        (status,) = await corner.finished(corner.migrate(old, target))
    assert status["phase"] == "Failed"
    assert "twice" in status["message"]
    assert len(corner.pods()) == 1
