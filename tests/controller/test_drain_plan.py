"""Where a drain moves pods to, on a simulated cluster."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from rescheduler.controller.drain.node_drain import COMES_BACK, NodeDrain, RemainingPods
from rescheduler.errors import ApiError, Refused
from rescheduler.kube.api_server import object_path
from rescheduler.migration.migration_object import (
    MIGRATION,
    OLD_POD_ENDED,
    Migration,
    MigrationCondition,
    MigrationStatus,
    Phase,
    WorkloadReference,
)
from rescheduler.migration.migration_request import create_migration, migration_body
from rescheduler.model.moves import Mode, Outcome
from rescheduler.model.rules.node_availability import NodeLabel
from rescheduler.settings import NodeMaintenanceOptions, Policy
from rescheduler.simulation.cluster.cluster import SimulatedCluster
from testcluster.builders import deployment, node, pod, replicaset
from tests.simulation.simulated_clusters import in_simulated_cluster

POLICY = Policy(
    node_maintenance=NodeMaintenanceOptions(maintenance_label=NodeLabel("ops/drain=yes"))
)
ENDED_AT = datetime(2026, 1, 1, tzinfo=UTC)


def moves_of_drain(*others: dict[str, Any]) -> list[tuple[str, str]]:
    """Pod and target of every Migration that draining node `a` creates."""

    async def drain(cluster: SimulatedCluster) -> list[tuple[str, str]]:
        requested: list[tuple[str, str]] = []

        async def create(
            bodies: list[dict[str, Any]], existing: Sequence[Migration]
        ) -> list[Migration]:
            for body in bodies:
                spec = body["spec"]
                requested.append((spec["pod"]["name"], spec["targetNode"]))
            return [msgspec.convert(body, Migration) for body in bodies]

        for other in others:
            cluster.create(other)
        await asyncio.sleep(10)
        await NodeDrain(cluster.server, "a", POLICY).run(create)
        return requested

    return in_simulated_cluster([node("a"), deployment("shop/web", 3, "100m")], drain)


def test_no_pod_goes_to_a_node_that_the_policys_label_marks_for_maintenance() -> None:
    labelled = node("b", labels={"ops/drain": "yes"})
    assert {target for _, target in moves_of_drain(labelled, node("c"))} == {"c"}


@pytest.mark.parametrize(
    ("status", "failure"),
    [
        (
            MigrationStatus(message="no replacement within 60s", evicted_at=ENDED_AT),
            "was evicted, but no replacement within 60s",
        ),
        (
            # Deleted by somebody else first: nobody knows when.
            MigrationStatus(
                message="no replacement within 60s",
                conditions=(MigrationCondition(OLD_POD_ENDED, "True"),),
            ),
            "was evicted, but no replacement within 60s",
        ),
        (MigrationStatus(message="no room"), "was not moved: no room"),
    ],
)
def test_a_pod_that_was_evicted_in_vain_is_not_said_to_be_where_it_was(
    status: MigrationStatus, failure: str
) -> None:
    async def drain(cluster: SimulatedCluster) -> RemainingPods:
        async def create_and_follow(
            bodies: list[dict[str, Any]], existing: Sequence[Migration]
        ) -> list[Migration]:
            failed = msgspec.structs.replace(status, phase=Phase.FAILED)
            migrations = [msgspec.convert(body, Migration) for body in bodies]
            return [msgspec.structs.replace(migration, status=failed) for migration in migrations]

        cluster.create(node("b"))
        await asyncio.sleep(10)
        return await NodeDrain(cluster.server, "a", POLICY).run(create_and_follow)

    objects = [node("a"), deployment("shop/web", 1, "100m")]
    assert list(in_simulated_cluster(objects, drain).failed.values()) == [failure]


def test_a_refused_migration_fails_its_pod_only() -> None:
    async def drain(cluster: SimulatedCluster) -> RemainingPods:
        async def create_and_follow(
            bodies: list[dict[str, Any]], existing: Sequence[Migration]
        ) -> list[Migration | ApiError]:
            _, *others = [msgspec.convert(body, Migration) for body in bodies]
            return [Refused("POST /migrations", "403 Forbidden: exceeded quota"), *others]

        cluster.create(node("b"))
        await asyncio.sleep(10)
        return await NodeDrain(cluster.server, "a", POLICY).run(create_and_follow)

    remaining = in_simulated_cluster([node("a"), deployment("shop/web", 3, "100m")], drain)
    assert list(remaining.failed.values()) == ["was not moved: 403 Forbidden: exceeded quota"]
    assert len(remaining.moving) == 2
    assert not {*remaining.moving} & remaining.failed.keys()


def test_pods_of_other_nodes_under_maintenance_are_left_to_the_controller() -> None:
    assert len(moves_of_drain(node("b"))) == 3
    assert len(moves_of_drain(node("b", labels={"ops/drain": "yes"}), node("c"))) == 3


def test_a_pod_that_stopped_after_its_time_does_not_remain() -> None:
    """It was overdue when it was awaited, and gone when the other pod had been moved."""

    async def drain(cluster: SimulatedCluster) -> RemainingPods:
        async def await_stopping() -> dict[str, str]:
            # Now there is room for the other pod.
            cluster.create(node("b"))
            await asyncio.sleep(10)
            return {"shop/slow": "is still stopping"}

        async def create_and_follow(
            bodies: list[dict[str, Any]], existing: Sequence[Migration]
        ) -> list[Migration]:
            cluster.delete("Pod", "shop/slow", grace_seconds=0)
            cluster.delete("Pod", "shop/web-1", grace_seconds=0)
            done = MigrationStatus(phase=Phase.COMPLETED, source_node="a", new_node="b")
            migrations = [msgspec.convert(body, Migration) for body in bodies]
            return [msgspec.structs.replace(migration, status=done) for migration in migrations]

        cluster.delete("Pod", "shop/slow")
        return await NodeDrain(cluster.server, "a", POLICY, await_stopping).run(create_and_follow)

    owner = replicaset("shop/web")
    pods = [pod("shop/slow", on="a"), pod("shop/web-1", on="a", owner=owner, cpu="100m")]
    remaining = in_simulated_cluster([node("a"), owner, *pods], drain, settle=0)
    assert remaining == RemainingPods({}, {})


def drain_with_existing(
    target: str = "b", *, uid: str = "", ended: MigrationStatus | None = None, **spec: Any
) -> tuple[RemainingPods, list[str], list[str]]:
    """Drain node `a`, of whose two pods `web-1` has a Migration: what remains, and of which pods
    Migrations were created, and followed. With `ended`, all end like this."""
    created: list[str] = []
    followed: list[str] = []

    async def drain(cluster: SimulatedCluster) -> RemainingPods:
        async def create_and_follow(
            bodies: list[dict[str, Any]], existing: Sequence[Migration]
        ) -> list[Migration]:
            migrations = [msgspec.convert(body, Migration) for body in bodies]
            created.extend(migration.pod_key for migration in migrations)
            followed.extend(migration.pod_key for migration in existing)
            migrations += existing
            if ended is None:
                return migrations
            for migration in existing:
                path = object_path(MIGRATION, migration.key)
                await cluster.server.delete(path)
            return [msgspec.structs.replace(migration, status=ended) for migration in migrations]

        own = cluster.list("Pod")["shop/web-1"]["metadata"]["uid"]
        body = migration_body("shop/web-1", uid or own, target)
        body["spec"] |= spec
        await create_migration(cluster.server, body)
        return await NodeDrain(cluster.server, "a", POLICY).run(create_and_follow)

    owner = replicaset("shop/web", 2)
    pods = [pod(f"shop/web-{n}", on="a", owner=owner, cpu="100m") for n in (1, 2)]
    objects = [node("a"), node("b"), node("c"), owner, *pods]
    remaining = in_simulated_cluster(objects, drain, settle=0)
    return remaining, created, followed


def test_a_pod_with_an_unfinished_migration_gets_no_second_one() -> None:
    remaining, created, followed = drain_with_existing()
    assert (created, followed) == (["shop/web-2"], ["shop/web-1"])
    assert remaining == RemainingPods({}, moving=("shop/web-2", "shop/web-1"))


def test_a_migration_that_was_there_before_counts_in_the_outcome() -> None:
    failed = MigrationStatus(phase=Phase.FAILED, message="no room")
    remaining, created, followed = drain_with_existing(ended=failed)
    assert (created, followed) == (["shop/web-2"], ["shop/web-1"])
    assert remaining.failed == dict.fromkeys(("shop/web-1", "shop/web-2"), "was not moved: no room")


def test_a_pod_whose_migration_is_paused_stays_and_is_not_awaited() -> None:
    remaining, created, followed = drain_with_existing(paused=True)
    assert (created, followed) == (["shop/web-2"], [])
    assert remaining.moving == ("shop/web-2",)
    (reason,) = remaining.blocked.values()
    assert reason.endswith(" is paused. To move it, resume or delete that")


def test_a_pod_stays_if_its_migration_goes_to_the_node_that_is_drained() -> None:
    remaining, created, followed = drain_with_existing("a")
    assert (created, followed) == (["shop/web-2"], ["shop/web-1"])
    assert remaining.moving == ("shop/web-2",)
    (reason,) = remaining.blocked.values()
    assert reason.endswith(" goes to this very node. To move it, delete that")


def test_a_pod_is_moved_when_its_migration_to_the_drained_node_was_cancelled() -> None:
    cancelled = MigrationStatus(phase=Phase.CANCELLED, message="it is already on a")
    _, created, followed = drain_with_existing("a", ended=cancelled)
    assert followed == ["shop/web-1"]
    assert "shop/web-1" in created


def test_a_migration_of_an_earlier_pod_of_that_name_is_not_followed() -> None:
    _, created, followed = drain_with_existing(uid="uid-of-an-earlier-pod")
    assert (sorted(created), followed) == (["shop/web-1", "shop/web-2"], [])


def test_a_workload_whose_replacement_comes_back_is_evicted_only_once() -> None:
    """It tolerates the cordon. Evicted again and again, it would come back for ever."""
    owner = replicaset("shop/web", 2)
    evicted: list[str] = []

    async def drain(cluster: SimulatedCluster) -> RemainingPods:
        async def create_and_follow(
            bodies: list[dict[str, Any]], existing: Sequence[Migration]
        ) -> list[Migration]:
            (migration,) = (msgspec.convert(body, Migration) for body in bodies)
            evicted.append(migration.pod_key)
            assert len(evicted) < 4, "it is evicted for ever"
            cluster.delete("Pod", migration.pod_key, grace_seconds=0)
            cluster.create(pod(f"shop/web-{len(evicted) + 2}", on="a", owner=owner, cpu="100m"))
            workload = WorkloadReference("ReplicaSet", "web", owner["metadata"]["uid"])
            status = MigrationStatus(
                phase=Phase.COMPLETED,
                outcome=Outcome.CAME_BACK,
                source_node="a",
                new_node="a",
                workload=workload,
                evicted_at=ENDED_AT,
                message="web-3 came back to a",
            )
            return [msgspec.structs.replace(migration, status=status)]

        return await NodeDrain(cluster.server, "a", POLICY).run(create_and_follow)

    pods = [pod(f"shop/web-{n}", on=on, owner=owner, cpu="100m") for n, on in ((1, "a"), (2, "b"))]
    remaining = in_simulated_cluster([node("a"), node("b"), owner, *pods], drain, settle=0)
    assert evicted == ["shop/web-1"]
    assert remaining.failed == {"shop/web-1": "was evicted, but web-3 came back to a"}
    assert remaining.blocked == {"shop/web-3": COMES_BACK}


def targets_tried(works_on: str) -> tuple[RemainingPods, list[str]]:
    """Drain a node of one pod, which starts on one of the other nodes only; where it was sent."""
    targets: list[str] = []

    async def drain(cluster: SimulatedCluster) -> RemainingPods:
        async def create_and_follow(
            bodies: list[dict[str, Any]], existing: Sequence[Migration]
        ) -> list[Migration]:
            (migration,) = (msgspec.convert(body, Migration) for body in bodies)
            target = migration.spec.target_node
            targets.append(target)
            status = MigrationStatus(
                phase=Phase.FAILED, mode=Mode.HANDOFF, failures=1, message="image cannot be pulled"
            )
            if target == works_on:
                cluster.delete("Pod", migration.pod_key, grace_seconds=0)
                status = MigrationStatus(phase=Phase.COMPLETED, source_node="a", new_node=target)
            return [msgspec.structs.replace(migration, status=status)]

        return await NodeDrain(cluster.server, "a", POLICY).run(create_and_follow)

    owner = replicaset("shop/web", 1)
    nodes = [node(name) for name in "abcdef"]
    objects = [*nodes, owner, pod("shop/web-1", on="a", owner=owner, cpu="100m")]
    return in_simulated_cluster(objects, drain, settle=0), targets


def test_a_pod_that_does_not_start_on_one_node_is_sent_to_another() -> None:
    _, (first, second, _) = targets_tried(works_on="none")
    assert first != second
    remaining, targets = targets_tried(works_on=second)
    assert targets == [first, second]
    assert remaining == RemainingPods({})


def test_a_pod_that_starts_nowhere_is_given_up_after_three_nodes() -> None:
    remaining, targets = targets_tried(works_on="none")
    assert len(targets) == len({*targets}) == 3
    assert remaining.failed == {"shop/web-1": "was not moved: image cannot be pulled"}
