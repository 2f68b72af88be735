"""Pods without a controller are copied, where the policy allows it."""

from testcluster.applying import apply
from testcluster.builders import pod
from testcluster.client import JsonObject
from tests.migration.ready_pod_watch import ReadyPodWatch
from tests.migration.support import Sandbox, controller_on, is_ready, node_of


def bare(sandbox: Sandbox, **spec: object) -> JsonObject:
    body = pod(
        f"{sandbox.namespace}/solo",
        cpu="100m",
        labels={"app": "solo"},
        annotations={"note": "mine"},
        **sandbox.here(**spec),
    )
    del body["status"]
    apply(sandbox.cluster, body)
    (found,) = sandbox.wait_ready("solo", 1)
    return found


async def test_a_bare_pod_is_ready_elsewhere_before_it_goes(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a")
    old = bare(sandbox)
    (target,) = sandbox.add_nodes("b")
    with ReadyPodWatch(sandbox.cluster, sandbox.namespace) as watcher:
        async with controller_on(sandbox.cluster, allow_bare_pods=True):
            name = sandbox.migrate(old, target)
            (status,) = await sandbox.finished(name)
    assert (status["mode"], status["outcome"]) == ("Recreate", "Landed"), status
    (new,) = sandbox.pods("solo")
    assert new["metadata"]["name"].startswith("rescheduled-solo-")
    assert new["metadata"]["annotations"]["note"] == "mine"
    assert node_of(new) == target
    assert (watcher.fewest["solo"], watcher.most["solo"]) == (1, 2)
    assert sandbox.leftovers() == []


async def test_a_copy_keeps_the_owners_and_finalizers_of_its_original(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a")
    maps = f"/api/v1/namespaces/{sandbox.namespace}/configmaps"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}}
    uid = sandbox.outside.create(maps, body)["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
    old = bare(sandbox)
    kept = {"ownerReferences": [owner], "finalizers": ["example.com/clean-up"]}
    path = sandbox.path("pods", old["metadata"]["name"])
    sandbox.outside.patch(path, {"metadata": kept})
    (target,) = sandbox.add_nodes("b")
    async with controller_on(sandbox.cluster, allow_bare_pods=True):
        name = sandbox.migrate(old, target)
        await sandbox.until(lambda: sandbox.status(name).get("newPod"), "the copy has a name")
        copy = sandbox.status(name)["newPod"]
        await sandbox.until(
            lambda: "deletionTimestamp" in sandbox.outside.get(path)["metadata"], "it is evicted"
        )
        sandbox.outside.patch(path, {"metadata": {"finalizers": None}})
        (status,) = await sandbox.finished(name)
    assert status["outcome"] == "Landed", status
    path = sandbox.path("pods", copy)
    metadata = sandbox.outside.get(path)["metadata"]
    assert {key: metadata.get(key) for key in kept} == kept
    sandbox.outside.patch(path, {"metadata": {"finalizers": None}})


async def test_a_copy_can_be_copied_and_its_name_does_not_grow(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a", "b")
    old = bare(sandbox)
    home = node_of(old)
    away = next(node for node in sandbox.nodes if node != home)
    async with controller_on(sandbox.cluster, allow_bare_pods=True):
        await sandbox.finished(sandbox.migrate(old, away, "there"))
        (copy,) = [found for found in sandbox.pods("solo") if is_ready(found)]
        (status,) = await sandbox.finished(sandbox.migrate(copy, home, "back"))
    assert status["outcome"] == "Landed", status
    (last,) = sandbox.pods("solo")
    assert node_of(last) == home
    assert len(last["metadata"]["name"]) == len(copy["metadata"]["name"])


async def test_a_pod_that_was_moved_before_is_exactly_as_it_was_after_a_rollback(
    sandbox: Sandbox,
) -> None:
    """The labels of the first migration are still there, and it is not taken for a new pod."""
    sandbox.add_nodes("a")
    old = bare(sandbox)
    (target,) = sandbox.add_nodes("b")
    (stuck,) = sandbox.add_nodes("stuck", managed=False)
    async with controller_on(sandbox.cluster, allow_bare_pods=True):
        await sandbox.finished(sandbox.migrate(old, target, "first"))
        (copy,) = [found for found in sandbox.pods("solo") if is_ready(found)]
        name = sandbox.migrate(copy, stuck, "second")
        await sandbox.until(lambda: sandbox.status(name).get("newPod"), "the second is in progress")
        sandbox.outside.delete(sandbox.path("migrations", name))
        await sandbox.until(lambda: not sandbox.leftovers(), "it is rolled back")
    found = sandbox.pod(copy["metadata"]["name"])
    assert found is not None
    assert is_ready(found)
    for written in ("labels", "annotations"):
        assert found["metadata"][written] == copy["metadata"][written]


async def test_a_bare_pod_stays_unless_the_policy_allows_moving_it(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a", "b")
    old = bare(sandbox)
    async with controller_on(sandbox.cluster):
        (status,) = await sandbox.finished(sandbox.migrate(old, sandbox.nodes[1]))
    assert status["phase"] in ("Failed", "Cancelled")
    assert [found["metadata"]["uid"] for found in sandbox.pods()] == [old["metadata"]["uid"]]


async def test_a_pod_that_runs_to_completion_is_not_copied(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a")
    old = bare(sandbox, restartPolicy="Never")
    (target,) = sandbox.add_nodes("b")
    async with controller_on(sandbox.cluster, allow_bare_pods=True):
        (status,) = await sandbox.finished(sandbox.migrate(old, target))
    assert status["phase"] == "Failed"
    assert "twice" in status["message"]
    assert len(sandbox.pods()) == 1
