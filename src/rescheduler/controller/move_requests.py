"""Turns planned moves into Migrations."""

import logging
from collections.abc import Mapping
from typing import Any

from rescheduler.errors import ReschedulerError
from rescheduler.kube.api_server import ApiServer
from rescheduler.migration.migration_object import Migration
from rescheduler.migration.migration_request import create_migration, migration_body
from rescheduler.model.moves import Mode
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.plan import Move, Plan
from rescheduler.planning.strategies import is_requested
from rescheduler.planning.strategies.strategy import Strategy

logger = logging.getLogger(__name__)


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
    plan: Plan, migrations: list[Migration], strategies: Mapping[str, type[Strategy]]
) -> tuple[list[Move], dict[str, str]]:
    """The moves to request now, and by pod why the others are skipped.

    While earlier planned moves are in progress, only those that a person asked for are added.
    """
    unfinished = [migration for migration in migrations if not migration.is_finished]
    moving_pods = {migration.pod_key for migration in unfinished}
    has_planned_moves = any(migration.spec.strategy for migration in unfinished)
    selected, skipped = [], {}
    for move in first_wave(plan.moves):
        if move.pod in moving_pods:
            skipped[move.pod] = "the pod is already being moved"
        elif has_planned_moves and not is_requested(move.strategy, strategies):
            skipped[move.pod] = "earlier moves are not finished"
        else:
            selected.append(move)
    return selected, skipped


def first_wave(moves: tuple[Move, ...]) -> list[Move]:
    """The moves that may run now; later waves are planned anew when these are finished."""
    return [move for move in moves if move.wave == moves[0].wave]


class MoveRequester:
    """Creates the Migrations of planned moves."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def request(
        self, move: Move, snapshot: Snapshot, migrations: list[Migration], *, may_evict: bool
    ) -> bool:
        """Create the Migration for a move; whether it was created."""
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
        try:
            return await create_migration(self._server, body) is not None
        except ReschedulerError as error:
            extra = {"pod": move.pod, "target": move.target, "error": str(error)}
            logger.warning("Failed to create a migration", extra=extra)
            return False
