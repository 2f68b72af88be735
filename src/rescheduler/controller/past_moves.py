"""The history that the planner needs: the outcomes of earlier moves, and the moves in flight."""

from collections.abc import Iterable

from rescheduler.migration.crd import WAITING_TO_START
from rescheduler.migration.memory.move_record import MoveRecord
from rescheduler.migration.migration_object import Migration
from rescheduler.planning.context import MoveInFlight, PastMove


def past_moves(records: Iterable[MoveRecord]) -> tuple[PastMove, ...]:
    """The moves that have an outcome, oldest first."""
    moves = [
        PastMove(
            pod=record.pod_key,
            workload=record.subject if record.spec.workload is not None else "",
            source=record.spec.source_node,
            target=record.spec.target_node,
            outcome=record.spec.outcome,
            at=record.spec.finished_at.timestamp(),
            strategy=record.spec.strategy,
            new_pod=f"{record.spec.namespace}/{record.spec.new_pod}" if record.spec.new_pod else "",
        )
        for record in records
    ]
    return tuple(sorted(moves, key=lambda move: (move.at, move.pod)))


def unreplaced_pods(
    migrations: Iterable[Migration], records: Iterable[MoveRecord] = ()
) -> dict[str, int]:
    """How many pods workloads had before one was evicted and not replaced.

    `records` are those that are still believed.
    """
    counts: dict[str, int] = {}
    found = [
        (workload_of(migration), migration.status.workload)
        for migration in migrations
        if migration.is_unreplaced
    ]
    found += [
        (record.subject, record.spec.workload) for record in records if record.spec.unreplaced
    ]
    for name, workload in found:
        if workload is not None:
            counts[name] = max(counts.get(name, 0), workload.replicas or 0)
    return counts


def workloads_ignoring_nominations(
    migrations: Iterable[Migration], records: Iterable[MoveRecord] = ()
) -> frozenset[str]:
    """Workloads whose scheduler was found not to look at nominations.

    `records` are those that are still believed.
    """
    found = [workload_of(migration) for migration in migrations if migration.has_ignored_nomination]
    found += [record.subject for record in records if record.spec.nomination_ignored]
    return frozenset(found)


def moves_in_flight(migrations: Iterable[Migration]) -> tuple[MoveInFlight, ...]:
    """The moves that are in progress or pending."""
    moves = [
        MoveInFlight(
            pod=migration.pod_key,
            target=migration.spec.target_node,
            new_pod=new_pod_of(migration),
            workload=workload_of(migration),
            source=migration.status.source_node,
            strategy=migration.spec.strategy,
            waits_for=migration.status.message if migration.is_pending else "",
            is_paused=migration.is_pending and migration.spec.paused,
            is_held_up=is_held_up(migration),
        )
        for migration in migrations
        if not migration.is_finished
    ]
    return tuple(sorted(moves, key=lambda move: (move.pod, move.target)))


def is_held_up(migration: Migration) -> bool:
    """Whether a pending migration would not start even if there were a free slot."""
    has_waited = migration.status.failures > 0 or migration.status.message != WAITING_TO_START
    return migration.is_pending and has_waited


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
