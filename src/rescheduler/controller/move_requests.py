"""Turns planned moves into Migrations."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from rescheduler.errors import ApiError, ReschedulerError
from rescheduler.kube.api_server import ApiServer
from rescheduler.log_context import UID_FIELD, about_migration
from rescheduler.migration.migration_object import Migration
from rescheduler.migration.migration_request import create_migration, migration_body
from rescheduler.model.moves import Mode
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.context import LaterMove, MoveInFlight
from rescheduler.planning.plan import Move, Plan
from rescheduler.planning.strategies import is_requested
from rescheduler.planning.strategies.strategy import Strategy
from rescheduler.settings import Policy

logger = logging.getLogger(__name__)

ALREADY_THERE = "a Migration of this name is there already"


def migration_for_move(
    move: Move, uid: str, *, salt: str = "", may_evict: bool = False, by_hand: bool = False
) -> dict[str, Any]:
    """The body of the Migration for a planned move.

    `may_evict` lets a handoff that turns out not to fit continue as an eviction. `by_hand` says
    that a person requested it: such a Migration is not deleted when it has to wait.
    """
    return migration_body(
        move.pod,
        uid,
        move.target,
        mode=Mode.AUTO if may_evict and move.mode == Mode.HANDOFF else move.mode,
        strategy="" if by_hand else move.strategy,
        reason=move.reason,
        salt=salt,
    )


def select_moves(
    plan: Plan,
    in_flight: Sequence[MoveInFlight],
    policy: Policy,
    strategies: Mapping[str, type[Strategy]],
) -> tuple[list[Move], dict[str, str]]:
    """The moves to request now, and by pod why the others are skipped.

    A plan made for what a person asked for may have more moves than earlier ones leave to others.
    """
    counted = sum(move.counts_as_planned for move in in_flight)
    most = policy.max_reschedule_pods
    selected, skipped = [], {}
    for move in first_wave(plan.moves):
        if counted >= most and not is_requested(move.strategy, strategies):
            skipped[move.pod] = f"maxReschedulePods ({most}) moves are not finished"
        else:
            selected.append(move)
            counted += 1
    return selected, skipped


def first_wave(moves: tuple[Move, ...]) -> list[Move]:
    """The moves that may run now; later waves are planned anew when these are finished."""
    return [move for move in moves if move.wave == moves[0].wave]


def first_moves(moves: Sequence[Move]) -> list[Move]:
    """The first move of each pod: one that is parked moves on when it has another name."""
    first: dict[str, Move] = {}
    for move in moves:
        first.setdefault(move.pod, move)
    return list(first.values())


def later_moves(plan: Plan) -> tuple[LaterMove, ...]:
    """The moves of later waves, for the planner to go on with."""
    first = {move.pod for move in first_wave(plan.moves)}
    return tuple(LaterMove(move.pod, move.target) for move in plan.moves if move.pod not in first)


class MoveRequester:
    """Creates the Migrations of planned moves."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def request(
        self, move: Move, snapshot: Snapshot, migrations: list[Migration], *, may_evict: bool
    ) -> str:
        """Create the Migration for a move, and log it; why that failed, empty if it did not."""
        row = snapshot.pods.find(move.pod)
        assert row is not None
        # The same move may be requested again after an earlier Migration has finished.
        finish_times = [
            migration.status.finished_at
            for migration in migrations
            if migration.pod_key == move.pod and migration.status.finished_at is not None
        ]
        salt = str(max(finish_times, default=""))
        uid = snapshot.pods.uids[row]
        body = migration_for_move(move, uid, salt=salt, may_evict=may_evict)
        with about_migration(f"{body['metadata']['namespace']}/{body['metadata']['name']}"):
            return await self._create(body, move)

    async def _create(self, body: dict[str, Any], move: Move) -> str:
        extra = fields_of(move)
        try:
            created = await create_migration(self._server, body)
        except ReschedulerError as error:
            logger.warning("Failed to create a migration", extra={**extra, "error": str(error)})
            return error.answer if isinstance(error, ApiError) else str(error)
        if created is None:
            return ALREADY_THERE
        extra |= {UID_FIELD: created.metadata.uid}
        logger.info("Requested a move", extra=extra)
        return ""


def fields_of(move: Move) -> dict[str, str]:
    """What the log says about a move."""
    return {
        "pod": move.pod,
        "source": move.source,
        "target": move.target,
        "mode": str(move.mode),
        "strategy": move.strategy,
        "why": move.reason,
    }
