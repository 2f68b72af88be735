"""Metrics of rounds and migrations.

Gauges about a plan, migrations and the queue exist only on the replica that plans: their sum over
replicas is then that of the cluster. Counters stay when the lead is lost.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from rescheduler.controller.controller_observer import ControllerObserver
from rescheduler.controller.move_requests import first_wave
from rescheduler.controller.program import Program
from rescheduler.controller.round_cache import Round, RoundAttempt
from rescheduler.migration.migration_object import (
    FINISHED,
    STARTED,
    Migration,
    MigrationStatus,
    Phase,
    Step,
)
from rescheduler.model.moves import Mode, Outcome
from rescheduler.monitoring.metrics import definitions
from rescheduler.planning.plan import Assessment, Plan
from rescheduler.planning.strategies import STRATEGIES, enabled_strategies
from rescheduler.planning.strategies.strategy import Strategy
from rescheduler.settings import Policy

PLANNED, UNCHANGED, SKIPPED, FAILED = ROUND_RESULTS = ("planned", "unchanged", "skipped", "failed")
MOVE_LIMIT, NOT_CREATED = SKIP_REASONS = ("MoveLimit", "NotCreated")
CANCELLED, WITHDRAWN = "Cancelled", "Withdrawn"
MODES = (Mode.HANDOFF, Mode.EVICT, Mode.RECREATE)
"""Those that a plan has."""
OUTCOMES = (*(outcome.value for outcome in Outcome if outcome), CANCELLED, WITHDRAWN)
Values = dict[tuple[str, ...], float]


class ControllerMetrics(ControllerObserver, Collector):
    """Counts what the controller does, and reads from the program how things are."""

    def __init__(
        self,
        registry: CollectorRegistry,
        strategies: Mapping[str, type[Strategy]] = {},
        *,
        dry_run: bool = False,
    ) -> None:
        """`strategies` are those of plugins. What a dry run would have done is not counted."""
        self._dry_run = dry_run
        self._strategies = strategies
        self._program: Program | None = None
        self._of_last_plan: tuple[GaugeMetricFamily, ...] = ()
        """Built when the plan is new: it may have thousands of blocked pods, and is not kept."""
        self._last_round_at = 0.0
        known = {**STRATEGIES, **strategies}
        self._measures = definitions.of_strategies(known.values())
        self._leader_transitions = definitions.LEADER_TRANSITIONS.counter(registry)
        self._rounds = definitions.ROUNDS.counter(registry)
        self._round_duration = definitions.ROUND_DURATION.histogram(registry)
        self._requested = definitions.MOVES_REQUESTED.counter(registry)
        self._skipped = definitions.MOVES_SKIPPED.counter(registry)
        self._finished = definitions.MIGRATIONS_FINISHED.counter(registry)
        self._migration_duration = definitions.MIGRATION_DURATION.histogram(registry)
        self._step_duration = definitions.STEP_DURATION.histogram(registry)
        self._start_at_zero()

    def _start_at_zero(self) -> None:
        """A counter that is there from the start shows its first increase."""
        for result in ROUND_RESULTS:
            self._rounds.labels(result)
        for mode in Mode:
            for outcome in OUTCOMES:
                self._finished.labels(mode.value, outcome)

    def use(self, policy: Policy) -> None:
        """Count the moves of the strategies that this policy enables from zero."""
        if self._dry_run:
            return
        for strategy in enabled_strategies(policy, self._strategies):
            for mode in MODES:
                self._requested.labels(strategy.name, mode.value)
            for reason in SKIP_REASONS:
                self._skipped.labels(strategy.name, reason)

    def read_from(self, program: Program) -> None:
        """Read gauges from this program from now on."""
        self._program = program

    # ------------------------------------------------------------ what happens

    def began_to_lead(self) -> None:
        self._leader_transitions.inc()

    def ceased_to_lead(self) -> None:
        self._of_last_plan = ()

    def round_ended(self, attempt: RoundAttempt) -> None:
        if attempt.was_stopped and attempt.round is None:
            return
        self._rounds.labels(result_of(attempt)).inc()
        if attempt.round is not None:
            self._last_round_at = attempt.ended.timestamp()
            if not attempt.is_unchanged:
                self._of_last_plan = tuple(self.of_plan(attempt.round.plan))
                self._count_round(attempt.round)

    def _count_round(self, round: Round) -> None:
        for stage, seconds in round.seconds._asdict().items():
            self._round_duration.labels(stage).observe(seconds)
        if self._dry_run:
            return
        for move in round.requested:
            self._requested.labels(move.strategy, move.mode.value).inc()
        # A pod may move once more in a later wave.
        for move in first_wave(round.plan.moves):
            if move.pod in round.skipped:
                self._skipped.labels(move.strategy, MOVE_LIMIT).inc()
            elif move.pod in round.not_created:
                self._skipped.labels(move.strategy, NOT_CREATED).inc()

    def migration_updated(
        self, migration: Migration, status: MigrationStatus, now: datetime
    ) -> None:
        before = migration.status
        mode = (status.mode or migration.spec.mode).value
        # A step may be begun anew: landing is, when the old pod has ended.
        if position(status) != position(before) and before.step and before.step_started_at:
            seconds = seconds_between(before.step_started_at, now)
            self._step_duration.labels(mode, before.step.value).observe(seconds)
        if status.phase in FINISHED and not migration.is_finished:
            outcome = status.outcome.value or CANCELLED
            self._finished.labels(mode, outcome).inc()
            started = migration.condition(STARTED)
            if started is not None and started.last_transition_time is not None:
                seconds = seconds_between(started.last_transition_time, now)
                self._migration_duration.labels(mode, outcome).observe(seconds)

    def migration_withdrawn(
        self, migration: Migration, status: MigrationStatus, now: datetime
    ) -> None:
        self._finished.labels(migration.spec.mode.value, WITHDRAWN).inc()

    # ------------------------------------------------------------ how things are

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """See `Collector`. What is not known now is not there."""
        program = self._program
        if program is None:
            return
        # Replicas of a dry run elect nobody: all of them plan, and none may change anything.
        if not self._dry_run:
            yield definitions.LEADER.gauge({(): float(program.is_leading)})
        if program.planning_loop is not None and self._of_last_plan:
            yield definitions.LAST_ROUND.gauge({(): self._last_round_at})
            yield from self._of_last_plan
        if program.is_leading:
            yield from self._of_migrations(program)

    def of_plan(self, plan: Plan) -> Iterator[GaugeMetricFamily]:
        """Metrics of what a plan does, and of the cluster before and after it."""
        moves = Counter((move.strategy,) for move in plan.moves)
        blocked = Counter((pod.strategy, pod.blocker) for pod in plan.blocked)
        enabled = {(name,): 0 for name in plan.before.measures}
        yield definitions.PLANNED_MOVES.gauge({**enabled, **moves})
        yield definitions.BLOCKED_PODS.gauge(dict(blocked))
        reason = {} if plan.moves else {(plan.idle_reason.value,): 1.0}
        yield definitions.IDLE.gauge(reason)
        states = {"before": plan.before, "after": plan.after}
        yield definitions.OBJECTIVE.gauge(
            {(when,): state.objective for when, state in states.items()}
        )
        yield definitions.NODES_IN_USE.gauge(
            {(when,): state.nodes_in_use for when, state in states.items()}
        )
        yield definitions.IMBALANCE.gauge(
            {
                (resource, when): spread.standard_deviation
                for when, state in states.items()
                for resource, spread in state.utilization.items()
            }
        )
        yield from self._of_measures(states)

    def _of_measures(self, states: Mapping[str, Assessment]) -> Iterator[GaugeMetricFamily]:
        for name, definition in self._measures.items():
            values = {
                (strategy, when): measured[name]
                for when, state in states.items()
                for strategy, measured in state.measures.items()
                if name in measured
            }
            if values:
                yield definition.gauge(values)

    def _of_migrations(self, program: Program) -> Iterator[GaugeMetricFamily]:
        migrations = program.watches.all_migrations()
        phases: Values = {(phase.value,): 0.0 for phase in Phase}
        for migration in migrations:
            phases[(migration.status.phase.value,)] += 1
        yield definitions.MIGRATIONS.gauge(phases)
        yield definitions.OLDEST_MIGRATION.gauge({(): oldest(migrations, program.clock.now())})
        counts = program.queue_counts
        if counts is not None:
            yield definitions.QUEUE_DEPTH.gauge({(): counts.ready})
            yield definitions.QUEUE_FAILING.gauge({(): counts.failing})


def result_of(attempt: RoundAttempt) -> str:
    """How a round ended, in a word."""
    if attempt.error:
        return FAILED
    if attempt.round is None:
        return SKIPPED
    return UNCHANGED if attempt.is_unchanged else PLANNED


def oldest(migrations: list[Migration], now: datetime) -> float:
    """For how long a migration in progress has been in its step, the longest of all."""
    times = (each.status.step_started_at for each in migrations if each.is_in_progress)
    return max((seconds_between(time, now) for time in times if time is not None), default=0.0)


def position(status: MigrationStatus) -> tuple[Phase, Step, datetime | None]:
    """Where a migration is, and since when."""
    return status.phase, status.step, status.step_started_at


def seconds_between(start: datetime, end: datetime) -> float:
    """How long it took. The clocks of two replicas may differ a little."""
    return max(0.0, (end - start).total_seconds())
