"""Records of moves: how many there may be, and which are dropped first."""

from datetime import UTC, datetime, timedelta

import pytest

from rescheduler.migration.memory import record_retention
from rescheduler.migration.memory.move_record import (
    MAX_RECORDED_TEXT,
    MoveRecord,
    MoveRecordSpec,
    body_of,
    record_of,
    shortened,
)
from rescheduler.migration.memory.record_retention import KEPT, NEEDED_FAILURES, dropped_records
from rescheduler.migration.migration_object import (
    Migration,
    MigrationMeta,
    MigrationSpec,
    MigrationStatus,
    Phase,
    PodReference,
    WorkloadReference,
)
from rescheduler.model.moves import Mode, Outcome
from rescheduler.model.objects import Identity

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def recorded(
    name: str,
    hours_ago: float,
    outcome: Outcome = Outcome.FAILED,
    namespace: str = "shop",
    pod: str = "db-0",
) -> MoveRecord:
    finished = NOW - hours_ago * HOUR
    return MoveRecord(Identity(name), MoveRecordSpec(namespace, pod, "a", "b", outcome, finished))


def dropped(records: list[MoveRecord]) -> list[str]:
    return [record.name for record in dropped_records(records, NOW)]


def test_old_records_are_dropped_however_few_there_are() -> None:
    age = KEPT / HOUR
    assert dropped([recorded("old", age), recorded("new", age - 1)]) == ["old"]


def test_no_record_is_dropped_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_retention, "MAX_RECORDS", 2)
    records = [recorded(str(number), number) for number in range(3)]
    assert dropped(records[:2]) == []
    assert dropped(records) == ["2"]


def test_what_landed_yesterday_goes_before_older_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_retention, "MAX_RECORDS", 2)
    landed = recorded("landed", 30, Outcome.LANDED)
    assert dropped([recorded("a", 100), landed, recorded("b", 1)]) == ["landed"]
    just_landed = recorded("just", 20, Outcome.LANDED)
    assert dropped([recorded("a", 100), just_landed, recorded("b", 1)]) == ["a"]


def test_failures_that_make_no_cooldown_longer_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_retention, "MAX_RECORDS", NEEDED_FAILURES + 1)
    row = [recorded(f"row-{number:02}", 10 + number) for number in range(NEEDED_FAILURES + 1)]
    assert dropped([*row, recorded("other", 200, pod="other")]) == [f"row-{NEEDED_FAILURES:02}"]


def test_many_moves_in_one_namespace_make_nobody_else_forget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record_retention, "MAX_RECORDS", 10)
    flood = [recorded(f"m-{n:02}", n / 100, namespace="mallory", pod=f"p-{n}") for n in range(50)]
    others = [recorded(f"s-{n}", 100 + n) for n in range(3)]
    gone = dropped([*flood, *others])
    assert len(gone) == 43
    assert {name[0] for name in gone} == {"m"}
    assert "m-00" not in gone


def test_a_record_says_what_was_moved_and_why_in_few_words() -> None:
    status = MigrationStatus(
        phase=Phase.COMPLETED,
        outcome=Outcome.CAME_BACK,
        mode=Mode.EVICT,
        source_node="a",
        new_node="a",
        new_pod="db-0",
        finished_at=NOW,
        workload=WorkloadReference("StatefulSet", "db", "uid-of-db"),
        message="db-0 came back to a instead of b",
    )
    spec = MigrationSpec(
        PodReference("db-0", "old"), "b", strategy="LoadBalancing", reason="x" * 1000
    )
    metadata = MigrationMeta("m", "shop", uid="0b6e")
    record = record_of(Migration(metadata, spec, status))
    assert record is not None
    body = body_of(record)
    assert body["metadata"] == {"name": "0b6e"}
    assert body["spec"] == {
        "namespace": "shop",
        "pod": "db-0",
        "workload": {"kind": "StatefulSet", "name": "db", "uid": "uid-of-db"},
        "sourceNode": "a",
        "targetNode": "b",
        "newNode": "a",
        "newPod": "db-0",
        "mode": "Evict",
        "strategy": "LoadBalancing",
        "reason": "x" * (MAX_RECORDED_TEXT - 1) + "…",
        "message": "db-0 came back to a instead of b",
        "outcome": "CameBack",
        "finishedAt": "2026-01-01T00:00:00Z",
    }


def test_a_text_that_is_short_enough_is_not_cut() -> None:
    assert shortened("x" * MAX_RECORDED_TEXT) == "x" * MAX_RECORDED_TEXT
