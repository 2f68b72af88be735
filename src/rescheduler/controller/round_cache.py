"""What a round of planning found, and a cache of the last round while nothing has changed.

A plan depends on the cluster, the policy, earlier moves, and the time. While the first three stay
the same, only time can change the plan: pods become old enough to be moved, and cooldowns after
moves end. Until the first of these, another plan would be the same.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from rescheduler.migration.migration_object import Migration
from rescheduler.migration.migration_watches import MigrationWatches
from rescheduler.planning.plan import Move, Plan
from rescheduler.settings import Policy


class RoundSeconds(NamedTuple):
    """How long the parts of a round took."""

    read: float = 0.0
    """To take the snapshot, and gather what else the planner needs."""
    plan: float = 0.0
    ask: float = 0.0
    """To write: cordons, and the Migrations of moves."""


NO_SECONDS = RoundSeconds()


@dataclass(frozen=True)
class Round:
    """The result of one round."""

    plan: Plan
    requested: tuple[Move, ...]
    """The moves for which Migrations were created; in a dry run, would have been."""
    skipped: dict[str, str]
    """By pod: why a planned move was not requested."""
    not_created: dict[str, str] = field(default_factory=dict)
    """By pod: why no Migration could be created for its move, in the server's words."""
    seconds: RoundSeconds = NO_SECONDS


class RoundTrigger(StrEnum):
    """What started a round. The values are the rest of a sentence: it began because ..."""

    START = "the controller began to lead"
    INTERVAL = "the interval was over"
    MAINTENANCE = "a maintenance label was set or removed"
    OVERLOAD = "a node became overloaded"
    POLICY = "the policy was reloaded"
    NODE_CHANGED = "a node changed while it was cordoned"


@dataclass(frozen=True)
class RoundAttempt:
    """A round that was begun, whether or not it came to a plan."""

    trigger: RoundTrigger
    started: datetime
    ended: datetime
    round: Round | None = None
    """None if there is no plan: the view of the cluster was too old, or an error ended it."""
    error: str = ""
    is_unchanged: bool = False
    """Whether nothing had changed, so that the plan is that of an earlier round."""
    was_stopped: bool = False
    """Whether it has no plan because the loop was stopped."""


class PlanInputs(NamedTuple):
    """What a plan depends on besides the policy and the time."""

    table_changes: int
    """How often the tables of the cluster have changed."""
    migrations: list[Migration]
    record_changes: int
    """How often the records of earlier moves have changed."""


class CachedRound(NamedTuple):
    """A round, the inputs of its plan, and until when the plan would be the same."""

    round: Round
    policy: Policy
    inputs: PlanInputs
    valid_until: float


class RoundCache:
    """Caches the last round, if it was idle."""

    def __init__(self, watches: MigrationWatches) -> None:
        self._watches = watches
        self._cached: CachedRound | None = None

    def current_inputs(self) -> PlanInputs:
        """To be taken before the snapshot: a later change is then not missed."""
        watches = self._watches
        return PlanInputs(watches.tables.changes, watches.all_migrations(), watches.memory.changes)

    def store(self, round: Round, policy: Policy, inputs: PlanInputs, valid_until: float) -> None:
        """Cache a round whose plan stays the same until then, if the inputs do."""
        self._cached = CachedRound(round, policy, inputs, valid_until)

    def get(self, policy: Policy, now: datetime) -> Round | None:
        """The cached round, if another one would find the same."""
        cached = self._cached
        if cached is None or now.timestamp() >= cached.valid_until or cached.policy is not policy:
            return None
        return cached.round if cached.inputs == self.current_inputs() else None


def is_idle(plan: Plan, migrations: list[Migration]) -> bool:
    """Whether nothing is to be moved, no move is blocked, and no migration goes on or may start.

    A round with overloaded nodes is not idle: the rounds in which a node is overloaded count.
    """
    has_findings = plan.moves or plan.blocked or plan.overloaded
    return not has_findings and all(
        migration.is_finished or (migration.is_pending and migration.spec.paused)
        for migration in migrations
    )
