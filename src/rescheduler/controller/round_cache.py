"""Rounds that need no plan: nothing was wanted, and nothing has changed that could change that.

A plan is made from the cluster, the policy, what became of earlier moves, and the time. While the
first three are the same, only time can tell one plan from the next: pods grow old enough to be
moved, and pauses after moves end. Until the first of these, another plan would be the same.
"""

from datetime import datetime
from typing import Generic, NamedTuple, TypeVar

from rescheduler.controller.migration_watches import MigrationWatches
from rescheduler.migration.migration_object import Migration
from rescheduler.planning.plan import Plan
from rescheduler.settings import Policy

T = TypeVar("T")


class PlanInputs(NamedTuple):
    """What a plan was made from, as far as it can be told from another."""

    of_cluster: int
    of_migrations: list[Migration]


class CachedRound(NamedTuple, Generic[T]):
    """What was found, from what, and until when it would be found again."""

    found: T
    policy: Policy
    changes: PlanInputs
    until: float


class RoundCache(Generic[T]):
    """Remembers the last round, if it wanted nothing."""

    def __init__(self, watching: MigrationWatches) -> None:
        self._watching = watching
        self._rest: CachedRound[T] | None = None

    @property
    def changes(self) -> PlanInputs:
        """To be taken before the cluster is looked at: what comes later has not been seen."""
        return PlanInputs(self._watching.tables.changes, self._watching.all_migrations())

    def note(self, found: T, policy: Policy, changes: PlanInputs, until: float) -> None:
        """Nothing was wanted, and time alone does not change that until then."""
        self._rest = CachedRound(found, policy, changes, until)

    def again(self, policy: Policy, now: datetime) -> T | None:
        """What another round would find, if that is certain."""
        rest = self._rest
        if rest is None or now.timestamp() >= rest.until or rest.policy is not policy:
            return None
        return rest.found if rest.changes == self.changes else None


def is_idle(plan: Plan, migrations: list[Migration]) -> bool:
    """Whether nothing is to be moved, nothing holds a move up, and nothing is under way.

    Nodes that are too full are counted round by round, so their rounds are not alike.
    """
    is_idle = not plan.moves and not plan.blocked and not plan.overloaded
    return is_idle and all(each.is_finished for each in migrations)
