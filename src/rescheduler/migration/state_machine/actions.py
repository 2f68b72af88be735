"""What the machine may ask for: one thing at a time, each safe to be done twice.

Every write names the very object and version it was decided for, so one that comes too late, or
from a second controller, is refused by the server and decided anew.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from rescheduler.migration.migration_object import MigrationStatus
from rescheduler.migration.moving_pod import MovingPod


class Question(StrEnum):
    """What can be asked of the server for one decision."""

    SIBLINGS = "siblings"
    EVICTION = "eviction"
    SERVICES = "services"
    CANDIDATES = "candidates"


@dataclass(frozen=True)
class Wait:
    """Nothing to do until something changes, or so many seconds have passed."""

    seconds: float | None = None
    message: str = ""
    """Why, for people; nothing if it is the ordinary course of things."""


@dataclass(frozen=True)
class Ask:
    """Find this out first."""

    question: Question


@dataclass(frozen=True)
class Record:
    """Write the Migration's status, and tell it as an Event."""

    name: str
    status: MigrationStatus
    event: str = ""
    """The Event's reason; nothing tells nobody."""


@dataclass(frozen=True)
class PatchPod:
    """Change what is written on a pod, if it is still as it was seen."""

    name: str
    pod: MovingPod
    patch: dict[str, Any]


@dataclass(frozen=True)
class CreatePod:
    """Make the new pod, unless it is there. A refusal is an answer, which fails the attempt."""

    name: str
    body: dict[str, Any]
    """The pod; for a copy, only what is to be changed in the original."""
    copy_of: MovingPod | None = None


@dataclass(frozen=True)
class DeletePod:
    """Remove the new pod, if it is still as it was seen."""

    name: str
    pod: MovingPod


@dataclass(frozen=True)
class EvictPod:
    """Evict the old pod."""

    name: str
    pod: MovingPod
    grace_seconds: int
    only_as_seen: bool = False
    """Whether an eviction that comes late, after something else was written on the pod, must not
    be carried out any more."""


@dataclass(frozen=True)
class CreateBudget:
    """Protect the workload for a while."""

    name: str
    body: dict[str, Any]


@dataclass(frozen=True)
class DeleteBudget:
    """End that."""

    name: str
    key: str
    uid: str


@dataclass(frozen=True)
class Forget:
    """Delete the Migration: it has been kept long enough."""

    name: str = "forget"


Write = Record | PatchPod | CreatePod | DeletePod | EvictPod | CreateBudget | DeleteBudget | Forget
Action = Wait | Ask | Write
