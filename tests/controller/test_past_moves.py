"""What the planner learns from Migrations: past outcomes, and moves in flight."""

from datetime import UTC, datetime

import msgspec

from rescheduler.controller.past_moves import moves_in_flight, past_moves, unreplaced_pods
from rescheduler.migration.crd import WAITING_TO_START
from rescheduler.migration.memory.move_record import record_of
from rescheduler.migration.migration_object import (
    RETIRING,
    Migration,
    MigrationCondition,
    MigrationMeta,
    MigrationSpec,
    MigrationStatus,
    Phase,
    PodReference,
    WorkloadReference,
)
from rescheduler.model.moves import Outcome

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def migration(phase: Phase, outcome: Outcome = Outcome.NONE) -> Migration:
    status = MigrationStatus(
        phase=phase,
        outcome=outcome,
        finished_at=NOW if phase in (Phase.COMPLETED, Phase.CANCELLED) else None,
        workload=WorkloadReference("StatefulSet", "db", "sts"),
        source_node="a",
    )
    metadata = MigrationMeta(name="m", namespace="shop", uid="mig", resource_version="1")
    return Migration(metadata, MigrationSpec(PodReference("db-0", "old"), "b"), status)


def test_the_outcome_of_a_move_is_remembered() -> None:
    record = record_of(migration(Phase.COMPLETED, Outcome.CAME_BACK))
    assert record is not None
    (move,) = past_moves([record])
    assert (move.pod, move.workload) == ("shop/db-0", "StatefulSet/shop/db")
    assert (move.source, move.target, str(move.outcome)) == ("a", "b", "CameBack")
    assert record_of(migration(Phase.CANCELLED)) is None


def test_a_move_that_waits_or_has_failed_is_held_up_and_one_that_is_queued_is_not() -> None:
    queued = migration(Phase.PENDING)
    for changes, is_held_up in (
        ({"message": WAITING_TO_START}, False),
        ({"message": "waiting: Deployment web is rolling out another version"}, True),
        ({"message": WAITING_TO_START, "failures": 1}, True),
    ):
        status = msgspec.structs.replace(queued.status, **changes)
        (move,) = moves_in_flight([msgspec.structs.replace(queued, status=status)])
        assert move.is_held_up == is_held_up


def test_pods_that_were_evicted_and_not_replaced_are_counted() -> None:
    failed = migration(Phase.FAILED, Outcome.FAILED)
    evicted = MigrationCondition(RETIRING, "True")
    workload = WorkloadReference("CloneSet", "web", "clone", replicas=4)
    status = msgspec.structs.replace(failed.status, workload=workload, conditions=(evicted,))
    unreplaced = msgspec.structs.replace(failed, status=status)
    assert unreplaced_pods([failed, unreplaced]) == {"CloneSet/shop/web": 4}
    ended = msgspec.structs.replace(status, finished_at=NOW)
    record = record_of(msgspec.structs.replace(failed, status=ended))
    assert record is not None
    assert unreplaced_pods([], [record]) == {"CloneSet/shop/web": 4}


def test_moves_in_flight_are_those_that_have_not_ended() -> None:
    migrations = [
        migration(Phase.IN_PROGRESS),
        migration(Phase.PENDING),
        migration(Phase.COMPLETED, Outcome.LANDED),
    ]
    found = moves_in_flight(migrations)
    assert [(move.pod, move.target) for move in found] == [("shop/db-0", "b")] * 2
