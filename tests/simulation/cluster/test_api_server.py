"""The simulated API server: versions, conflicts, watches, deletions, evictions, and Migrations."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeVar

import msgspec
import pytest

from rescheduler.errors import (
    AlreadyExists,
    Conflict,
    EvictionRefused,
    Gone,
    NotFound,
    Refused,
    SettingsError,
)
from rescheduler.kube.api_server import Patch, collection_path, object_path
from rescheduler.kube.watch_events import Added, Bookmark, Deleted, Modified
from rescheduler.labels import MIGRATION_STATUS
from rescheduler.migration.migration_object import MIGRATION, Migration
from rescheduler.migration.migration_request import migration_body
from rescheduler.migration.moving_pod import LABELLED_POD, MovingPod
from rescheduler.model.kinds import BUDGET, DEPLOYMENT, NODE, POD
from rescheduler.model.objects import Page, Pod, PodDisruptionBudget
from rescheduler.simulation.cluster.cluster import SimulatedCluster
from rescheduler.simulation.cluster.json_objects import Json
from rescheduler.simulation.cluster.object_store import HISTORY_LENGTH
from testcluster.builders import budget, deployment, node, pod, replicaset
from tests.simulation.simulated_clusters import in_simulated_cluster, pods_of

T = TypeVar("T")
PODS = collection_path(POD, "shop")
WEB = object_path(POD, "shop/web")
MARK = {"metadata": {"labels": {MIGRATION_STATUS: "in-progress"}}}


def without_controllers(
    objects: list[Json], steps: Callable[[SimulatedCluster], Awaitable[T]]
) -> T:
    """Run steps in a cluster without controllers: nothing changes by itself."""
    return in_simulated_cluster(objects, steps, settle=0)


def web(**more: Any) -> Json:
    return pod("shop/web", on="a", cpu="100m", labels={"app": "web"}, **more)


def test_every_write_counts_the_version_up_and_names_it() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        before = await cluster.server.get(WEB, Pod)
        answer = await cluster.server.patch(WEB, {"metadata": {"labels": {"x": "y"}}})
        after = answer.decode(Pod)
        assert int(after.metadata.resource_version) > int(before.metadata.resource_version)
        assert after.metadata.labels == {"app": "web", "x": "y"}
        assert after == await cluster.server.get(WEB, Pod)

    without_controllers([node("a"), web()], steps)


def test_a_write_that_changes_nothing_is_no_write() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        before = cluster.store.version
        await cluster.server.patch(WEB, {"metadata": {"labels": {"app": "web"}}})
        assert cluster.store.version == before

    without_controllers([web()], steps)


def test_a_write_for_another_version_is_a_conflict() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        old = (await cluster.server.get(WEB, Pod)).metadata.resource_version
        patch = {"metadata": {"resourceVersion": old, "labels": {"x": "1"}}}
        await cluster.server.patch(WEB, patch)
        with pytest.raises(Conflict):
            await cluster.server.patch(WEB, patch)

    without_controllers([web()], steps)


def test_a_write_for_another_uid_is_refused() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        with pytest.raises(Refused, match="uid"):
            await cluster.server.patch(WEB, {"metadata": {"uid": "another"}})
        with pytest.raises(Conflict):
            await cluster.server.delete(WEB, uid="another")
        with pytest.raises(Conflict):
            await cluster.server.delete(WEB, version="1")

    without_controllers([web()], steps)


def test_a_server_side_apply_is_refused() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        with pytest.raises(Refused):
            await cluster.server.patch(object_path(NODE, "a"), {}, Patch.APPLY)

    without_controllers([node("a")], steps)


def test_a_dry_run_of_an_eviction_changes_nothing() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        before = cluster.store.version
        await cluster.server.evict("shop/web", dry_run=True)
        assert cluster.store.version == before

    without_controllers([node("a"), web()], steps)


def test_an_existing_object_cannot_be_created_and_a_missing_one_cannot_be_changed() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        with pytest.raises(AlreadyExists):
            await cluster.server.create(PODS, web())
        with pytest.raises(NotFound):
            await cluster.server.patch(object_path(POD, "shop/other"), {})
        with pytest.raises(NotFound):
            await cluster.server.create(collection_path(POD, "nowhere"), pod("nowhere/x"))
        with pytest.raises(NotFound):
            await cluster.server.get("/apis/example.com/v1/things", Page[Pod])

    without_controllers([web()], steps)


def test_a_kind_that_is_not_simulated_is_named() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        with pytest.raises(SettingsError, match=r"'CronJob'.*expected one of Node, Pod"):
            cluster.create({"kind": "CronJob", "metadata": {"name": "x"}})

    without_controllers([], steps)


def test_a_pod_is_created_pending_and_with_defaults() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        await cluster.server.create(PODS, pod("shop/new", on="a"))
        made = cluster.list("Pod")["shop/new"]
        assert made["status"] == {"phase": "Pending"}
        assert made["spec"]["terminationGracePeriodSeconds"] == 30
        assert {toleration["tolerationSeconds"] for toleration in made["spec"]["tolerations"]} == {
            300
        }
        assert made["metadata"]["creationTimestamp"] == "2026-03-01T08:00:00Z"

    without_controllers([web()], steps)


def test_a_pods_spec_cannot_be_changed() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        with pytest.raises(Refused, match="nodeName"):
            await cluster.server.patch(WEB, {"spec": {"nodeName": "b"}})

    without_controllers([web()], steps)


def test_a_status_is_only_written_through_its_subresource() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        await cluster.server.patch(WEB, {"status": {"phase": "Failed"}})
        assert cluster.list("Pod")["shop/web"]["status"]["phase"] == "Running"
        await cluster.server.patch(f"{WEB}/status", {"status": {"phase": "Failed"}})
        assert cluster.list("Pod")["shop/web"]["status"]["phase"] == "Failed"

    without_controllers([web()], steps)


def test_a_write_to_a_status_leaves_everything_else_alone() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        before = cluster.list("Deployment")["shop/web"]
        patch = {
            "status": {"replicas": 7},
            "spec": {"replicas": 7},
            "metadata": {"labels": {"x": "y"}},
        }
        await cluster.server.patch(object_path(DEPLOYMENT, "shop/web", "status"), patch)
        after = cluster.list("Deployment")["shop/web"]
        assert after["status"] == {**before["status"], "replicas": 7}
        assert after["spec"] == before["spec"]
        assert after["metadata"]["labels"] == before["metadata"]["labels"]

    without_controllers([deployment("shop/web")], steps)


def test_labels_of_a_pod_may_be_written_along_with_its_status_but_not_its_spec_or_owners() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        before = cluster.list("Pod")["shop/web"]
        patch = {
            "status": {"phase": "Failed"},
            "spec": {"nodeName": "b"},
            "metadata": {"labels": {"x": "y"}, "ownerReferences": []},
        }
        await cluster.server.patch(f"{WEB}/status", patch)
        after = cluster.list("Pod")["shop/web"]
        assert after["spec"] == before["spec"]
        assert after["metadata"]["labels"] == {"app": "web", "x": "y"}
        assert after["metadata"]["ownerReferences"] == before["metadata"]["ownerReferences"]

    without_controllers([web(owner=replicaset("shop/web"))], steps)


def test_all_pages_of_a_list_show_the_same_version() -> None:
    async def steps(cluster: SimulatedCluster) -> list[str]:
        names = []
        async with aclosing(cluster.server.list_pages(POD, limit=2)) as pages:
            async for page in pages:
                names += [listed.metadata.name for listed in page.readable()]
                if len(names) == 2:
                    cluster.delete("Pod", "shop/p3", grace_seconds=0)
                    cluster.create(pod("shop/p9"))
        return names

    pods = [pod(f"shop/p{number}") for number in range(5)]
    assert without_controllers(pods, steps) == ["p0", "p1", "p2", "p3", "p4"]


def test_lists_are_filtered_by_labels() -> None:
    async def steps(cluster: SimulatedCluster) -> list[str]:
        found = await cluster.server.get(PODS, Page[Pod], {"labelSelector": "app in (web),!old"})
        return [listed.metadata.name for listed in found.items]

    others = [
        pod("shop/old", labels={"app": "web", "old": "1"}),
        pod("shop/db", labels={"app": "db"}),
        pod("other/web", labels={"app": "web"}),
    ]
    assert without_controllers([web(), *others], steps) == ["web"]


async def events(
    cluster: SimulatedCluster, kind: Any, version: int, deed: Callable[[], Any]
) -> list[Any]:
    seen: list[Any] = []
    async with aclosing(cluster.server.watch(kind, str(version), 50)) as batches:
        async for batch in batches:
            if batch == ():
                deed()
            seen += batch
    return seen


def test_a_watch_tells_every_change_after_a_version_and_nothing_before() -> None:
    async def steps(cluster: SimulatedCluster) -> list[type]:
        version = cluster.store.version
        cluster.patch("Pod", "shop/web", {"metadata": {"labels": {"x": "1"}}})

        def go_on() -> None:
            cluster.create(pod("shop/new"))
            cluster.delete("Pod", "shop/new")

        seen = await events(cluster, POD, version, go_on)
        versions = [int(event.object.metadata.resource_version) for event in seen]
        assert versions == sorted(versions)
        return [type(event) for event in seen]

    assert without_controllers([web()], steps) == [Modified, Added, Deleted, Bookmark]


def test_a_watch_of_marked_pods_sees_an_unmarked_one_go() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        def go_on() -> None:
            cluster.patch("Pod", "shop/web", MARK)
            cluster.patch("Pod", "shop/web", {"metadata": {"annotations": {"a": "b"}}})
            cluster.patch("Pod", "shop/web", {"metadata": {"labels": {MIGRATION_STATUS: None}}})
            cluster.patch("Pod", "shop/web", {"metadata": {"annotations": {"a": "c"}}})

        seen = await events(cluster, LABELLED_POD, cluster.store.version, go_on)
        assert [type(event) for event in seen[:-1]] == [Added, Modified, Deleted]
        last: MovingPod = seen[2].object
        assert last.metadata.labels[MIGRATION_STATUS] == "in-progress"
        gone = int(last.metadata.resource_version)
        assert gone == int(seen[1].object.metadata.resource_version) + 1

    without_controllers([web()], steps)


def test_a_watch_from_what_has_been_forgotten_is_gone() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        version = cluster.store.version
        cluster.patch("Pod", "shop/web", MARK)
        for number in range(HISTORY_LENGTH):
            cluster.patch("Pod", "shop/web", {"metadata": {"labels": {"x": str(number)}}})
        with pytest.raises(Gone):
            await events(cluster, POD, version, lambda: None)
        assert await events(cluster, POD, cluster.store.version, lambda: None)

    without_controllers([web()], steps)


def test_a_quiet_watch_says_every_minute_that_nothing_happened() -> None:
    async def steps(cluster: SimulatedCluster) -> list[float]:
        said = []
        async with aclosing(cluster.server.watch(POD, str(cluster.store.version), 150)) as batches:
            async for batch in batches:
                if batch:
                    said.append(cluster.clock.seconds())
        return said

    assert without_controllers([web()], steps) == [60, 120, 150]


def test_a_pod_that_runs_is_deleted_in_its_time_and_one_that_waits_at_once() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        cluster.create(pod("shop/late"))
        await cluster.server.delete(object_path(POD, "shop/late"))
        assert cluster.get("Pod", "shop/late") is None
        await cluster.server.delete(WEB, grace_seconds=45)
        going = cluster.list("Pod")["shop/web"]["metadata"]
        assert going["deletionTimestamp"] == "2026-03-01T08:00:45Z"
        await cluster.server.delete(WEB, grace_seconds=10)
        going = cluster.list("Pod")["shop/web"]["metadata"]
        assert going["deletionTimestamp"] == "2026-03-01T08:00:10Z"
        await cluster.server.delete(WEB, grace_seconds=0)
        assert cluster.get("Pod", "shop/web") is None

    without_controllers([web()], steps)


def test_binding_places_a_pod_once() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        await cluster.server.bind("shop/new", "a")
        found = cluster.list("Pod")["shop/new"]
        assert found["spec"]["nodeName"] == "a"
        assert found["status"]["conditions"][0]["type"] == "PodScheduled"
        with pytest.raises(Conflict, match="already assigned"):
            await cluster.server.bind("shop/new", "b")

    without_controllers([pod("shop/new")], steps)


# ------------------------------------------------------------ evictions


def disruptions(cluster: SimulatedCluster, key: str) -> int:
    found = msgspec.convert(cluster.list("PodDisruptionBudget")[key], PodDisruptionBudget)
    return found.status.disruptions_allowed


def test_an_eviction_takes_from_the_budget_until_it_has_nothing_left() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        first, second, _ = sorted(pod["metadata"]["name"] for pod in pods_of(cluster, "web"))
        assert disruptions(cluster, "shop/web") == 1
        await cluster.server.evict(f"shop/{first}", dry_run=True)
        await cluster.server.evict(f"shop/{first}")
        assert disruptions(cluster, "shop/web") == 0
        with pytest.raises(EvictionRefused, match="disruption budget"):
            await cluster.server.evict(f"shop/{second}", dry_run=True)
        await asyncio.sleep(30)
        assert disruptions(cluster, "shop/web") == 1

    in_simulated_cluster(
        [node("a"), deployment("shop/web", 3), budget("shop/web", min_available=2)], steps
    )


def test_a_pod_that_two_budgets_protect_is_never_evicted() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        name = pods_of(cluster, "web")[0]["metadata"]["name"]
        with pytest.raises(EvictionRefused, match="more than one"):
            await cluster.server.evict(f"shop/{name}")

    second = budget("shop/too", max_unavailable=1, selector={"app": "web"})
    first = budget("shop/web", max_unavailable=1)
    in_simulated_cluster([node("a"), deployment("shop/web", 3), first, second], steps)


def test_a_budget_that_has_not_been_counted_yet_lets_nobody_go() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        with pytest.raises(EvictionRefused):
            await cluster.server.evict("shop/web")

    without_controllers([web(), budget("shop/web", max_unavailable=1)], steps)


def test_a_pod_that_does_not_run_yet_is_evicted_whatever_budgets_say() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        await cluster.server.evict("shop/web")
        assert cluster.get("Pod", "shop/web") is None

    without_controllers(
        [pod("shop/web", labels={"app": "web"}), budget("shop/web", min_available=5)], steps
    )


def test_an_eviction_of_another_pod_of_that_name_is_a_conflict() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        with pytest.raises(Conflict):
            await cluster.server.evict("shop/web", uid="another")

    without_controllers([web()], steps)


def test_a_percentage_is_of_the_pods_that_are_wanted() -> None:
    async def steps(cluster: SimulatedCluster) -> Any:
        path = object_path(BUDGET, "shop/web")
        return (await cluster.server.get(path, PodDisruptionBudget)).status

    objects = [node("a"), deployment("shop/web", 5), budget("shop/web", min_available="50%")]
    status = in_simulated_cluster(objects, steps)
    assert (status.expected_pods, status.desired_healthy, status.disruptions_allowed) == (5, 3, 2)


# ------------------------------------------------------------ Migrations

MOVE = migration_body("shop/web", "some-uid", "b")
MIGRATIONS = collection_path(MIGRATION, "shop")
THIS = object_path(MIGRATION, f"shop/{MOVE['metadata']['name']}")


def test_a_migration_begins_as_its_schema_says() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        answer = await cluster.server.create(MIGRATIONS, {**MOVE, "status": {"phase": "Completed"}})
        made = answer.decode(Migration)
        assert (made.status.phase, made.status.message) == ("Pending", "waiting to be started")

    without_controllers([web()], steps)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"targetNode": "c"}, "spec.targetNode is immutable"),
        ({"mode": "Evict"}, "spec.mode is immutable"),
        ({"pod": {"name": "x", "uid": "y"}}, "spec.pod is immutable"),
        ({"timeoutSeconds": 0}, "minimum"),
    ],
)
def test_what_is_to_be_moved_where_cannot_be_changed(change: Json, why: str) -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        await cluster.server.create(MIGRATIONS, MOVE)
        with pytest.raises(Refused, match=why):
            await cluster.server.patch(THIS, {"spec": change})
        await cluster.server.patch(THIS, {"spec": {"paused": True}})
        assert (await cluster.server.get(THIS, Migration)).metadata.generation == 2

    without_controllers([web()], steps)


def test_a_migration_that_has_finished_stays_finished() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        await cluster.server.create(MIGRATIONS, MOVE)
        await cluster.server.patch(THIS, {"status": {"phase": "Failed"}})
        assert (await cluster.server.get(THIS, Migration)).status.phase == "Pending"
        await cluster.server.patch(f"{THIS}/status", {"status": {"phase": "Failed"}})
        with pytest.raises(Refused, match="stays finished"):
            await cluster.server.patch(f"{THIS}/status", {"status": {"phase": "Pending"}})

    without_controllers([web()], steps)


@pytest.mark.parametrize(
    "spec",
    [
        {"pod": {"name": "web"}, "targetNode": "b"},
        {"pod": {"name": "web", "uid": "u"}},
        {"pod": {"name": "web", "uid": "u"}, "targetNode": "Not A Name"},
        {"pod": {"name": "web", "uid": "u"}, "targetNode": "b", "mode": "Teleport"},
    ],
)
def test_nonsense_is_refused(spec: Json) -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        with pytest.raises(Refused):
            await cluster.server.create(MIGRATIONS, {**MOVE, "spec": spec})

    without_controllers([web()], steps)


def test_events_are_kept_for_an_hour() -> None:
    async def steps(cluster: SimulatedCluster) -> int:
        for number in range(5):
            about = {"metadata": {"name": f"e{number}"}, "reason": "Test"}
            await cluster.server.create("/api/v1/namespaces/shop/events", about)
            await asyncio.sleep(1000)
        return len(cluster.list("Event"))

    assert without_controllers([web()], steps) == 4
