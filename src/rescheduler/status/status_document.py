# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""What `/status` answers, and what `rescheduler status -o json` prints.

Its size is bounded, however large the cluster is: long lists are cut and have a count beside them,
and long texts are shortened. A reader ignores fields that it does not know. What a field means
never changes within a version.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec

from rescheduler.model.objects import Part

VERSION = 1
# Examples of what there may be thousands of.
MOST_LISTED = 20
MOST_EXAMPLES = 3
# As many nodes as have a bar in the view of a plan.
MOST_NODES = 30
LONGEST_TEXT = 500

Time = Annotated[datetime, msgspec.Meta(tz=True)]
"""With a time zone: others cannot be compared with it."""


class Role(StrEnum):
    """What a replica does."""

    LEADER = "Leader"
    """It plans and moves pods."""
    STANDBY = "Standby"
    """It takes over when the leader stops."""
    PLANNER = "Planner"
    """It plans and moves nothing: a dry run."""
    EXTENDER = "Extender"
    """It only answers the scheduler and the API server."""


class KindState(Part, frozen=True):
    """A kind of object that cannot be followed at the moment."""

    kind: str
    error: str
    age_seconds: float | None = None
    """Since it was last known to be up to date; absent if it was never listed."""


class SyncState(Part, frozen=True, omit_defaults=False):
    """How well a replica knows the cluster."""

    is_loaded: bool = msgspec.field(name="loaded")
    age_seconds: float | None = None
    """The age of what is oldest."""
    problem: str = ""
    """Why nothing is decided on this view; empty if something may be."""
    failing: tuple[KindState, ...] = ()


class RequestedMove(Part, frozen=True):
    """A move of the last round for which a Migration was created."""

    pod: str
    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    mode: str
    strategy: str
    reason: str


class PodReason(Part, frozen=True):
    """A pod, and why it was not moved."""

    pod: str
    detail: str


class BlockedCount(Part, frozen=True):
    """How many pods one blocker keeps where they are."""

    reason: str
    count: int
    examples: tuple[PodReason, ...] = ()


class RoundState(Part, frozen=True, omit_defaults=False):
    """The last round: when, why, and what came of it."""

    started_at: Time
    ended_at: Time
    trigger: str
    """Why it began, as the rest of a sentence."""
    reason: str
    """Why it moved or did not: a word of `reasons`."""
    sentence: str
    is_unchanged: bool = msgspec.field(name="unchanged", default=False)
    """Whether nothing had changed since an earlier round, whose plan this is."""
    planned: int = 0
    requested: int = 0
    moves: tuple[RequestedMove, ...] = ()
    """The first of those that were requested."""
    skipped: int = 0
    skipped_moves: tuple[PodReason, ...] = ()
    blocked: int = 0
    blocked_by: tuple[BlockedCount, ...] = ()
    overloaded: int = 0
    overloaded_nodes: tuple[str, ...] = ()
    unreadable: int = 0
    """Objects that cannot be decoded."""


class FailingObject(Part, frozen=True):
    """An object that failed the last time and is tried again."""

    kind: str
    key: str
    error: str


class QueueState(Part, frozen=True, omit_defaults=False):
    """How much the leader has to do."""

    ready: int
    processing: int
    delayed: int
    failing: int
    failing_objects: tuple[FailingObject, ...] = ()
    """The first of those that failed."""


class NodeUse(Part, frozen=True, omit_defaults=False):
    """What pods request of a node, as fractions of what it can give."""

    name: str
    cpu: float
    memory: float
    is_ready: bool = msgspec.field(name="ready", default=True)
    is_cordoned: bool = msgspec.field(name="cordoned", default=False)


class NodeSummary(Part, frozen=True, omit_defaults=False):
    """The load of all nodes: how many are how full, and the fullest."""

    count: int = 0
    not_ready: int = 0
    cordoned: int = 0
    cpu: tuple[int, ...] = ()
    """How many nodes are in each tenth; the last number is of those above 100 %."""
    memory: tuple[int, ...] = ()
    fullest: tuple[NodeUse, ...] = ()


class RoomReservation(Part, frozen=True, omit_defaults=False):
    """Room that the scheduler keeps on a node for a pod that is on its way there."""

    pod: str
    node: str
    cpu_millicores: int
    memory_bytes: int


class ReservationSummary(Part, frozen=True, omit_defaults=False):
    """All room that is kept, and the first of it."""

    count: int = 0
    pods: tuple[RoomReservation, ...] = ()
    for_replacements: int = 0
    """For how many new pods of migrations only the extender keeps room."""


class ReplicaStatus(Part, frozen=True, omit_defaults=False):
    """What one replica answers at `/status`."""

    version: int
    program: str
    """The version of the program."""
    role: Role
    time: Time
    sync: SyncState
    replica: str = ""
    """Its name in the Lease; empty without leader election."""
    leader: str = ""
    """Who leads, as far as this replica knows."""
    lease: str = ""
    strategies: tuple[str, ...] = ()
    policy_problem: str = ""
    """Why the policy in the file is not in use, but the last one that was valid."""
    round: RoundState | None = None
    next_round_at: Time | None = None
    queue: QueueState | None = None
    nodes: NodeSummary = NodeSummary()
    reservations: ReservationSummary = ReservationSummary()


class LeaseState(Part, frozen=True, omit_defaults=False):
    """Who leads, as the Lease says."""

    key: str
    holder: str = ""
    renewed_seconds_ago: float | None = None
    transitions: int = 0


class MigrationState(Part, frozen=True):
    """A Migration that is not over, or failed."""

    name: str
    pod: str
    target: str = msgspec.field(name="to")
    phase: str
    source: str = msgspec.field(name="from", default="")
    step: str = ""
    mode: str = ""
    reason: str = ""
    """Why it does not go on, or failed: a word of `reasons`; empty while all is well."""
    message: str = ""
    step_seconds: float | None = None
    """How long it has been in its step."""


class MigrationSummary(Part, frozen=True, omit_defaults=False):
    """All Migrations that exist, by phase, and the most interesting of them."""

    phases: dict[str, int] = {}
    listed: tuple[MigrationState, ...] = ()

    @property
    def unfinished(self) -> int:
        """How many are not over."""
        return self.phases.get("Pending", 0) + self.phases.get("InProgress", 0)


class Note(Part, frozen=True):
    """Something that is missing or wrong, and what to do."""

    reason: str
    sentence: str


class ClusterStatus(Part, frozen=True, omit_defaults=False):
    """What `rescheduler status` shows. What is not known is absent."""

    version: int
    time: Time
    lease: LeaseState | None = None
    replica: ReplicaStatus | None = None
    """The answer of the leader, or of the replica that was asked."""
    source: str = ""
    """How the replica was reached: its address, or the path through the API server."""
    migrations: MigrationSummary | None = None
    outcomes: dict[str, int] | None = None
    """How the moves of the last 24 hours ended."""
    nodes: NodeSummary | None = None
    reservations: ReservationSummary | None = None
    notes: tuple[Note, ...] = ()

    def has(self, reason: str) -> bool:
        """Whether there is a note with this reason."""
        return any(note.reason == reason for note in self.notes)


def cut(text: str) -> str:
    """The text, or the beginning of a long one."""
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"
