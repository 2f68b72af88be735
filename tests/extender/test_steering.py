"""Replacements of evicted pods are steered to the planned node by the webhook."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from rescheduler.extender.webhook.registration import CONFIGURATION_NAME
from testcluster.applying import apply
from testcluster.builders import ZONE_LABEL, pod, statefulset
from testcluster.client import JsonObject
from testcluster.cluster import is_listening
from testcluster.ports import pick_ports
from testcluster.serving import serve
from testcluster.waiting import wait_until
from tests.conftest import Start
from tests.extender.kube_scheduler import OURS
from tests.extender.running_extender import CONFIGURATIONS, serving_on, wait_until_webhook_is_called
from tests.migration.support import (
    ID,
    QUICK_OPTIONS,
    Sandbox,
    controller_on,
    is_ready,
    node_of,
    other_node,
    set_running,
)

STEERED_BY = "rescheduler.dev/steered-by"
POLICY = """
enabledStrategies: []
migration: {maxInFlight: 10, maxPerNode: 10, maxPerWorkload: 2}
"""


def volume(name: str, zone: str, claim: str) -> JsonObject:
    """A disk of one zone, meant for one claim."""
    namespace, _, claim_name = claim.partition("/")
    in_zone = {"key": ZONE_LABEL, "operator": "In", "values": [zone]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "by-hand",
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": namespace, "name": claim_name},
            "hostPath": {"path": f"/{name}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [in_zone]}]}},
        },
    }


def database(sandbox: Sandbox, name: str, replicas: int) -> JsonObject:
    """A StatefulSet with a disk for each of its pods."""
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "by-hand",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    return statefulset(
        f"{sandbox.namespace}/{name}",
        replicas,
        "100m",
        template=sandbox.here(),
        volumeClaimTemplates=[claim],
    )


def claims(sandbox: Sandbox) -> dict[str, tuple[str, str]]:
    """By name of the claim: its uid and its disk."""
    path = f"/api/v1/namespaces/{sandbox.namespace}/persistentvolumeclaims"
    return {
        claim["metadata"]["name"]: (claim["metadata"]["uid"], claim["spec"].get("volumeName", ""))
        for claim in sandbox.outside.get(path)["items"]
    }


def next_in_zone(node: str, nodes: dict[str, list[str]]) -> str:
    """Another node that the same disks can be used from."""
    in_zone = next(names for names in nodes.values() if node in names)
    return in_zone[(in_zone.index(node) + 1) % len(in_zone)]


async def test_fifty_pods_with_disks_of_a_zone_land_where_they_were_planned(
    sandbox: Sandbox, tmp_path: Path, start: Start, output: Callable[[], str]
) -> None:
    """Controller and webhook in one process, with certificates that it issues itself."""
    zones = {"z1": ["a1", "a2", "a3", "a4", "a5"], "z2": ["b1", "b2", "b3", "b4", "b5"]}
    nodes = {zone: sandbox.add_nodes(*names, zone=zone) for zone, names in zones.items()}
    sets = [f"db{number}" for number in range(10)]
    disks = [
        volume(
            f"{sandbox.namespace}-{name}-{ordinal}",
            zone,
            f"{sandbox.namespace}/data-{name}-{ordinal}",
        )
        for index, name in enumerate(sets)
        for ordinal in range(5)
        for zone in [("z1", "z2")[index % 2]]
    ]
    apply(sandbox.cluster, *disks, *[database(sandbox, name, 5) for name in sets])
    pods = [pod for name in sets for pod in sandbox.wait_ready(name, 5)]
    assert len(pods) == 50
    had = claims(sandbox)
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    (port,) = pick_ports(1)
    address = f"127.0.0.1:{port}"
    start(
        *("run", "--policy", policy, "--serve", address, "--webhook-url", f"https://{address}"),
        *("--certificates-secret", f"{sandbox.namespace}/certificates", "--no-leader-election"),
    )
    wait_until(lambda: "Finished a round" in output(), what="it runs")
    wait_until_webhook_is_called(sandbox)
    planned = {pod["metadata"]["name"]: next_in_zone(node_of(pod), nodes) for pod in pods}
    migrations = [
        sandbox.migrate(pod, planned[pod["metadata"]["name"]], mode="Evict") for pod in pods
    ]
    statuses = await sandbox.finished(*migrations)
    sandbox.outside.delete(f"{CONFIGURATIONS}/{CONFIGURATION_NAME}")
    outcomes = [(status["outcome"], status["steered"]) for status in statuses]
    assert outcomes == [("Landed", True)] * 50, statuses
    found = {pod["metadata"]["name"]: node_of(pod) for pod in sandbox.pods()}
    assert found == planned
    assert claims(sandbox) == had
    assert all(is_ready(pod) for pod in sandbox.pods())
    assert sandbox.leftovers() == []
    for disk in disks:
        sandbox.outside.delete(f"/api/v1/persistentvolumes/{disk['metadata']['name']}")


async def test_one_pod_is_steered_for_each_migration_whatever_else_is_created(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    """A scale-up at the same time creates pods that look the same."""
    sandbox.add_nodes("a", "b", "c")
    pods = sandbox.deploy("web", 3, strategy={"type": "Recreate"})
    old = pods[0]
    target = other_node(sandbox, old)
    scaled = False

    def scale_up(point: str, key: str) -> None:
        nonlocal scaled
        if point == "before-evict" and not scaled:
            scaled = True
            path = sandbox.path("deployments", "web")
            sandbox.outside.patch(path, {"spec": {"replicas": 8}})

    async with (
        serving_on(sandbox.cluster, tmp_path, webhook=True),
        controller_on(sandbox.cluster, QUICK_OPTIONS, scale_up),
    ):
        await asyncio.to_thread(wait_until_webhook_is_called, sandbox)
        (status,) = await sandbox.finished(sandbox.migrate(old, target, mode="Evict"))
        await asyncio.to_thread(sandbox.wait_ready, "web", 8)
    assert len(steered_in(sandbox)) == 1, status
    assert status["steered"], status
    assert sandbox.leftovers() == []


async def test_the_extender_alone_brings_a_replacement_to_its_target(
    sandbox: Sandbox, start: Start, tmp_path: Path
) -> None:
    """The scheduler's own scores are against it: the target is by far the fullest node.

    The extender writes its mark after it has answered. So the pod gets Ready only after that.
    """
    size = {"cpu": "10", "memory": "10Gi"}
    (target,) = sandbox.add_nodes("a", managed=False, **size)
    sandbox.add_nodes("b", "c", "d", **size)
    template = sandbox.here(schedulerName=OURS)
    apply(sandbox.cluster, pod(f"{sandbox.namespace}/filler", on=target, cpu="6", memory="6Gi"))
    database = statefulset(f"{sandbox.namespace}/db", 1, "1", "1Gi", template=template)
    served = serve(start, tmp_path / "tls")
    with sandbox.cluster.extra_scheduler(served.configuration()):
        apply(sandbox.cluster, database)
        (old,) = await asyncio.to_thread(sandbox.wait_ready, "db", 1)
        assert node_of(old) != target
        async with controller_on(sandbox.cluster):
            name = sandbox.migrate(old, target)
            await sandbox.until(lambda: steered_in(sandbox, "db"), "it is steered")
            await sandbox.until(lambda: target in map(node_of, sandbox.pods("db")), "it is bound")
            set_running(sandbox, *sandbox.pods("db"))
            (status,) = await sandbox.finished(name)
    assert (status["outcome"], status["steered"]) == ("Landed", True), status
    assert sandbox.leftovers() == []


async def test_a_migration_deleted_while_its_replacement_is_steered_leaves_no_mark(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    sandbox.add_nodes("a", "b")
    (old,) = sandbox.deploy("web", 1, strategy={"type": "Recreate"})
    landing: list[str] = []

    def delete(point: str, key: str) -> None:
        if point == "before-landing":
            landing.append(key)
            sandbox.outside.delete(sandbox.path("migrations", key.partition("/")[2]))

    async with (
        serving_on(sandbox.cluster, tmp_path, webhook=True),
        controller_on(sandbox.cluster, QUICK_OPTIONS, delete),
    ):
        await asyncio.to_thread(wait_until_webhook_is_called, sandbox)
        sandbox.migrate(old, other_node(sandbox, old), mode="Evict")
        await sandbox.until(lambda: landing and not sandbox.all("migrations"), "it was deleted")
        await asyncio.to_thread(sandbox.wait_ready, "web", 1)
        await sandbox.until(lambda: not sandbox.leftovers(), "no mark is left")
    (new,) = sandbox.pods("web")
    assert ID not in new["metadata"]["labels"]
    assert STEERED_BY not in new["metadata"].get("annotations", {})


async def test_a_pod_that_stops_slower_than_a_step_may_take_gets_a_steered_replacement(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    """Its replacement is created only when it has ended, long after the step's time."""
    (home,) = sandbox.add_nodes("home", managed=False)
    template = sandbox.here(terminationGracePeriodSeconds=600)
    apply(sandbox.cluster, statefulset(f"{sandbox.namespace}/db", 1, "100m", template=template))
    await sandbox.until(lambda: home in map(node_of, sandbox.pods()), "it is bound")
    (old,) = sandbox.pods("db")
    set_running(sandbox, old)
    target, *_ = sandbox.add_nodes("target", "other", "another")
    async with (
        serving_on(sandbox.cluster, tmp_path, webhook=True),
        controller_on(sandbox.cluster),
    ):
        await asyncio.to_thread(wait_until_webhook_is_called, sandbox)
        name = sandbox.migrate(old, target, timeoutSeconds=2)
        await sandbox.until(lambda: sandbox.status(name).get("step") == "Landing", "it is evicted")
        evicted = datetime.fromisoformat(sandbox.status(name)["stepStartedAt"])
        await sandbox.until(
            lambda: datetime.now(UTC) - evicted > timedelta(seconds=4), "its time is over"
        )
        assert sandbox.status(name)["step"] == "Landing"
        path = sandbox.path("pods", old["metadata"]["name"])
        sandbox.outside.request("DELETE", path, {"gracePeriodSeconds": 0})
        (status,) = await sandbox.finished(name)
    assert (status["outcome"], status["steered"]) == ("Landed", True), status


async def test_without_webhook_and_extender_a_move_is_marked_as_unsteered(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a", "b")
    (old,) = sandbox.deploy("web", 1, strategy={"type": "Recreate"})
    async with controller_on(sandbox.cluster):
        (status,) = await sandbox.finished(sandbox.migrate(old, other_node(sandbox, old)))
    assert status["steered"] is False
    assert status["message"].endswith("unsteered")


async def test_pods_are_created_when_the_webhook_does_not_respond(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    sandbox.add_nodes("a")
    async with serving_on(sandbox.cluster, tmp_path, webhook=True) as extender:
        await asyncio.to_thread(wait_until_webhook_is_called, sandbox)
        extender.program.stop()
        await sandbox.until(lambda: not is_listening(extender.port), "it has stopped")
        pods = await asyncio.to_thread(sandbox.deploy, "web", 3)
    assert len(pods) == 3


async def test_other_pods_are_created_as_they_are(sandbox: Sandbox, tmp_path: Path) -> None:
    sandbox.add_nodes("a")
    async with serving_on(sandbox.cluster, tmp_path, webhook=True):
        await asyncio.to_thread(wait_until_webhook_is_called, sandbox)
        pods = await asyncio.to_thread(sandbox.deploy, "web", 3)
    for created in pods:
        assert "affinity" not in created["spec"]
        assert ID not in created["metadata"]["labels"]


async def test_preferences_are_added_to_those_that_a_pod_has(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    first, second = sandbox.add_nodes("a", "b")
    own: dict[str, Any] = {
        "weight": 1,
        "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["fast"]}]},
    }
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [own]}
    template = {"affinity": {"nodeAffinity": preferred}}
    (old,) = sandbox.deploy("web", 1, template, strategy={"type": "Recreate"})
    target = second if node_of(old) == first else first
    async with (
        serving_on(sandbox.cluster, tmp_path, webhook=True),
        controller_on(sandbox.cluster),
    ):
        await asyncio.to_thread(wait_until_webhook_is_called, sandbox)
        (status,) = await sandbox.finished(sandbox.migrate(old, target))
    assert (status["outcome"], status["steered"]) == ("Landed", True), status
    (new,) = sandbox.pods("web")
    node_affinity = new["spec"]["affinity"]["nodeAffinity"]
    terms = node_affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    assert [term["weight"] for term in terms] == [1, 100, 50]
    assert sandbox.leftovers() == []


async def test_two_replacements_of_one_workload_each_get_to_their_target(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    """They look the same. The scheduler would not bring both to one node: it spreads replicas."""
    sandbox.add_nodes("a", "b", "c", "d")
    moved = sandbox.deploy("web", 4, strategy={"type": "Recreate"})[:2]
    targets = sandbox.add_nodes("e", "f")
    async with (
        serving_on(sandbox.cluster, tmp_path, webhook=True),
        controller_on(sandbox.cluster, QUICK_OPTIONS),
    ):
        await asyncio.to_thread(wait_until_webhook_is_called, sandbox)
        migrations = [
            sandbox.migrate(old, target, mode="Evict")
            for old, target in zip(moved, targets, strict=True)
        ]
        statuses = await sandbox.finished(*migrations)
        await asyncio.to_thread(sandbox.wait_ready, "web", 4)
    outcomes = [(status["outcome"], status["steered"], status["newNode"]) for status in statuses]
    assert outcomes == [("Landed", True, target) for target in targets], statuses
    assert sandbox.leftovers() == []


async def test_a_replacement_keeps_its_migration_when_the_webhook_is_replaced_meanwhile(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    """The second one finds it by its mark, and steers no other pod for the same migration."""
    sandbox.add_nodes("a", "b")
    pods = sandbox.deploy("web", 2, strategy={"type": "Recreate"})
    old, target = pods[0], other_node(sandbox, pods[0])
    async with controller_on(sandbox.cluster, QUICK_OPTIONS):
        async with serving_on(sandbox.cluster, tmp_path / "first", webhook=True):
            await asyncio.to_thread(wait_until_webhook_is_called, sandbox)
            migration = sandbox.migrate(old, target, mode="Evict")
            await sandbox.until(lambda: steered_in(sandbox), "it is steered")
        async with serving_on(sandbox.cluster, tmp_path / "second", webhook=True):
            await asyncio.to_thread(wait_until_webhook_is_called, sandbox)
            sandbox.outside.patch(sandbox.path("deployments", "web"), {"spec": {"replicas": 5}})
            (status,) = await sandbox.finished(migration)
            await asyncio.to_thread(sandbox.wait_ready, "web", 5)
    assert (status["outcome"], status["steered"]) == ("Landed", True), status
    assert len(steered_in(sandbox)) == 1
    assert sandbox.leftovers() == []


def steered_in(sandbox: Sandbox, app: str = "web") -> list[JsonObject]:
    """The pods that carry the mark of having been steered."""
    return [
        pod for pod in sandbox.pods(app) if STEERED_BY in pod["metadata"].get("annotations", {})
    ]
