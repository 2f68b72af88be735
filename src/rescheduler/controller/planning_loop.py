"""The planning loop: take a snapshot, plan, and request the moves, in rounds.

A round starts when the interval is over, or soon after something that should not wait for it, such
as a maintenance label or a pod that overloads its node. Every round is logged, also an idle one.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import datetime, timedelta
from random import Random

from rescheduler.controller.controller_observer import NO_OBSERVER, ControllerObserver
from rescheduler.controller.cordons import cordon_patch
from rescheduler.controller.events.migration_events import MigrationEventRecorder
from rescheduler.controller.events.node_events import MaintenanceReporter
from rescheduler.controller.move_requests import MoveRequester, fields_of, later_moves, select_moves
from rescheduler.controller.overload_trigger import OverloadTrigger
from rescheduler.controller.past_moves import (
    moves_in_flight,
    past_moves,
    unreplaced_pods,
    workloads_ignoring_nominations,
)
from rescheduler.controller.round_cache import (
    Round,
    RoundAttempt,
    RoundCache,
    RoundSeconds,
    RoundTrigger,
    is_idle,
)
from rescheduler.controller.stale_migrations import StaleMigrations
from rescheduler.errors import (
    Conflict,
    Forbidden,
    NotFound,
    OutcomeUnknown,
    Refused,
    ReschedulerError,
)
from rescheduler.kube.api_server import ApiServer, object_path
from rescheduler.kube.clock import WALL_CLOCK, Clock
from rescheduler.kube.live_store import MAX_STORE_AGE_SECONDS, LiveStore, cancel
from rescheduler.migration.executor import Executor
from rescheduler.migration.migration_object import Migration
from rescheduler.migration.migration_watches import MigrationWatches
from rescheduler.model.kinds import NODE
from rescheduler.model.rules.node_availability import is_under_maintenance
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.tables.table import TableChange
from rescheduler.planning.context import LaterMove, PlanningContext
from rescheduler.planning.plan import Plan
from rescheduler.planning.planner import make_plan
from rescheduler.planning.strategies import cordons_nodes, empties_maintenance_nodes
from rescheduler.planning.strategies.strategy import Strategy
from rescheduler.planning.unchanged_until import same_until
from rescheduler.settings import Policy

logger = logging.getLogger(__name__)

# Changes that come together are planned for together.
TRIGGER_DELAY_SECONDS = 1.0
# When stopped, the next leader waits no longer than this for Events that are not sent yet.
EVENT_SECONDS = 1.0


class PlanningLoop:
    """Plans and requests moves. `trigger_round` starts the next round early."""

    def __init__(
        self,
        server: ApiServer,
        store: LiveStore,
        watches: MigrationWatches,
        policy: Policy,
        *,
        strategies: Mapping[str, type[Strategy]] = {},
        dry_run: bool = False,
        clock: Clock = WALL_CLOCK,
        chance: Random | None = None,
        observer: ControllerObserver = NO_OBSERVER,
    ) -> None:
        self.policy = policy
        self.placing_blocker = ""
        """Why this API server cannot place a pod on a chosen node; empty if it can."""
        self._server = server
        self._store = store
        self._watches = watches
        self._strategies = strategies
        self._dry_run = dry_run
        self._clock = clock
        self._events = MigrationEventRecorder(server, clock.now, chance)
        self._maintenance = MaintenanceReporter(self._events)
        self._observer = observer
        self.plan_began: float | None = None
        """By the clock's seconds: since when a plan has been being made; None while none is."""
        self._requester = MoveRequester(server)
        self._stale_migrations = StaleMigrations(
            server, Executor(server, watches), clock, self._events, observer
        )
        self._overloaded_rounds: dict[str, int] = {}
        """In how many rounds in a row each node was overloaded."""
        self._later_moves: tuple[LaterMove, ...] = ()
        """What the last plan with moves wanted after its first wave."""
        self._subscribers: list[Callable[[Round], None]] = []
        self._round_cache = RoundCache(watches)
        self._is_unchanged = False
        """Whether the round that was begun last came from the cache."""
        self.last_attempt: RoundAttempt | None = None
        """The last round, also one without a plan."""
        self.next_round: datetime | None = None
        """When the interval will be over; None while a round runs."""
        self._trigger = RoundTrigger.START
        self._triggered = asyncio.Event()
        self._stopping = asyncio.Event()
        self._under_maintenance: set[str] = set()
        self._overload_trigger = OverloadTrigger(
            watches.tables, lambda: self.policy, lambda: self.trigger_round(RoundTrigger.OVERLOAD)
        )

    async def run(self) -> None:
        """Run round after round, until stopped."""
        sending = asyncio.create_task(self._events.run())
        try:
            await self._run_rounds()
            await self._events.flush(EVENT_SECONDS)
        finally:
            await cancel([sending])

    async def _run_rounds(self) -> None:
        with ExitStack() as stack:
            stack.callback(self._store.subscribe(NODE, self._node_changed))
            stack.enter_context(self._overload_trigger.watching(self._store))
            while not self._stopping.is_set():
                await self._attempt_round()
                await self._until_next_round()

    async def _attempt_round(self) -> None:
        """Run a round, and go on if it fails."""
        trigger, self._trigger = self._trigger, RoundTrigger.INTERVAL
        started, self.next_round = self._clock.now(), None
        finished, error = None, ""
        try:
            finished = await self.run_round()
        except ReschedulerError as failure:
            error = str(failure)
            logger.warning("Failed a round", extra={"error": error})
        except Exception as failure:
            error = f"{type(failure).__name__}: {failure}"
            logger.exception("Failed a round")
        self.last_attempt = RoundAttempt(
            trigger,
            started,
            self._clock.now(),
            finished,
            error,
            is_unchanged=finished is not None and self._is_unchanged,
            was_stopped=self._stopping.is_set(),
        )
        self._observer.round_ended(self.last_attempt)

    def stop(self) -> None:
        """End when the current writes are finished; a plan that is being made is dropped."""
        self._stopping.set()

    async def run_round(self) -> Round | None:
        """Take a snapshot, plan, and request the moves.

        None if the snapshot would be too old, or if the loop is stopped meanwhile.
        """
        age = self._store.age()
        if age is None or age > MAX_STORE_AGE_SECONDS:
            why = "the watches of the cluster are not up to date"
            logger.warning("Skipped a round", extra={"why": why})
            return None
        # The policy may be replaced while a plan is being made: a round goes by one.
        policy = self.policy
        cached = self._round_cache.get(policy, self._clock.now())
        self._is_unchanged = cached is not None
        if cached is not None:
            return self._publish(cached, why="nothing has changed since the last round")
        seconds, started = self._clock.seconds, self._clock.seconds()
        if not self._dry_run:
            await self._cordon_nodes(policy)
            await self._stale_migrations.withdraw(self._watches.all_migrations(), policy)
        cordoned = seconds()
        inputs = self._round_cache.current_inputs()
        snapshot = self._store.snapshot()
        migrations = self._watches.all_migrations()
        context = self._planning_context(migrations)
        began = self.plan_began = seconds()
        try:
            # In a thread: migrations in progress do not wait for a plan.
            plan = await asyncio.to_thread(self._plan, snapshot, policy, context)
        finally:
            self.plan_began = None
        planned = seconds()
        if self._stopping.is_set():
            return None
        self._overloaded_rounds = {
            node: self._overloaded_rounds.get(node, 0) + 1 for node in plan.overloaded
        }
        selected, skipped = select_moves(plan, context.in_flight, policy, self._strategies)
        not_created: dict[str, str] = {}
        if not self._dry_run:
            is_emptying = empties_maintenance_nodes(policy, self._strategies)
            label = policy.maintenance_label if is_emptying else None
            self._maintenance.report(snapshot, plan, label)
            may_evict = policy.migration.deployment_coordination
            for move in selected:
                if why := await self._requester.request(
                    move, snapshot, migrations, may_evict=may_evict
                ):
                    not_created[move.pod] = why
        if plan.moves:
            self._later_moves = later_moves(plan)
        asking = cordoned - started + seconds() - planned
        finished = Round(
            plan,
            tuple(move for move in selected if move.pod not in not_created),
            skipped,
            not_created=not_created,
            seconds=RoundSeconds(began - cordoned, planned - began, asking),
        )
        if plan.search_complete and is_idle(plan, migrations):
            valid_until = same_until(snapshot, policy, context)
            self._round_cache.store(finished, policy, inputs, valid_until)
        return self._publish(finished)

    def subscribe(self, subscriber: Callable[[Round], None]) -> None:
        """Call back after every round."""
        self._subscribers.append(subscriber)

    def trigger_round(self, why: RoundTrigger) -> None:
        """Start the next round soon, without waiting for the interval."""
        if not self._triggered.is_set():
            self._trigger = why
        self._triggered.set()

    # ------------------------------------------------------------ planning

    def _planning_context(self, migrations: list[Migration]) -> PlanningContext:
        """What the planner knows besides the snapshot and the policy."""
        rounds_overloaded = {node: rounds + 1 for node, rounds in self._overloaded_rounds.items()}
        now, memory = self._clock.now(), self._watches.memory
        believed = memory.with_findings(now)
        return PlanningContext(
            now=now.timestamp(),
            history=past_moves(memory.records(migrations)),
            in_flight=moves_in_flight(migrations),
            rounds_overloaded=rounds_overloaded,
            placing_blocker=self.placing_blocker,
            ignoring_nominations=workloads_ignoring_nominations(migrations, believed),
            unreplaced_from=unreplaced_pods(migrations, believed),
            later_moves=self._later_moves,
        )

    def _plan(self, snapshot: Snapshot, policy: Policy, context: PlanningContext) -> Plan:
        seconds = self._clock.seconds
        start, timeout = seconds(), policy.planning_timeout_seconds

        def time_used() -> float:
            # A process that is about to stop plans no further.
            return math.inf if self._stopping.is_set() else (seconds() - start) / timeout

        return make_plan(snapshot, policy, context, self._strategies, time_used)

    def _publish(self, finished: Round, why: str = "") -> Round:
        """Log a round and pass it to the subscribers."""
        self._log(finished, why)
        for subscriber in self._subscribers:
            subscriber(finished)
        return finished

    def _log(self, finished: Round, why: str) -> None:
        extra = {
            **({"why": why} if why else {}),
            "summary": finished.plan.summary,
            "moves": len(finished.requested),
            "skipped": len(finished.skipped) + len(finished.not_created),
            "blocked": len(finished.plan.blocked),
            "dry_run": self._dry_run,
        }
        if finished.not_created:
            extra["refused"] = len(finished.not_created)
            extra["refusal"] = next(iter(finished.not_created.values()))
        logger.info("Finished a round", extra=extra)
        for move in finished.requested if self._dry_run else ():
            logger.info("Would have requested a move", extra=fields_of(move))
        for pod, reason in finished.skipped.items():
            logger.info("Skipped a planned move", extra={"pod": pod, "why": reason})

    # ------------------------------------------------------------ maintenance

    def _node_changed(self, change: TableChange) -> None:
        """A maintenance label that is set or removed triggers a round."""
        label = self.policy.maintenance_label
        node = self._watches.tables.nodes.get(change.key)
        is_labelled = node is not None and is_under_maintenance(node, label)
        if is_labelled != (change.key in self._under_maintenance):
            self._under_maintenance ^= {change.key}
            self.trigger_round(RoundTrigger.MAINTENANCE)

    async def _cordon_nodes(self, policy: Policy) -> None:
        """Cordon nodes with a maintenance label, and uncordon those that have lost it."""
        label = policy.maintenance_label
        may_cordon = cordons_nodes(policy, self._strategies)
        for name, node in self._watches.tables.nodes.by_key().items():
            patch = cordon_patch(node, label, may_cordon=may_cordon)
            if patch is None:
                continue
            try:
                await self._server.patch(object_path(NODE, name), patch)
            except (Conflict, OutcomeUnknown, NotFound):
                # It was changed or deleted meanwhile; the watch will show how.
                self.trigger_round(RoundTrigger.NODE_CHANGED)
                continue
            except (Refused, Forbidden) as error:
                # The pods of the node can be moved all the same.
                extra = {"node": name, "error": str(error)}
                logger.warning("Failed to cordon or uncordon a node", extra=extra)
                continue
            is_labelled = is_under_maintenance(node, label)
            message = "Cordoned a node" if is_labelled else "Uncordoned a node"
            logger.info(message, extra={"node": name, "why": f"its label {label.key}"})

    async def _until_next_round(self) -> None:
        """Wait until the interval is over or a round is triggered, or the loop is stopped."""
        triggered = asyncio.create_task(self._until_triggered())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({triggered, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            triggered.cancel()
            stopping.cancel()

    async def _until_triggered(self) -> None:
        seconds = self.policy.rescheduling_interval_seconds
        self.next_round = self._clock.now() + timedelta(seconds=seconds)
        try:
            async with asyncio.timeout(seconds):
                await self._triggered.wait()
                await asyncio.sleep(TRIGGER_DELAY_SECONDS)
        except TimeoutError:
            pass
        self._triggered.clear()
