"""What the planner learns from Migrations: past outcomes, and moves in flight."""

from datetime import UTC, datetime

from rescheduler.controller.past_moves import moves_in_flight, past_moves
from rescheduler.migration.migration_object import (
    Migration,
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
    (move,) = past_moves([migration(Phase.COMPLETED, Outcome.CAME_BACK)])
    assert (move.pod, move.workload) == ("shop/db-0", "StatefulSet/shop/db")
    assert (move.source, move.target, str(move.outcome)) == ("a", "b", "CameBack")
    assert past_moves([migration(Phase.CANCELLED)]) == ()


def test_moves_in_flight_are_those_that_have_not_ended() -> None:
    migrations = [
        migration(Phase.IN_PROGRESS),
        migration(Phase.PENDING),
        migration(Phase.COMPLETED, Outcome.LANDED),
    ]
    found = moves_in_flight(migrations)
    assert [(move.pod, move.target) for move in found] == [("shop/db-0", "b")] * 2
