"""Puts Migrations into words: which are under way, and why some do not go on. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from rescheduler.migration.crd import WAITING_TO_START
from rescheduler.migration.memory.move_record import MoveRecord
from rescheduler.migration.migration_object import Migration, Phase, Step
from rescheduler.status.reasons import MigrationReason
from rescheduler.status.status_document import MigrationState, MigrationSummary, cut

MOST_MIGRATIONS = 50
# Of each phase, if there are so many: else those that wait would hide those that have failed.
LEAST_OF_A_PHASE = 10
SHOWN_ORDER = (Phase.IN_PROGRESS, Phase.PENDING, Phase.FAILED)
RECENT = timedelta(hours=24)


def migration_summary(migrations: Iterable[Migration], now: datetime) -> MigrationSummary:
    """All Migrations counted, and those listed that are not over or failed."""
    found = sorted(migrations, key=lambda each: each.key)
    phases = Counter(str(migration.status.phase) for migration in found)
    listed = tuple(migration_state(each, now) for each in most_interesting(found))
    return MigrationSummary(dict(sorted(phases.items())), listed)


def most_interesting(found: Sequence[Migration]) -> list[Migration]:
    """Those that are shown, with some of every phase."""
    of_phase = {
        phase: [each for each in found if each.status.phase == phase] for phase in SHOWN_ORDER
    }
    kept = {phase: min(len(of_phase[phase]), LEAST_OF_A_PHASE) for phase in SHOWN_ORDER}
    chosen: list[Migration] = []
    for phase in SHOWN_ORDER:
        del kept[phase]
        chosen += of_phase[phase][: MOST_MIGRATIONS - len(chosen) - sum(kept.values())]
    return chosen


def migration_state(migration: Migration, now: datetime) -> MigrationState:
    """One Migration."""
    spec, status = migration.spec, migration.status
    started = status.step_started_at if migration.is_in_progress else None
    return MigrationState(
        name=migration.key,
        pod=migration.pod_key,
        target=spec.target_node,
        phase=str(status.phase),
        source=status.source_node,
        step=str(status.step),
        mode=str(status.mode or ""),
        reason=str(why_not_going_on(migration)),
        message=cut(status.message),
        step_seconds=None if started is None else max(0.0, (now - started).total_seconds()),
    )


def why_not_going_on(migration: Migration) -> MigrationReason:
    """Why a Migration does not go on; nothing if it does."""
    status = migration.status
    if status.phase == Phase.FAILED:
        return MigrationReason.FAILED
    if migration.is_in_progress:
        return MigrationReason.UNDOING if status.step == Step.UNDOING else MigrationReason.NONE
    if not migration.is_pending:
        return MigrationReason.NONE
    if migration.spec.paused:
        return MigrationReason.PAUSED
    if status.failures:
        return MigrationReason.RETRYING
    if status.message in ("", WAITING_TO_START):
        return MigrationReason.NOT_STARTED
    return MigrationReason.WAITING


def recent_outcomes(records: Iterable[MoveRecord], now: datetime) -> dict[str, int]:
    """How the moves of the last day ended."""
    recent = (record for record in records if now - record.spec.finished_at < RECENT)
    return dict(Counter(str(record.spec.outcome) for record in recent))
