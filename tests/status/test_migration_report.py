"""Which Migrations a status lists, and why those do not go on that do not."""

from collections import Counter
from datetime import UTC, datetime

import pytest

from rescheduler.migration.migration_object import (
    Migration,
    MigrationMeta,
    MigrationSpec,
    MigrationStatus,
    Phase,
    PodReference,
)
from rescheduler.status.migration_report import migration_summary

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def migrations(phase: Phase, count: int) -> list[Migration]:
    return [
        Migration(
            metadata=MigrationMeta(name=f"{phase}-{number}", namespace="shop"),
            spec=MigrationSpec(PodReference("web"), "b"),
            status=MigrationStatus(phase=phase),
        )
        for number in range(count)
    ]


@pytest.mark.parametrize(
    ("in_progress", "pending", "failed", "listed"),
    [
        (3, 4, 5, (3, 4, 5)),
        (20, 500, 5, (20, 25, 5)),
        (500, 500, 500, (30, 10, 10)),
        (0, 500, 0, (0, 50, 0)),
        (0, 0, 500, (0, 0, 50)),
    ],
)
def test_those_that_wait_do_not_hide_those_that_have_failed(
    in_progress: int, pending: int, failed: int, listed: tuple[int, int, int]
) -> None:
    counts = {Phase.FAILED: failed, Phase.IN_PROGRESS: in_progress, Phase.PENDING: pending}
    found = [each for phase, count in counts.items() for each in migrations(phase, count)]
    summary = migration_summary([*found, *migrations(Phase.COMPLETED, 100)], NOW)
    assert summary.phases == {
        str(phase): count for phase, count in {**counts, Phase.COMPLETED: 100}.items() if count
    }
    shown = Counter(each.phase for each in summary.listed)
    assert (shown["InProgress"], shown["Pending"], shown["Failed"]) == listed
    phases = [each.phase for each in summary.listed]
    assert phases == sorted(phases, key=["InProgress", "Pending", "Failed"].index)
