"""What Migrations have found out about workloads, for later Migrations of the same workloads.

It lasts as long as the Migrations that say it, and at least a day where moves are recorded. Only
those of the workload's own namespace count: who may write Migrations in another one has no say
about it.
"""

from collections.abc import Callable, Iterable
from datetime import datetime

from rescheduler.migration.memory.move_record import MoveRecord, MoveRecordSpec
from rescheduler.migration.migration_object import Migration
from rescheduler.model.tables.object_table import ObjectTable
from rescheduler.model.tables.table import TableChange


class WorkloadFindings:
    """Keeps the few Migrations that later ones must know of, by key."""

    def __init__(
        self,
        migrations: ObjectTable[Migration],
        records: Callable[[datetime], Iterable[MoveRecord]],
    ) -> None:
        """`records`: those that have found out something which is believed at a given time."""
        self._migrations = migrations
        self._records = records
        self._noteworthy: dict[str, Migration] = {}

    def observe(self, change: TableChange) -> None:
        """Take note of a Migration that has changed or was deleted."""
        migration = self._migrations.get(change.key)
        if migration is not None and is_noteworthy(migration):
            self._noteworthy[change.key] = migration
        else:
            self._noteworthy.pop(change.key, None)

    def ignores_nominations(self, namespace: str, workload_uid: str, now: datetime) -> bool:
        """Whether the scheduler of this workload was found not to look at nominations."""
        found = self._of(namespace, workload_uid)
        return any(migration.has_ignored_nomination for migration in found) or any(
            record.nomination_ignored for record in self._recorded(namespace, workload_uid, now)
        )

    def unreplaced_from(self, namespace: str, workload_uid: str, now: datetime) -> int:
        """How many pods it had before one was evicted and not replaced; 0 if all were."""
        counts = [
            migration.status.workload.replicas or 0
            for migration in self._of(namespace, workload_uid)
            if migration.is_unreplaced and migration.status.workload is not None
        ]
        counts += [
            record.workload.replicas or 0
            for record in self._recorded(namespace, workload_uid, now)
            if record.unreplaced and record.workload is not None
        ]
        return max(counts, default=0)

    def _of(self, namespace: str, workload_uid: str) -> list[Migration]:
        return [
            migration
            for migration in self._noteworthy.values()
            if migration.metadata.namespace == namespace
            and migration.status.workload is not None
            and migration.status.workload.uid == workload_uid
        ]

    def _recorded(self, namespace: str, workload_uid: str, now: datetime) -> list[MoveRecordSpec]:
        return [
            record.spec
            for record in self._records(now)
            if record.spec.namespace == namespace
            and record.spec.workload is not None
            and record.spec.workload.uid == workload_uid
        ]


def is_noteworthy(migration: Migration) -> bool:
    """Whether later migrations of the same workload must know of this one."""
    return migration.has_ignored_nomination or migration.is_unreplaced
