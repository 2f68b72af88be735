"""The actions that the state machine may decide on: one at a time, and safe to repeat.

Every write names the object and version it was decided for. A write that comes too late, or from a
second controller, is rejected by the server and decided anew.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from rescheduler.migration.migration_object import MigrationStatus
from rescheduler.migration.moving_pod import MovingPod


class Question(StrEnum):
    """What the server can be asked for one decision."""

    SIBLINGS = "siblings"
    EVICTION = "eviction"
    SERVICES = "services"
    POLICIES = "policies"
    CANDIDATES = "candidates"
    TARGET = "target"
    OLD_DEPARTURE = "old-departure"
    NEW_DEPARTURE = "new-departure"


class MigrationEvent(StrEnum):
    """The Kubernetes Events of a migration, by their reasons."""

    STARTED = "MigrationStarted"
    """An attempt starts: from now on, the pod is being moved."""
    NEW_POD_CREATED = "NewPodCreated"
    """The pod that is to replace the old one was created, for the target node."""
    NEW_POD_READY = "NewPodReady"
    """The new pod is Ready, and the old one is stopped."""
    EVICTED = "PodEvicted"
    """The old pod was evicted before there is a new one."""
    UNDOING = "MigrationUndoing"
    """The attempt cannot go on, and what it changed is restored."""
    RETRYING = "MigrationRetrying"
    """The attempt has ended, and another one follows."""
    COMPLETED = "MigrationCompleted"
    """Another pod does the work of the old one; the message says on which node."""
    FAILED = "MigrationFailed"
    """The pod was not moved, or was evicted and not replaced. No other attempt follows."""
    CANCELLED = "MigrationCancelled"
    """The move is not needed any more, and nothing is left of it."""


@dataclass(frozen=True)
class Wait:
    """Do nothing until something changes, or so many seconds have passed."""

    seconds: float | None = None
    message: str = ""
    """What is waited for, as a status message; empty if the wait is not worth reporting."""


@dataclass(frozen=True)
class Ask:
    """Ask the server a question, and decide again with the answer."""

    question: Question


@dataclass(frozen=True)
class UpdateStatus:
    """Write the Migration's status, and record an Event."""

    name: str
    status: MigrationStatus
    event: MigrationEvent | None = None


@dataclass(frozen=True)
class PatchPod:
    """Change a pod by a merge patch, if nobody has changed the pod since."""

    name: str
    pod: MovingPod
    patch: dict[str, Any]
    subresource: str = ""
    is_strategic: bool = False
    """Whether lists are merged by their keys, not replaced."""


@dataclass(frozen=True)
class CreatePod:
    """Create the new pod, unless it exists. If the server rejects it, the attempt has failed."""

    name: str
    body: dict[str, Any]
    """The new pod; unused for a copy."""
    copy_of: MovingPod | None = None
    """The pod to copy; the executor reads its full spec."""


@dataclass(frozen=True)
class DeletePod:
    """Delete the new pod, if nobody has changed it since."""

    name: str
    pod: MovingPod


@dataclass(frozen=True)
class EvictPod:
    """Evict the old pod, if nobody has changed it since."""

    name: str
    pod: MovingPod
    grace_seconds: int


@dataclass(frozen=True)
class CreateBudget:
    """Create a temporary disruption budget for the workload."""

    name: str
    body: dict[str, Any]


@dataclass(frozen=True)
class DeleteBudget:
    """Delete the temporary disruption budget."""

    name: str
    key: str
    uid: str


@dataclass(frozen=True)
class DeleteMigration:
    """Delete the Migration, which has been kept long enough."""

    name: str = "delete-migration"


Write = (
    UpdateStatus
    | PatchPod
    | CreatePod
    | DeletePod
    | EvictPod
    | CreateBudget
    | DeleteBudget
    | DeleteMigration
)
Action = Wait | Ask | Write
