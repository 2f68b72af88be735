"""Pods that cannot run twice are evicted, and their replacements followed."""

from typing import Any

import msgspec

from rescheduler.settings import MigrationOptions, TemporaryBudget
from testcluster.applying import apply
from testcluster.builders import budget, deployment, job, statefulset
from testcluster.client import JsonObject
from tests.migration.support import (
    ID,
    QUICK_OPTIONS,
    TEST_LABEL,
    Corner,
    controller_on,
    is_ready,
    node_of,
    other_node,
)

COORDINATED = msgspec.structs.replace(QUICK_OPTIONS, deployment_coordination=True)


def stateful(corner: Corner, **template: Any) -> list[JsonObject]:
    body = statefulset(f"{corner.namespace}/db", 1, "100m", template=corner.here(**template))
    apply(corner.cluster, body)
    return corner.wait_ready("db", 1)


def cordon(corner: Corner, *nodes: str) -> None:
    for node in nodes:
        corner.outside.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})


async def test_a_statefulsets_pod_lands_where_the_scheduler_can_only_put_it(corner: Corner) -> None:
    corner.add_nodes("a")
    (old,) = stateful(corner)
    (target,) = corner.add_nodes("b")
    cordon(corner, node_of(old))
    async with controller_on(corner.cluster):
        name = corner.migrate(old, target)
        (status,) = await corner.finished(name)
    assert (status["mode"], status["outcome"]) == ("Evict", "Landed"), status
    new = corner.pod("db-0")
    assert new is not None
    assert (node_of(new), is_ready(new)) == (target, True)
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    assert corner.leftovers() == []


async def test_a_replacement_that_comes_back_is_reported(corner: Corner) -> None:
    corner.add_nodes("a", labels={"disk": "fast"})
    (old,) = stateful(corner, nodeSelector={"disk": "fast", TEST_LABEL: corner.namespace})
    (target,) = corner.add_nodes("b")
    async with controller_on(corner.cluster):
        (status,) = await corner.finished(corner.migrate(old, target))
    assert (status["phase"], status["outcome"]) == ("Completed", "CameBack"), status
    assert status["newNode"] == node_of(old)


async def test_a_replacement_that_lands_elsewhere_is_reported(corner: Corner) -> None:
    corner.add_nodes("a", labels={"disk": "fast"})
    (old,) = stateful(corner, nodeSelector={"disk": "fast", TEST_LABEL: corner.namespace})
    (target,) = corner.add_nodes("b")
    (third,) = corner.add_nodes("c", labels={"disk": "fast"})
    cordon(corner, node_of(old))
    async with controller_on(corner.cluster):
        (status,) = await corner.finished(corner.migrate(old, target))
    assert (status["phase"], status["outcome"]) == ("Completed", "Elsewhere"), status
    assert status["newNode"] == third


async def test_the_replacement_is_found_by_owner_and_uid_and_never_by_name(corner: Corner) -> None:
    """Pods of another workload with the same labels are not taken for it."""
    corner.add_nodes("a")
    labels = {"app": "db"}
    decoy = deployment(
        f"{corner.namespace}/decoy", 2, "100m", labels=labels, template=corner.here()
    )
    body = statefulset(f"{corner.namespace}/db", 1, "100m", labels=labels, template=corner.here())
    apply(corner.cluster, body, decoy)
    corner.wait_ready("db", 3)
    old = corner.pod("db-0")
    assert old is not None
    (target,) = corner.add_nodes("b")
    cordon(corner, node_of(old))
    async with controller_on(corner.cluster):
        name = corner.migrate(old, target)
        for found in corner.pods("db"):
            if found["metadata"]["name"].startswith("decoy"):
                corner.outside.delete(corner.path("pods", found["metadata"]["name"]))
        (status,) = await corner.finished(name)
    assert status["outcome"] == "Landed"
    labelled = [found for found in corner.pods() if ID in found["metadata"]["labels"]]
    assert [found["metadata"]["name"] for found in labelled] == ["db-0"]
    assert labelled[0]["metadata"]["uid"] != old["metadata"]["uid"]


async def test_a_job_starts_its_pod_anew(corner: Corner) -> None:
    (first,) = corner.add_nodes("a", managed=False)
    apply(corner.cluster, job(f"{corner.namespace}/sum", template=corner.here()))
    await corner.until(lambda: [p for p in corner.pods("sum") if node_of(p)], "it is placed")
    (old,) = corner.pods("sum")
    ready = {"type": "Ready", "status": "True"}
    path = corner.path("pods", old["metadata"]["name"])
    corner.outside.patch(f"{path}/status", {"status": {"phase": "Running", "conditions": [ready]}})
    (target,) = corner.add_nodes("b")
    cordon(corner, first)
    async with controller_on(corner.cluster):
        name = corner.migrate(old, target)
        await corner.until(
            lambda: "deletionTimestamp" in (corner.pod(old["metadata"]["name"]) or old)["metadata"],
            "it was evicted",
        )
        # There is no kubelet that would let it go.
        corner.outside.request("DELETE", path, {"gracePeriodSeconds": 0})
        (status,) = await corner.finished(name)
    assert (status["mode"], status["outcome"]) == ("Evict", "Landed"), status


async def test_an_eviction_waits_for_its_budget(corner: Corner) -> None:
    corner.add_nodes("a", "b")
    (old,) = stateful(corner)
    apply(corner.cluster, budget(f"{corner.namespace}/db", min_available=1))
    await corner.until(
        lambda: corner.all("poddisruptionbudgets")[0].get("status", {}).get("expectedPods"),
        "the budget is counted",
    )
    async with controller_on(corner.cluster):
        name = corner.migrate(old, other_node(corner, old))
        await corner.until(
            lambda: "disruption budget" in corner.status(name).get("message", ""), "it waits"
        )
        found = corner.pod("db-0")
        assert found is not None
        assert found["metadata"]["uid"] == old["metadata"]["uid"]
        corner.outside.delete(corner.path("poddisruptionbudgets", "db"))
        (status,) = await corner.finished(name)
    assert status["phase"] == "Completed"


async def test_a_deployment_that_allows_no_second_copy_is_evicted(corner: Corner) -> None:
    corner.add_nodes("a", "b")
    (old,) = corner.deploy("web", 1, strategy={"type": "Recreate"})
    async with controller_on(corner.cluster):
        name = corner.migrate(old, other_node(corner, old))
        (status,) = await corner.finished(name)
    assert (status["mode"], status["phase"]) == ("Evict", "Completed")
    assert corner.all("poddisruptionbudgets") == []


async def test_a_handoff_that_does_not_fit_becomes_a_coordinated_eviction(corner: Corner) -> None:
    """A required anti-affinity keeps two copies out of the same zone."""
    corner.add_nodes("a", zone="z1")
    term = {
        "topologyKey": "topology.kubernetes.io/zone",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    (old,) = corner.deploy("web", 1, {"affinity": {"podAntiAffinity": required}})
    (target,) = corner.add_nodes("b", zone="z1")
    cordon(corner, node_of(old))
    seen: list[JsonObject] = []

    def look(point: str, key: str) -> None:
        if point == "before-evict":
            seen.extend(corner.all("poddisruptionbudgets"))

    options: MigrationOptions = msgspec.structs.replace(
        COORDINATED, temporary_budget=TemporaryBudget(min_available=0)
    )
    async with controller_on(corner.cluster, options, reached=look):
        name = corner.migrate(old, target)
        (status,) = await corner.finished(name)
    assert (status["mode"], status["outcome"], status["attempts"]) == ("Evict", "Landed", 2), status
    assert [created["spec"]["minAvailable"] for created in seen] == [0]
    assert corner.all("poddisruptionbudgets") == []
    assert corner.leftovers() == []
