"""Which records of moves are dropped, so that there are never too many."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta

from rescheduler.migration.memory.move_record import MoveRecord
from rescheduler.model.moves import Outcome

# A cooldown that has grown to a day adds one failure in a day. Rows of nine must stay complete.
KEPT = timedelta(days=14)
MAX_RECORDS = 2_000
# More failures in a row make no cooldown longer.
NEEDED_FAILURES = 12
# For how long it counts that a pod has landed.
NEEDED_LANDING = timedelta(days=1)


def dropped_records(records: Iterable[MoveRecord], now: datetime) -> list[MoveRecord]:
    """The records that are too old, and those that are too many.

    Of too many, the namespace with the most loses some: first what planning no longer needs, then
    the oldest. So moves in one namespace make nobody forget those in another.
    """
    old: list[MoveRecord] = []
    recent: list[MoveRecord] = []
    for record in records:
        (recent if now - record.spec.finished_at < KEPT else old).append(record)
    if len(recent) <= MAX_RECORDS:
        return old
    return old + _surplus(recent, now)


def _surplus(records: list[MoveRecord], now: datetime) -> list[MoveRecord]:
    needed = _needed(records, now)
    by_namespace: defaultdict[str, list[MoveRecord]] = defaultdict(list)
    # The first to go is taken from the end.
    for record in sorted(
        records, key=lambda record: (record.name in needed, *_age_order(record)), reverse=True
    ):
        by_namespace[record.spec.namespace].append(record)
    surplus = []
    for _ in range(len(records) - MAX_RECORDS):
        largest = max(by_namespace.values(), key=len)
        surplus.append(largest.pop())
    return surplus


def _needed(records: list[MoveRecord], now: datetime) -> set[str]:
    """The names of those that a plan may depend on."""
    needed = set()
    failures: defaultdict[str, int] = defaultdict(int)
    for record in sorted(records, key=_age_order, reverse=True):
        if record.spec.outcome == Outcome.LANDED:
            is_needed = now - record.spec.finished_at < NEEDED_LANDING
        else:
            failures[record.subject] += 1
            is_needed = failures[record.subject] <= NEEDED_FAILURES
        if is_needed:
            needed.add(record.name)
    return needed


def _age_order(record: MoveRecord) -> tuple[datetime, str]:
    return record.spec.finished_at, record.name
