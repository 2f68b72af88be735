"""Which spans end when the status of a Migration changes.

All is derived from the Migration, nothing is remembered. The trace has the uid of the Migration as
its id, and each span an id that depends on nothing but that uid and on when its step began. So a
controller that takes over in the middle continues the same trace, and a span that is sent twice is
the same one.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from rescheduler.migration.migration_object import Migration, MigrationStatus, Phase, Step

MIGRATION_SPAN = "Migration"
WAITING_SPAN = "Waiting"
"""From the creation of a Migration until its first attempt starts."""

Attributes = Mapping[str, str | int]


@dataclass(frozen=True)
class MigrationSpan:
    """A part of a migration that has ended."""

    trace_id: int
    span_id: int
    parent_id: int | None
    name: str
    start: datetime
    end: datetime
    attributes: Attributes
    error: str = ""
    """Why it failed; empty if it did not."""


def ended_spans(
    migration: Migration, status: MigrationStatus, now: datetime
) -> Iterator[MigrationSpan]:
    """The spans that end with a change to this status; `migration` has the one before."""
    before, uid = migration.status, migration.metadata.uid
    trace = trace_id(uid)
    if trace is None:
        return
    created = migration.metadata.creation_timestamp
    if created is not None and before.attempts == 0 and status.attempts == 1:
        yield step_span(migration, before, trace, WAITING_SPAN, created, now)
    has_ended = (before.step, before.step_started_at) != (status.step, status.step_started_at)
    if before.step != Step.NONE and before.step_started_at is not None and has_ended:
        # What a step has found out is in the status that follows it.
        error = status.message if status.step == Step.UNDOING else ""
        started, step = before.step_started_at, str(before.step)
        yield step_span(migration, before, trace, step, started, now, error)
    if created is not None and status.finished_at is not None and not migration.is_finished:
        error = status.message if status.phase == Phase.FAILED else ""
        attributes = migration_attributes(migration, status)
        yield MigrationSpan(
            trace, span_id(uid), None, MIGRATION_SPAN, created, now, attributes, error
        )


def step_span(
    migration: Migration,
    status: MigrationStatus,
    trace: int,
    name: str,
    start: datetime,
    end: datetime,
    error: str = "",
) -> MigrationSpan:
    """The span of a step, a child of the migration's."""
    uid = migration.metadata.uid
    own_id = span_id(uid, name, start.isoformat())
    attributes = step_attributes(migration, status)
    return MigrationSpan(trace, own_id, span_id(uid), name, start, end, attributes, error)


def step_attributes(migration: Migration, status: MigrationStatus) -> dict[str, str | int]:
    """What is known about a migration in every step of it."""
    given = {
        "k8s.namespace.name": migration.metadata.namespace,
        "k8s.pod.name": migration.spec.pod.name,
        "rescheduler.migration": migration.key,
        "rescheduler.source_node": status.source_node,
        "rescheduler.target_node": migration.spec.target_node,
        "rescheduler.mode": str(status.mode or migration.spec.mode),
        "rescheduler.strategy": migration.spec.strategy,
    }
    known: dict[str, str | int] = {name: value for name, value in given.items() if value}
    return known | {"rescheduler.attempt": status.attempts}


def migration_attributes(migration: Migration, status: MigrationStatus) -> dict[str, str | int]:
    """What is known about a migration when it has finished."""
    given = {
        "rescheduler.phase": str(status.phase),
        "rescheduler.outcome": str(status.outcome),
        "rescheduler.new_pod": status.new_pod,
        "rescheduler.new_node": status.new_node,
        "rescheduler.reason": migration.spec.reason,
        "rescheduler.message": status.message,
    }
    return step_attributes(migration, status) | {name: text for name, text in given.items() if text}


def trace_id(uid: str) -> int | None:
    """The id of a Migration's trace: its uid without the hyphens; None if that is no uid."""
    try:
        return UUID(uid).int or None
    except ValueError:
        return None


def span_id(*parts: str) -> int:
    """An id that the same parts always give. Zero would be invalid."""
    digest = hashlib.sha256("\0".join(parts).encode()).digest()
    return int.from_bytes(digest[:8]) or 1
