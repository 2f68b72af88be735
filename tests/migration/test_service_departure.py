"""Pods leave their Services before they are stopped."""

import threading

import msgspec
import pytest

from rescheduler.errors import SettingsError
from rescheduler.migration.services.rights import check_service_rights
from rescheduler.settings import MigrationOptions
from rescheduler.settings.value_types import SecondsOrZero
from testcluster.applying import apply
from testcluster.builders import budget, pod, service, statefulset
from testcluster.client import JsonObject
from testcluster.namespace_watch import NamespaceWatch
from testcluster.waiting import wait_until
from tests.migration.service_watch import ServiceWatch, has_left
from tests.migration.support import (
    QUICK_OPTIONS,
    Sandbox,
    client_for,
    controller_on,
    is_ready,
    other_node,
    set_ready,
)

SHORT_STAY = msgspec.structs.replace(QUICK_OPTIONS, leave_services_seconds=SecondsOrZero(0.3))


def serve(sandbox: Sandbox, endpoints: int, app: str = "web") -> None:
    """Create a Service, and wait until it has its endpoints."""
    apply(sandbox.cluster, service(f"{sandbox.namespace}/{app}"))
    wait_until(lambda: len(ready_endpoints(sandbox)) == endpoints, what="endpoints are ready")


def slices(sandbox: Sandbox) -> list[JsonObject]:
    """The EndpointSlices that have endpoints."""
    path = f"/apis/discovery.k8s.io/v1/namespaces/{sandbox.namespace}/endpointslices"
    return [found for found in sandbox.outside.get(path)["items"] if found.get("endpoints")]


def ready_endpoints(sandbox: Sandbox) -> set[str]:
    return {
        endpoint["targetRef"]["name"]
        for found in slices(sandbox)
        for endpoint in found.get("endpoints") or []
        if endpoint["conditions"]["ready"]
    }


def ready_condition(pod: JsonObject) -> JsonObject:
    conditions: list[JsonObject] = pod["status"]["conditions"]
    return next(condition for condition in conditions if condition["type"] == "Ready")


class Kubelet(NamespaceWatch):
    """Puts the status of pods back that others have changed, as often as it is asked to."""

    def __init__(self, sandbox: Sandbox, times: int) -> None:
        path = f"/api/v1/namespaces/{sandbox.namespace}/pods"
        super().__init__(sandbox.cluster, {path: self._take_pod})
        self.put_back = 0
        # With a connection of its own: it writes from another thread.
        self._sandbox, self._times = Sandbox(sandbox.cluster, sandbox.namespace), times
        self._lock = threading.Lock()

    def _take_pod(self, type: str, found: JsonObject) -> None:
        conditions = found.get("status", {}).get("conditions", [])
        is_marked = any(has_left(condition) for condition in conditions)
        with self._lock:
            if type == "MODIFIED" and is_marked and self.put_back < self._times:
                self.put_back += 1
                set_ready(self._sandbox, found["metadata"]["name"], "True")


async def test_an_old_pod_is_in_no_service_when_its_workload_deletes_it(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a", "b", "c")
    old, *_ = sandbox.deploy("web", 3)
    apply(sandbox.cluster, budget(f"{sandbox.namespace}/web", min_available=3))
    serve(sandbox, 3)
    with ServiceWatch(sandbox.cluster, sandbox.namespace) as watch:
        async with controller_on(sandbox.cluster, SHORT_STAY):
            name = sandbox.migrate(old, other_node(sandbox, old))
            (status,) = await sandbox.finished(name)
    assert status["outcome"] == "Landed", status
    assert watch.left_in_time(old["metadata"]["uid"])
    assert watch.fewest_endpoints == 3
    assert watch.short_budgets == []
    assert watch.problems == []


async def test_a_pod_that_its_kubelet_puts_back_leaves_again(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a", "b")
    (old,) = sandbox.deploy("web", 1)
    serve(sandbox, 1)
    with (
        ServiceWatch(sandbox.cluster, sandbox.namespace) as watch,
        Kubelet(sandbox, times=2) as kubelet,
    ):
        async with controller_on(sandbox.cluster, SHORT_STAY):
            name = sandbox.migrate(old, other_node(sandbox, old))
            (status,) = await sandbox.finished(name)
    assert status["outcome"] == "Landed", status
    assert kubelet.put_back == 2
    assert watch.left_in_time(old["metadata"]["uid"])
    assert watch.fewest_endpoints == 1


async def test_an_original_is_in_no_service_when_it_is_evicted(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a", "b")
    body = pod(f"{sandbox.namespace}/solo", labels={"app": "web"}, **sandbox.here())
    del body["status"]
    apply(sandbox.cluster, body, budget(f"{sandbox.namespace}/web", min_available=1))
    (old,) = sandbox.wait_ready("web", 1)
    serve(sandbox, 1)
    with ServiceWatch(sandbox.cluster, sandbox.namespace) as watch:
        async with controller_on(sandbox.cluster, SHORT_STAY, allow_bare_pods=True):
            name = sandbox.migrate(old, other_node(sandbox, old))
            (status,) = await sandbox.finished(name)
    assert (status["mode"], status["outcome"]) == ("Recreate", "Landed"), status
    assert watch.left_in_time(old["metadata"]["uid"])
    assert watch.fewest_endpoints == 1
    assert watch.short_budgets == []


@pytest.mark.parametrize("replicas", [1, 2])
async def test_an_evicted_pod_leaves_only_services_that_have_another(
    sandbox: Sandbox, replicas: int
) -> None:
    """With its only pod gone, a Service would be down for longer."""
    sandbox.add_nodes("a", "b")
    template = sandbox.here()
    apply(
        sandbox.cluster,
        statefulset(f"{sandbox.namespace}/web", replicas, "100m", template=template),
        budget(f"{sandbox.namespace}/web", max_unavailable=1),
    )
    old, *_ = sandbox.wait_ready("web", replicas)
    serve(sandbox, replicas)
    with ServiceWatch(sandbox.cluster, sandbox.namespace) as watch:
        async with controller_on(sandbox.cluster, SHORT_STAY):
            name = sandbox.migrate(old, other_node(sandbox, old))
            (status,) = await sandbox.finished(name)
    assert status["phase"] == "Completed", status
    is_left = replicas == 2
    assert watch.left_in_time(old["metadata"]["uid"]) == is_left
    assert (old["metadata"]["uid"] in watch.marked) == is_left


async def test_a_pod_that_needs_not_leave_its_services_is_not_marked(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a", "b")
    hook = {"lifecycle": {"preStop": {"sleep": {"seconds": 1}}}}
    pods = [
        *sandbox.deploy("hooked", 1, template={"containers": [container(hook)]}),
        *sandbox.deploy("always", 1),
        *sandbox.deploy("alone", 1),
    ]
    always = service(f"{sandbox.namespace}/always")
    always["spec"]["publishNotReadyAddresses"] = True
    apply(sandbox.cluster, service(f"{sandbox.namespace}/hooked"), always)
    wait_until(lambda: len(ready_endpoints(sandbox)) == 2, what="endpoints are ready")
    with ServiceWatch(sandbox.cluster, sandbox.namespace) as watch:
        async with controller_on(sandbox.cluster, SHORT_STAY):
            names = [sandbox.migrate(old, other_node(sandbox, old)) for old in pods]
            statuses = await sandbox.finished(*names)
    assert {status["outcome"] for status in statuses} == {"Landed"}
    assert watch.marked == set()


def container(more: JsonObject) -> JsonObject:
    return {"name": "main", "image": "example", **more}


async def test_it_can_be_switched_off(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a", "b")
    (old,) = sandbox.deploy("web", 1)
    serve(sandbox, 1)
    off = msgspec.structs.replace(QUICK_OPTIONS, leave_services_seconds=SecondsOrZero(0))
    with ServiceWatch(sandbox.cluster, sandbox.namespace) as watch:
        async with controller_on(sandbox.cluster, off):
            name = sandbox.migrate(old, other_node(sandbox, old))
            (status,) = await sandbox.finished(name)
    assert status["outcome"] == "Landed", status
    assert watch.marked == set()


async def test_a_handover_that_is_undone_puts_the_old_pod_back_before_the_new_one_goes(
    sandbox: Sandbox,
) -> None:
    sandbox.add_nodes("a", "b")
    (old,) = sandbox.deploy("web", 1)
    serve(sandbox, 1)
    name = f"move-{old['metadata']['name']}"

    def pause(point: str, key: str) -> None:
        if point == "after-leave-services":
            path = sandbox.path("migrations", name)
            sandbox.outside.patch(path, {"spec": {"paused": True}})

    with ServiceWatch(sandbox.cluster, sandbox.namespace) as watch:
        async with controller_on(sandbox.cluster, SHORT_STAY, pause):
            sandbox.migrate(old, other_node(sandbox, old))
            await sandbox.until(lambda: sandbox.status(name).get("message") == "paused")
            await sandbox.until(lambda: len(sandbox.pods()) == 1 and not sandbox.leftovers())
    assert old["metadata"]["uid"] in watch.marked
    (found,) = sandbox.pods()
    assert found["metadata"]["uid"] == old["metadata"]["uid"]
    assert ready_condition(found)["status"] == "True"
    assert "reason" not in ready_condition(found)
    assert watch.fewest_endpoints == 1
    (new,) = set(watch.deleted)
    assert watch.left_in_time(new)


async def test_a_new_pod_that_is_no_longer_ready_brings_the_old_one_back(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a", "b")
    (old,) = sandbox.deploy("web", 1)
    serve(sandbox, 1)
    name = f"move-{old['metadata']['name']}"
    is_shaken = threading.Event()

    def shake(point: str, key: str) -> None:
        if point == "after-leave-services" and not is_shaken.is_set():
            is_shaken.set()
            set_ready(sandbox, sandbox.status(name)["newPod"], "False")

    async with controller_on(sandbox.cluster, SHORT_STAY, shake):
        sandbox.migrate(old, other_node(sandbox, old))

        def is_back() -> bool:
            found = sandbox.pod(old["metadata"]["name"])
            return is_shaken.is_set() and found is not None and is_ready(found)

        await sandbox.until(is_back, "the old pod serves again")
        set_ready(sandbox, sandbox.status(name)["newPod"], "True")
        (status,) = await sandbox.finished(name)
    assert status["outcome"] == "Landed", status


async def test_a_pod_whose_migration_was_deleted_is_put_back(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a", "b")
    (old,) = sandbox.deploy("web", 1)
    serve(sandbox, 1)
    name = f"move-{old['metadata']['name']}"

    def delete(point: str, key: str) -> None:
        if point == "after-leave-services":
            sandbox.outside.delete(sandbox.path("migrations", name))

    with ServiceWatch(sandbox.cluster, sandbox.namespace) as watch:
        async with controller_on(sandbox.cluster, SHORT_STAY, delete):
            sandbox.migrate(old, other_node(sandbox, old))
            await sandbox.until(lambda: old["metadata"]["uid"] in watch.marked)
            await sandbox.until(lambda: len(sandbox.pods()) == 1 and not sandbox.leftovers())
    (found,) = sandbox.pods()
    assert is_ready(found)
    assert found["metadata"]["uid"] == old["metadata"]["uid"]
    assert watch.fewest_endpoints == 1
    (new,) = set(watch.deleted)
    assert watch.left_in_time(new)


async def test_a_service_that_selects_the_old_pod_alone_is_served_until_its_end(
    sandbox: Sandbox,
) -> None:
    sandbox.add_nodes("a", "b")
    (old,) = sandbox.deploy("web", 1)
    serve(sandbox, 1)
    template_hash = old["metadata"]["labels"]["pod-template-hash"]
    apply(
        sandbox.cluster,
        service(f"{sandbox.namespace}/blue", selector={"pod-template-hash": template_hash}),
    )
    await sandbox.until(lambda: len(slices(sandbox)) == 2, "both Services have their endpoints")
    with ServiceWatch(sandbox.cluster, sandbox.namespace) as watch:
        async with controller_on(sandbox.cluster, SHORT_STAY):
            name = sandbox.migrate(old, other_node(sandbox, old))
            (status,) = await sandbox.finished(name)
    assert status["outcome"] == "Landed", status
    assert watch.marked == set()


async def test_evicted_pods_that_share_a_budget_leave_one_at_a_time(sandbox: Sandbox) -> None:
    """The server evicts pods that are not Ready although the budget allows one only."""
    sandbox.add_nodes("a", "b")
    shared = {"tier": "web"}
    protection = budget(f"{sandbox.namespace}/web", min_available=5, selector=shared)
    protection["spec"]["unhealthyPodEvictionPolicy"] = "AlwaysAllow"
    for app in ("x", "y", "z"):
        body = statefulset(f"{sandbox.namespace}/{app}", 2, "100m", template=sandbox.here())
        body["spec"]["template"]["metadata"]["labels"] |= shared
        apply(sandbox.cluster, body)
    apply(sandbox.cluster, service(f"{sandbox.namespace}/web", selector=shared), protection)
    wait_until(lambda: len(ready_endpoints(sandbox)) == 6, what="endpoints are ready")
    olds = [pod for app in ("x", "y", "z") for pod in sandbox.pods(app)[:1]]
    with ServiceWatch(sandbox.cluster, sandbox.namespace) as watch:
        async with controller_on(sandbox.cluster, SHORT_STAY):
            names = [sandbox.migrate(old, other_node(sandbox, old)) for old in olds]
            statuses = await sandbox.finished(*names)
    assert {status["phase"] for status in statuses} == {"Completed"}, statuses
    assert {old["metadata"]["uid"] for old in olds} <= watch.marked
    assert watch.short_budgets == []


def test_a_stay_that_a_kubelet_would_end_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a duration from 0s to 7s"):
        MigrationOptions(leave_services_seconds=SecondsOrZero(8))


async def test_without_the_right_to_read_endpoints_nothing_is_started(sandbox: Sandbox) -> None:
    """Every move of a pod behind a Service would fail otherwise, after its new pod has started."""
    token = sandbox.cluster.powerless_token
    with pytest.raises(SettingsError, match="services: the right to list them is missing"):
        async with client_for(sandbox.cluster, token=token) as client:
            await check_service_rights(client, QUICK_OPTIONS)
    off = msgspec.structs.replace(QUICK_OPTIONS, leave_services_seconds=SecondsOrZero(0))
    async with client_for(sandbox.cluster, token=token) as client:
        await check_service_rights(client, off)
    async with client_for(sandbox.cluster) as client:
        await check_service_rights(client, QUICK_OPTIONS)
