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
    Sandbox,
    controller_on,
    is_ready,
    node_of,
    other_node,
    set_running,
)

COORDINATED = msgspec.structs.replace(QUICK_OPTIONS, deployment_coordination=True)


def stateful(sandbox: Sandbox, **template: Any) -> list[JsonObject]:
    body = statefulset(f"{sandbox.namespace}/db", 1, "100m", template=sandbox.here(**template))
    apply(sandbox.cluster, body)
    return sandbox.wait_ready("db", 1)


def cordon(sandbox: Sandbox, *nodes: str) -> None:
    for node in nodes:
        sandbox.outside.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})


async def test_a_statefulsets_pod_lands_where_the_scheduler_can_only_put_it(
    sandbox: Sandbox,
) -> None:
    sandbox.add_nodes("a")
    (old,) = stateful(sandbox)
    (target,) = sandbox.add_nodes("b")
    cordon(sandbox, node_of(old))
    async with controller_on(sandbox.cluster):
        name = sandbox.migrate(old, target)
        (status,) = await sandbox.finished(name)
    assert (status["mode"], status["outcome"]) == ("Evict", "Landed"), status
    new = sandbox.pod("db-0")
    assert new is not None
    assert (node_of(new), is_ready(new)) == (target, True)
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    assert sandbox.leftovers() == []


async def test_a_replacement_that_comes_back_is_reported(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a", labels={"disk": "fast"})
    (old,) = stateful(sandbox, nodeSelector={"disk": "fast", TEST_LABEL: sandbox.namespace})
    (target,) = sandbox.add_nodes("b")
    async with controller_on(sandbox.cluster):
        (status,) = await sandbox.finished(sandbox.migrate(old, target))
    assert (status["phase"], status["outcome"]) == ("Completed", "CameBack"), status
    assert status["newNode"] == node_of(old)


async def test_a_replacement_that_lands_elsewhere_is_reported(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a", labels={"disk": "fast"})
    (old,) = stateful(sandbox, nodeSelector={"disk": "fast", TEST_LABEL: sandbox.namespace})
    (target,) = sandbox.add_nodes("b")
    (third,) = sandbox.add_nodes("c", labels={"disk": "fast"})
    cordon(sandbox, node_of(old))
    async with controller_on(sandbox.cluster):
        (status,) = await sandbox.finished(sandbox.migrate(old, target))
    assert (status["phase"], status["outcome"]) == ("Completed", "Elsewhere"), status
    assert status["newNode"] == third


async def test_the_replacement_is_found_by_owner_and_uid_and_never_by_name(
    sandbox: Sandbox,
) -> None:
    """Pods of another workload with the same labels are not taken for it."""
    sandbox.add_nodes("a")
    labels = {"app": "db"}
    decoy = deployment(
        f"{sandbox.namespace}/decoy", 2, "100m", labels=labels, template=sandbox.here()
    )
    body = statefulset(f"{sandbox.namespace}/db", 1, "100m", labels=labels, template=sandbox.here())
    apply(sandbox.cluster, body, decoy)
    sandbox.wait_ready("db", 3)
    old = sandbox.pod("db-0")
    assert old is not None
    (target,) = sandbox.add_nodes("b")
    cordon(sandbox, node_of(old))
    async with controller_on(sandbox.cluster):
        name = sandbox.migrate(old, target)
        for found in sandbox.pods("db"):
            if found["metadata"]["name"].startswith("decoy"):
                sandbox.outside.delete(sandbox.path("pods", found["metadata"]["name"]))
        (status,) = await sandbox.finished(name)
    assert status["outcome"] == "Landed"
    labelled = [found for found in sandbox.pods() if ID in found["metadata"]["labels"]]
    assert [found["metadata"]["name"] for found in labelled] == ["db-0"]
    assert labelled[0]["metadata"]["uid"] != old["metadata"]["uid"]


async def test_a_job_starts_its_pod_anew(sandbox: Sandbox) -> None:
    (first,) = sandbox.add_nodes("a", managed=False)
    apply(sandbox.cluster, job(f"{sandbox.namespace}/sum", template=sandbox.here()))
    await sandbox.until(lambda: [p for p in sandbox.pods("sum") if node_of(p)], "it is placed")
    (old,) = sandbox.pods("sum")
    ready = {"type": "Ready", "status": "True"}
    path = sandbox.path("pods", old["metadata"]["name"])
    sandbox.outside.patch(f"{path}/status", {"status": {"phase": "Running", "conditions": [ready]}})
    (target,) = sandbox.add_nodes("b")
    cordon(sandbox, first)
    async with controller_on(sandbox.cluster):
        name = sandbox.migrate(old, target)
        await sandbox.until(
            lambda: (
                "deletionTimestamp" in (sandbox.pod(old["metadata"]["name"]) or old)["metadata"]
            ),
            "it was evicted",
        )
        # There is no kubelet that would let it go.
        sandbox.outside.request("DELETE", path, {"gracePeriodSeconds": 0})
        (status,) = await sandbox.finished(name)
    assert (status["mode"], status["outcome"]) == ("Evict", "Landed"), status


async def test_an_eviction_waits_for_its_budget(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a", "b")
    (old,) = stateful(sandbox)
    apply(sandbox.cluster, budget(f"{sandbox.namespace}/db", min_available=1))
    await sandbox.until(
        lambda: sandbox.all("poddisruptionbudgets")[0].get("status", {}).get("expectedPods"),
        "the budget is counted",
    )
    async with controller_on(sandbox.cluster):
        name = sandbox.migrate(old, other_node(sandbox, old))
        await sandbox.until(
            lambda: "disruption budget" in sandbox.status(name).get("message", ""), "it waits"
        )
        found = sandbox.pod("db-0")
        assert found is not None
        assert found["metadata"]["uid"] == old["metadata"]["uid"]
        sandbox.outside.delete(sandbox.path("poddisruptionbudgets", "db"))
        (status,) = await sandbox.finished(name)
    assert status["phase"] == "Completed"


async def test_a_deployment_that_allows_no_second_copy_is_evicted(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a", "b")
    (old,) = sandbox.deploy("web", 1, strategy={"type": "Recreate"})
    async with controller_on(sandbox.cluster):
        name = sandbox.migrate(old, other_node(sandbox, old))
        (status,) = await sandbox.finished(name)
    assert (status["mode"], status["phase"]) == ("Evict", "Completed")
    assert sandbox.all("poddisruptionbudgets") == []


async def test_a_handoff_that_does_not_fit_becomes_a_coordinated_eviction(sandbox: Sandbox) -> None:
    """A required anti-affinity keeps two copies out of the same zone."""
    sandbox.add_nodes("a", zone="z1")
    term = {
        "topologyKey": "topology.kubernetes.io/zone",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    (old,) = sandbox.deploy("web", 1, {"affinity": {"podAntiAffinity": required}})
    (target,) = sandbox.add_nodes("b", zone="z1")
    cordon(sandbox, node_of(old))
    seen: list[JsonObject] = []

    def look(point: str, key: str) -> None:
        if point == "before-evict":
            seen.extend(sandbox.all("poddisruptionbudgets"))

    options: MigrationOptions = msgspec.structs.replace(
        COORDINATED, temporary_budget=TemporaryBudget(min_available=0)
    )
    async with controller_on(sandbox.cluster, options, reached=look):
        name = sandbox.migrate(old, target)
        (status,) = await sandbox.finished(name)
    assert (status["mode"], status["outcome"], status["attempts"]) == ("Evict", "Landed", 2), status
    assert [created["spec"]["minAvailable"] for created in seen] == [0]
    assert sandbox.all("poddisruptionbudgets") == []
    assert sandbox.leftovers() == []


async def test_a_replacement_that_its_kubelet_does_not_admit_is_not_taken_for_the_new_pod(
    sandbox: Sandbox,
) -> None:
    """It fails at once, and its object stays. The workload creates another one."""
    (source,) = sandbox.add_nodes("a")
    (old,) = sandbox.deploy("web", 1, strategy={"type": "Recreate"})
    (target,) = sandbox.add_nodes("b", managed=False)
    cordon(sandbox, source)

    def arrived() -> list[JsonObject]:
        pods = [pod for pod in sandbox.pods("web") if node_of(pod) == target]
        return [pod for pod in pods if pod["status"]["phase"] != "Failed"]

    async with controller_on(sandbox.cluster):
        name = sandbox.migrate(old, target)
        await sandbox.until(
            lambda: any(ID in pod["metadata"]["labels"] for pod in arrived()), "it is claimed"
        )
        (rejected,) = arrived()
        path = sandbox.path("pods", rejected["metadata"]["name"])
        failed = {"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected"}
        sandbox.outside.patch(f"{path}/status", {"status": failed})
        await sandbox.until(arrived, "there is another one")
        (replacement,) = arrived()
        set_running(sandbox, replacement)
        (status,) = await sandbox.finished(name)
    assert (status["phase"], status["outcome"]) == ("Completed", "Landed"), status
    assert status["message"].startswith(f"{replacement['metadata']['name']} runs on {target}")
    assert sandbox.leftovers() == []
