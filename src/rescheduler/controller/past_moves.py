"""The history that the planner needs: the outcomes of earlier moves, and the moves in flight."""

from collections.abc import Iterable

from rescheduler.migration.migration_object import Migration, Phase
from rescheduler.planning.context import MoveInFlight, PastMove


def past_moves(migrations: Iterable[Migration]) -> tuple[PastMove, ...]:
    """The moves that have an outcome, oldest first. Cancelled ones have none."""
    moves = [
        PastMove(
            pod=migration.pod_key,
            workload=workload_of(migration),
            source=migration.status.source_node,
            target=migration.spec.target_node,
            outcome=migration.status.outcome,
            at=migration.status.finished_at.timestamp(),
        )
        for migration in migrations
        if migration.is_finished
        and migration.status.outcome
        and migration.status.finished_at is not None
    ]
    return tuple(sorted(moves, key=lambda move: (move.at, move.pod)))


def moves_in_flight(migrations: Iterable[Migration]) -> tuple[MoveInFlight, ...]:
    """The moves that are in progress or pending."""
    moves = [
        MoveInFlight(
            pod=migration.pod_key,
            target=migration.spec.target_node,
            new_pod=new_pod_of(migration),
        )
        for migration in migrations
        if migration.status.phase in (Phase.PENDING, Phase.IN_PROGRESS)
    ]
    return tuple(sorted(moves, key=lambda move: (move.pod, move.target)))


def new_pod_of(migration: Migration) -> str:
    """The key of the pod that was created on the target; empty if there is none."""
    name = migration.status.new_pod
    return f"{migration.metadata.namespace}/{name}" if name else ""


def workload_of(migration: Migration) -> str:
    """The controller of a migration's pod, as the planner names it; empty for a bare pod."""
    workload = migration.status.workload
    if workload is None:
        return ""
    return f"{workload.kind}/{migration.metadata.namespace}/{workload.name}"
