"""What later migrations of a workload learn from earlier ones."""

from datetime import UTC, datetime, timedelta

from rescheduler.migration.memory.move_record import MoveRecord, record_of
from rescheduler.migration.migration_object import (
    MIGRATION,
    NOMINATION_IGNORED,
    PLACED_AS_NOMINATED,
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
from rescheduler.migration.workload_findings import WorkloadFindings
from rescheduler.model.moves import Outcome
from rescheduler.model.tables.object_table import ObjectTable

IGNORED = MigrationCondition(PLACED_AS_NOMINATED, "False", NOMINATION_IGNORED)
EVICTED = MigrationCondition(RETIRING, "True")


NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Findings:
    """Findings from Migrations that are put into a table, as a watch does."""

    def __init__(self) -> None:
        self.table: ObjectTable[Migration] = ObjectTable(MIGRATION)
        self.records: list[MoveRecord] = []
        self.found = WorkloadFindings(
            self.table, lambda now: [each for each in self.records if each.has_findings(now)]
        )

    def add(
        self, condition: MigrationCondition, namespace: str = "shop", version: str = "1"
    ) -> Migration:
        metadata = MigrationMeta(
            name="m", namespace=namespace, uid=f"m-{namespace}", resource_version=version
        )
        workload = WorkloadReference("CloneSet", "web", "web-uid", replicas=4)
        status = MigrationStatus(
            phase=Phase.FAILED,
            outcome=Outcome.FAILED,
            finished_at=NOW,
            workload=workload,
            conditions=(condition,),
        )
        spec = MigrationSpec(PodReference("web-0", "old"), "b")
        migration = Migration(metadata, spec, status)
        for change in self.table.put(migration):
            self.found.observe(change)
        return migration


def test_a_scheduler_that_ignores_nominations_is_known_while_its_migration_exists() -> None:
    findings = Findings()
    migration = findings.add(IGNORED)
    assert findings.found.ignores_nominations("shop", "web-uid", NOW)
    assert not findings.found.ignores_nominations("shop", "another-uid", NOW)
    for change in findings.table.remove(migration):
        findings.found.observe(change)
    assert not findings.found.ignores_nominations("shop", "web-uid", NOW)


def test_a_pod_that_was_not_replaced_is_known_by_how_many_pods_there_were() -> None:
    findings = Findings()
    findings.add(EVICTED)
    assert findings.found.unreplaced_from("shop", "web-uid", NOW) == 4
    assert findings.found.unreplaced_from("shop", "another-uid", NOW) == 0


def test_migrations_of_another_namespace_have_no_say() -> None:
    findings = Findings()
    findings.add(IGNORED, "mallory")
    assert findings.found.ignores_nominations("mallory", "web-uid", NOW)
    assert not findings.found.ignores_nominations("shop", "web-uid", NOW)
    findings.add(EVICTED, "mallory", version="2")
    assert findings.found.unreplaced_from("mallory", "web-uid", NOW) == 4
    assert findings.found.unreplaced_from("shop", "web-uid", NOW) == 0


def test_what_was_found_out_is_believed_for_a_day_after_its_migration_is_gone() -> None:
    findings = Findings()
    for condition in (IGNORED, EVICTED):
        migration = findings.add(condition, version=str(len(findings.records) + 1))
        record = record_of(migration)
        assert record is not None
        findings.records.append(record)
    for change in findings.table.remove(migration):
        findings.found.observe(change)
    assert findings.found.ignores_nominations("shop", "web-uid", NOW)
    assert findings.found.unreplaced_from("shop", "web-uid", NOW) == 4
    assert findings.found.unreplaced_from("mallory", "web-uid", NOW) == 0
    tomorrow = NOW + timedelta(days=1)
    assert not findings.found.ignores_nominations("shop", "web-uid", tomorrow)
    assert findings.found.unreplaced_from("shop", "web-uid", tomorrow) == 0
