"""What became of earlier moves, and which are under way: what the planner should know."""

from collections.abc import Iterable

from rescheduler.migration.migration_object import Migration, Phase
from rescheduler.planning.context import MoveInFlight, PastMove


def past_moves(migrations: Iterable[Migration]) -> tuple[PastMove, ...]:
    """The moves that ended one way or the other, oldest first. Cancelled ones say nothing."""
    moves = [
        PastMove(
            pod=each.pod_key,
            workload=workload_of(each),
            source=each.status.source_node,
            target=each.spec.target_node,
            outcome=each.status.outcome,
            at=each.status.finished_at.timestamp(),
        )
        for each in migrations
        if each.is_finished and each.status.outcome and each.status.finished_at is not None
    ]
    return tuple(sorted(moves, key=lambda move: (move.at, move.pod)))


def moves_in_flight(migrations: Iterable[Migration]) -> tuple[MoveInFlight, ...]:
    """The moves that are in progress or wait for their turn."""
    moves = [
        MoveInFlight(pod=each.pod_key, target=each.spec.target_node, new_pod=new_pod_of(each))
        for each in migrations
        if each.status.phase in (Phase.PENDING, Phase.IN_PROGRESS)
    ]
    return tuple(sorted(moves, key=lambda move: (move.pod, move.target)))


def new_pod_of(migration: Migration) -> str:
    """The key of the pod that was made on the target, if there is one."""
    name = migration.status.new_pod
    return f"{migration.metadata.namespace}/{name}" if name else ""


def workload_of(migration: Migration) -> str:
    """What a migration's pod belongs to, as the planner calls it; empty for a bare pod."""
    workload = migration.status.workload
    if workload is None:
        return ""
    return f"{workload.kind}/{migration.metadata.namespace}/{workload.name}"
