"""What a replica answers at `/status`, from what its parts know at this moment."""

from collections.abc import Callable, Iterable

from rescheduler.controller.leader_election.elector import LeaderElector
from rescheduler.controller.program import Program
from rescheduler.kube.clock import Clock
from rescheduler.kube.live_store import KindStatus, LiveStore
from rescheduler.kube.transport import version_number
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.status.cluster_load import node_summary, reservation_summary
from rescheduler.status.round_report import round_state
from rescheduler.status.status_document import (
    MOST_LISTED,
    VERSION,
    FailingObject,
    KindState,
    QueueState,
    ReplicaStatus,
    Role,
    RoundState,
    SyncState,
    cut,
)


class ReplicaReporter:
    """Reports on a replica of the controller."""

    def __init__(
        self,
        program: Program,
        elector: LeaderElector | None,
        clock: Clock,
        *,
        dry_run: bool,
        kept_by_extender: Callable[[], int] = lambda: 0,
    ) -> None:
        """Room for so many replacements of evicted pods is `kept_by_extender`, if there is one."""
        self._program = program
        self._kept_by_extender = kept_by_extender
        self._elector = elector
        self._clock = clock
        self._dry_run = dry_run

    def status(self) -> ReplicaStatus:
        """The status at this moment."""
        program, elector = self._program, self._elector
        loop, counts = program.planning_loop, program.queue_counts
        tables = program.watches.tables
        return ReplicaStatus(
            version=VERSION,
            program=version_number(),
            role=self._role(),
            time=self._clock.now(),
            sync=self._sync(),
            replica="" if elector is None else elector.identity,
            leader="" if elector is None else elector.leader,
            lease="" if elector is None else elector.lease_key,
            strategies=tuple(map(str, program.policy.enabled_strategies))[:MOST_LISTED],
            policy_problem=cut(program.policy_problem),
            round=self._round(),
            next_round_at=None if loop is None else loop.next_round,
            queue=None if counts is None else QueueState(*counts, self._failing_objects()),
            nodes=node_summary(tables),
            reservations=reservation_summary(tables, self._kept_by_extender()),
        )

    def _sync(self) -> SyncState:
        watches = self._program.watches
        # A dry run can do without Migrations.
        is_loaded = watches.store.age() is not None and (self._dry_run or watches.are_listed)
        problem = watches.store.why_not_current() if self._dry_run else watches.why_not_loaded()
        return SyncState(is_loaded, watches.age(), cut(problem), failing(watches.status()))

    def _failing_objects(self) -> tuple[FailingObject, ...]:
        failing = sorted(self._program.failing.items())[:MOST_LISTED]
        return tuple(FailingObject(item.kind, item.key, cut(error)) for item, error in failing)

    def _role(self) -> Role:
        if self._dry_run:
            return Role.PLANNER
        return Role.STANDBY if self._program.planning_loop is None else Role.LEADER

    def _round(self) -> RoundState | None:
        loop = self._program.planning_loop
        attempt = None if loop is None else loop.last_attempt
        return None if attempt is None else round_state(attempt, dry_run=self._dry_run)


class ExtenderReporter:
    """Reports on a process that only serves the extender."""

    def __init__(
        self,
        store: LiveStore,
        tables: ClusterTables,
        clock: Clock,
        kept_by_extender: Callable[[], int],
    ) -> None:
        self._store = store
        self._tables = tables
        self._clock = clock
        self._kept_by_extender = kept_by_extender

    def status(self) -> ReplicaStatus:
        """The status at this moment."""
        return ReplicaStatus(
            version=VERSION,
            program=version_number(),
            role=Role.EXTENDER,
            time=self._clock.now(),
            sync=sync_state(self._store),
            nodes=node_summary(self._tables),
            reservations=reservation_summary(self._tables, self._kept_by_extender()),
        )


def sync_state(store: LiveStore) -> SyncState:
    """How well the cluster is known."""
    age = store.age()
    return SyncState(age is not None, age, cut(store.why_not_current()), failing(store.status()))


def failing(kinds: Iterable[KindStatus]) -> tuple[KindState, ...]:
    """The kinds that cannot be followed at the moment."""
    return tuple(
        KindState(status.kind, cut(status.last_error), status.age_seconds)
        for status in kinds
        if status.last_error is not None
    )
