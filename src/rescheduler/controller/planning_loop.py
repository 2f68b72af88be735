"""The loop: look at the cluster, plan, and ask for the moves; again and again.

A round is due when the interval is over, and soon after something happened that should not wait
for it, such as a maintenance label or a pod that made its node too hot. Every round says what it
did, also if that is nothing.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from rescheduler.controller.cordons import cordon_patch
from rescheduler.controller.migration_watches import MigrationWatches
from rescheduler.controller.overload_trigger import OverloadTrigger
from rescheduler.controller.past_moves import moves_in_flight, past_moves
from rescheduler.controller.round_cache import RoundCache, is_idle
from rescheduler.errors import Conflict, NotFound, OutcomeUnknown, ReschedulerError
from rescheduler.kube.api_server import ApiServer, object_path
from rescheduler.kube.clock import WALL_CLOCK, Clock
from rescheduler.kube.live_store import LiveStore
from rescheduler.migration.migration_object import MIGRATION, Migration, Phase
from rescheduler.migration.migration_requests import body_for, request
from rescheduler.model.kinds import NODE
from rescheduler.model.rules.node_availability import is_under_maintenance
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.tables.table import TableChange
from rescheduler.planning.context import PlanningContext
from rescheduler.planning.plan import Move, Plan
from rescheduler.planning.plan_expiry import same_until
from rescheduler.planning.planner import SEARCHING, make_plan
from rescheduler.planning.strategies import cordons_nodes, is_requested
from rescheduler.planning.strategies.strategy import Strategy
from rescheduler.settings import Policy

logger = logging.getLogger(__name__)

# What happens together is planned for together.
SOON_SECONDS = 1.0
# Nothing is moved on knowledge that is older.
OLDEST_KNOWLEDGE_SECONDS = 180.0
# A planned move that could not start by then is planned anew.
PLANS_ARE_GOOD_FOR = timedelta(minutes=5)


@dataclass(frozen=True)
class Round:
    """What one round did."""

    plan: Plan
    asked_for: tuple[Move, ...]
    left_alone: dict[str, str]
    """By pod: why a planned move was not asked for."""


class PlanningLoop:
    """Plans and asks for moves. `soon` brings the next round forward."""

    def __init__(
        self,
        server: ApiServer,
        store: LiveStore,
        watching: MigrationWatches,
        policy: Policy,
        *,
        strategies: Mapping[str, type[Strategy]] = {},
        dry_run: bool = False,
        clock: Clock = WALL_CLOCK,
    ) -> None:
        self.policy = policy
        self._server = server
        self._store = store
        self._watching = watching
        self._strategies = strategies
        self._dry_run = dry_run
        self._clock = clock
        self._rounds_overloaded: dict[str, int] = {}
        self._subscribers: list[Callable[[Round], None]] = []
        self._resting: RoundCache[Round] = RoundCache(watching)
        self._early = asyncio.Event()
        self._under_maintenance: set[str] = set()
        self._prevention = OverloadTrigger(watching.tables, lambda: self.policy, self.soon)

    async def run(self) -> None:
        """Round after round, until cancelled."""
        self._store.subscribe(NODE, self._node_changed)
        self._prevention.watch(self._store)
        while True:
            try:
                await self.run_round()
            except ReschedulerError as error:
                logger.warning("Failed a round", extra={"error": str(error)})
            except Exception:
                logger.exception("Failed a round")
            await self._until_next()

    async def run_round(self) -> Round | None:
        """Look at the cluster, plan, and ask for the moves; None if too little is known."""
        age = self._store.age()
        if age is None or age > OLDEST_KNOWLEDGE_SECONDS:
            logger.warning("Skipped a round", extra={"why": "the cluster is not known well enough"})
            return None
        if (rested := self._resting.again(self.policy, self._clock.now())) is not None:
            return self._told(rested, why="nothing has changed since the last round")
        await self._cordon_nodes()
        await self._withdraw_stale_moves()
        changes = self._resting.changes
        snapshot = self._store.snapshot()
        migrations = self._watching.all_migrations()
        circumstances = self._circumstances(migrations)
        # In a thread: migrations under way do not wait for a plan.
        plan = await asyncio.to_thread(self._plan, snapshot, circumstances)
        self._rounds_overloaded = {
            name: self._rounds_overloaded.get(name, 0) + 1 for name in plan.overloaded
        }
        wanted, left_alone = self._wanted(plan, migrations)
        if not self._dry_run:
            wanted = [move for move in wanted if await self._ask_for(move, snapshot, migrations)]
        made = Round(plan, tuple(wanted), left_alone)
        if is_idle(plan, migrations) and plan.search_complete:
            until = same_until(snapshot, self.policy, circumstances)
            self._resting.note(made, self.policy, changes, until)
        return self._told(made)

    def _told(self, made: Round, why: str = "") -> Round:
        """A round, after everybody has heard of it."""
        self._tell(made, why)
        for subscriber in self._subscribers:
            subscriber(made)
        return made

    def subscribe(self, subscriber: Callable[[Round], None]) -> None:
        """Be told of every round that was made."""
        self._subscribers.append(subscriber)

    async def _withdraw_stale_moves(self) -> None:
        """Delete moves of ours that never started: the cluster they were planned for is gone."""
        if self._dry_run:
            return
        for migration in self._watching.all_migrations():
            if not is_stale(migration, self._clock.now()):
                continue
            metadata = migration.metadata
            path = object_path(MIGRATION, metadata.key)
            try:
                await self._server.delete(path, uid=metadata.uid, version=metadata.resource_version)
            except (Conflict, OutcomeUnknown, NotFound):
                continue
            why = {"migration": metadata.key, "why": migration.status.message}
            logger.info("Withdrew a move that had not started in time", extra=why)

    def soon(self) -> None:
        """Something happened that should not wait for the interval."""
        self._early.set()

    # ------------------------------------------------------------ planning

    def _circumstances(self, migrations: list[Migration]) -> PlanningContext:
        """What the planner should know besides the cluster."""
        return PlanningContext(
            now=self._clock.now().timestamp(),
            history=past_moves(migrations),
            in_flight=moves_in_flight(migrations),
            rounds_overloaded={
                name: rounds + 1 for name, rounds in self._rounds_overloaded.items()
            },
        )

    def _plan(self, snapshot: Snapshot, circumstances: PlanningContext) -> Plan:
        policy = self.policy
        seconds = self._clock.seconds
        end = seconds() + SEARCHING * policy.planning_timeout_seconds
        return make_plan(
            snapshot, policy, circumstances, self._strategies, lambda: seconds() >= end
        )

    def _wanted(self, plan: Plan, migrations: list[Migration]) -> tuple[list[Move], dict[str, str]]:
        """The moves to ask for now, and why not the others."""
        under_way = {each.pod_key for each in migrations if not each.is_finished}
        are_ours = any(each.spec.strategy and not each.is_finished for each in migrations)
        wanted, left_alone = [], {}
        for move in first_wave(plan.moves):
            was_requested = is_requested(move.strategy, self._strategies)
            if move.pod in under_way:
                left_alone[move.pod] = "it is being moved already"
            elif are_ours and not was_requested:
                left_alone[move.pod] = "earlier moves are still under way"
            else:
                wanted.append(move)
        return wanted, left_alone

    async def _ask_for(self, move: Move, snapshot: Snapshot, migrations: list[Migration]) -> bool:
        """Create the Migration for a move; False if it could not be."""
        row = snapshot.pods.find(move.pod)
        assert row is not None
        ended = [each.status.finished_at for each in migrations if each.pod_key == move.pod]
        last = max((moment for moment in ended if moment is not None), default=None)
        may_evict = self.policy.migration.deployment_coordination
        body = body_for(move, snapshot.pods.uids[row], again=str(last or ""), may_evict=may_evict)
        try:
            return await request(self._server, body) is not None
        except ReschedulerError as error:
            extra = {"pod": move.pod, "target": move.target, "error": str(error)}
            logger.warning("Failed to ask for a move", extra=extra)
            return False

    def _tell(self, made: Round, why: str) -> None:
        """A line per round, also for an idle one."""
        extra = {
            **({"why": why} if why else {}),
            "summary": made.plan.summary,
            "moves": len(made.asked_for),
            "left_alone": len(made.left_alone),
            "blocked": len(made.plan.blocked),
            "dry_run": self._dry_run,
        }
        logger.info("Finished a round", extra=extra)
        for move in made.asked_for:
            verb = "Would have asked for a move" if self._dry_run else "Asked for a move"
            where = {"pod": move.pod, "source": move.source, "target": move.target}
            logger.info(verb, extra={**where, "mode": str(move.mode), "why": move.reason})
        for pod, why in made.left_alone.items():
            logger.info("Left a planned move alone", extra={"pod": pod, "why": why})

    # ------------------------------------------------------------ maintenance

    def _node_changed(self, change: TableChange) -> None:
        """A maintenance label that comes or goes is worth a round of its own."""
        label = self.policy.node_maintenance.maintenance_label
        node = self._watching.tables.nodes.get(change.key)
        is_marked = node is not None and is_under_maintenance(node, label)
        if is_marked != (change.key in self._under_maintenance):
            self._under_maintenance ^= {change.key}
            self.soon()

    async def _cordon_nodes(self) -> None:
        """Cordon and uncordon what maintenance labels ask for."""
        if self._dry_run:
            return
        label = self.policy.node_maintenance.maintenance_label
        may_cordon = cordons_nodes(self.policy, self._strategies)
        for name, node in self._watching.tables.nodes.by_key().items():
            patch = cordon_patch(node, label, may_cordon=may_cordon)
            if patch is None:
                continue
            try:
                await self._server.patch(object_path(NODE, name), patch)
            except (Conflict, OutcomeUnknown, NotFound):
                # It has changed or gone meanwhile; the watch will show how.
                self.soon()
                continue
            verb = "Cordoned a node" if is_under_maintenance(node, label) else "Uncordoned a node"
            logger.info(verb, extra={"node": name, "why": f"its label {label.key}"})

    async def _until_next(self) -> None:
        """Wait for the interval, or for something that does not wait."""
        try:
            async with asyncio.timeout(self.policy.rescheduling_interval_seconds):
                await self._early.wait()
                await asyncio.sleep(SOON_SECONDS)
        except TimeoutError:
            pass
        self._early.clear()


def is_stale(migration: Migration, now: datetime) -> bool:
    """Whether a planned move has waited so long that it may no longer be a good one."""
    created = migration.metadata.creation_timestamp
    waits = migration.status.phase == Phase.PENDING and not migration.status.attempts
    is_planned = bool(migration.spec.strategy) and not migration.spec.paused
    return is_planned and waits and created is not None and now - created > PLANS_ARE_GOOD_FOR


def first_wave(moves: tuple[Move, ...]) -> list[Move]:
    """The moves that may be made now; later waves are planned for anew when these are made."""
    return [move for move in moves if move.wave == moves[0].wave]
