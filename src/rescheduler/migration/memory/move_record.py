# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""The MoveRecord object: a move that is over, remembered for longer than its Migration.

Its name is the uid of the Migration, so whoever records a move twice finds it recorded. It belongs
to no namespace: who has rights in a namespace cannot write it. It is never changed.
"""

from datetime import datetime, timedelta
from typing import Any

import msgspec

from rescheduler.migration.migration_object import API_VERSION, Migration, WorkloadReference
from rescheduler.model.kinds import Kind
from rescheduler.model.moves import Mode, Outcome
from rescheduler.model.objects import Identity, Part
from rescheduler.model.objects.parts import Timestamp

MAX_RECORDED_TEXT = 256
"""Longer reasons and messages are cut: the record is small, and the beginning says most."""

FINDINGS_LAST = timedelta(days=1)
"""How long it is believed what a move has found out about its workload. It may be mended since."""


class MoveRecordSpec(Part):
    """What was moved, when and why, from where to where, and how it ended."""

    namespace: str
    pod: str
    source_node: str
    target_node: str
    outcome: Outcome
    finished_at: Timestamp
    new_pod: str = ""
    new_node: str = ""
    workload: WorkloadReference | None = None
    mode: Mode | None = None
    strategy: str = ""
    reason: str = ""
    message: str = ""
    unreplaced: bool = False
    """Whether the pod was evicted, and no replacement became Ready in time."""
    nomination_ignored: bool = False
    """Whether the scheduler of the pod was found not to look at nominations."""


class MoveRecord(Part):
    """A move that is over."""

    metadata: Identity
    spec: MoveRecordSpec

    @property
    def name(self) -> str:
        """The uid of its Migration."""
        return self.metadata.name

    @property
    def pod_key(self) -> str:
        """`namespace/name` of the pod that was moved."""
        return f"{self.spec.namespace}/{self.spec.pod}"

    @property
    def subject(self) -> str:
        """The workload that the move says something about, or the pod if it has none."""
        workload = self.spec.workload
        if workload is None:
            return self.pod_key
        return f"{workload.kind}/{self.spec.namespace}/{workload.name}"

    @property
    def deployment(self) -> str:
        """The name of the Deployment that the workload is a ReplicaSet of; empty if it is none."""
        workload = self.spec.workload
        if workload is None or workload.kind != "ReplicaSet" or not workload.template_hash:
            return ""
        ending = f"-{workload.template_hash}"
        return workload.name.removesuffix(ending) if workload.name.endswith(ending) else ""

    def has_findings(self, now: datetime) -> bool:
        """Whether it has found out something about its workload that is still believed."""
        has_found = self.spec.unreplaced or self.spec.nomination_ignored
        return has_found and now - self.spec.finished_at < FINDINGS_LAST


MOVE_RECORD = Kind("MoveRecord", API_VERSION, "moverecords", False, MoveRecord)


def record_of(migration: Migration) -> MoveRecord | None:
    """The record of a Migration; None if it has no outcome: it goes on, or was cancelled."""
    spec, status = migration.spec, migration.status
    if not (migration.is_finished and status.outcome and status.finished_at is not None):
        return None
    recorded = MoveRecordSpec(
        namespace=migration.metadata.namespace,
        pod=spec.pod.name,
        source_node=status.source_node,
        target_node=spec.target_node,
        outcome=status.outcome,
        finished_at=status.finished_at,
        new_pod=status.new_pod,
        new_node=status.new_node,
        workload=status.workload,
        mode=status.mode,
        strategy=spec.strategy,
        reason=shortened(spec.reason),
        message=shortened(status.message),
        unreplaced=migration.is_unreplaced,
        nomination_ignored=migration.has_ignored_nomination,
    )
    return MoveRecord(Identity(name=migration.metadata.uid), recorded)


def body_of(record: MoveRecord) -> dict[str, Any]:
    """The record as JSON for the API server."""
    return {
        "apiVersion": API_VERSION,
        "kind": MOVE_RECORD.name,
        "metadata": {"name": record.name},
        "spec": msgspec.to_builtins(record.spec),
    }


def shortened(text: str) -> str:
    """The text, or as much of it as is recorded."""
    if len(text) <= MAX_RECORDED_TEXT:
        return text
    return f"{text[: MAX_RECORDED_TEXT - 1]}…"
